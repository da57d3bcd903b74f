"""A ledger's file: a header, then one line of JSON for each release, each sealed by a digest of everything before it.

    {"format": "dpmac-ledger-2", "data_set": "hospital", "created": "...", "entries": "000000000002", "head": "9f..."}
    {"label": "training step", ..., "chain": "41..."}
    {"label": "training step", ..., "chain": "9f..."}

A line that is edited, dropped, doubled or moved breaks the chain; lines cut off at the end are missed by the header's
count. This notices accidents and hasty hands. It is no signature: whoever rewrites the whole file on purpose can make
a new chain; and an old copy that is put back whole is noticed by whoever kept the last digest: a checkpoint does, and
the file's witness (:mod:`dpmac.extensions.rollback_guard`).

The file is made together with its first line, so a ledger that nothing was released into leaves no file behind, and
nobody ever has a reason to remove one. Dates are days: a finer one would tell how long a program worked on the rows.

A line is on the disk before :meth:`LedgerFile.append` returns; the header's count follows it, and never runs ahead. So
a crash can leave a line that the header does not count yet (it counts all the same), or a torn last line (whose release
never returned: it is dropped when writing goes on), never the other way round.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from dpmac.checks import ArgumentError
from dpmac.extensions import rollback_guard
from dpmac.files import part_of, sync

FORMAT, OLD_FORMAT = "dpmac-ledger-2", "dpmac-ledger-1"
_DIGITS = 12
_LONGEST = 200  # characters of a data set's name: the header stays within one sector, which a disk writes whole or not


@dataclass(frozen=True)
class Header:
    """The first line. Its count and its head are overwritten in place, so its length never changes."""

    data_set: str
    created: str
    entries: int = 0
    head: str = ""

    def line(self) -> bytes:
        fields = {**self._fixed(), "entries": f"{self.entries:0{_DIGITS}d}", "head": self.head or self.root()}
        return json.dumps(fields).encode() + b"\n"

    def root(self) -> str:
        """What the first line's chain starts from."""
        return _digest("", self._fixed())

    def _fixed(self) -> dict[str, Any]:
        return {"format": FORMAT, "data_set": self.data_set, "created": self.created}


class LedgerFile:
    """An open ledger file, which only this object may write: another writer is noticed and refused."""

    def __init__(self, path: Path, header: Header, size: int, heads: list[str], *, renew: bool = False) -> None:
        self.path, self.header = path, header
        self._size, self._to_renew = size, renew
        self.heads = heads  # the digest after every line, the header's root first
        self._torn: int | None = None  # where a torn last line begins
        self.guarded = True  # whether its witness is told of every release

    @classmethod
    def begin(cls, path: Path, data_set: str, created: str) -> LedgerFile:
        """A new ledger, whose file is made with its first line. A file with anything in it is never touched."""
        if len(json.dumps(data_set)) > _LONGEST:
            raise ArgumentError("data_set", data_set, f"give a name of at most {_LONGEST - 2} characters")
        if _held(path):
            raise ArgumentError("path", str(path), "a ledger is already there: use Ledger.load to continue it")
        rollback_guard.check_none(path)
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        header = Header(data_set, created)
        return cls(path, header, 0, [header.root()])

    @property
    def begun(self) -> bool:
        """Whether there is a file: not before the first line."""
        return self._size > 0

    @classmethod
    def open(cls, path: Path) -> tuple[LedgerFile, list[dict[str, Any]]]:
        """The file and its lines; a ValueError says which line is damaged, or that lines are missing."""
        seen = rollback_guard.told(path)  # first: a writer that comes between the two reads must not make it look ahead
        raw = path.read_bytes()
        whole, _, rest = raw.rpartition(b"\n")
        lines = [line.rstrip(b"\r") for line in whole.split(b"\n")] if whole else []
        first = _parsed(path, 1, lines[0]) if lines else {}
        old = first.get("format") == OLD_FORMAT
        if first.get("format") != FORMAT and not old:
            raise ValueError(f"{path} is not a dpmac ledger: its first line is not a {FORMAT} header")
        header = Header("", "") if old else _header(path, first, lines[0])
        found, heads = _checked_lines(path, lines[1:], header, old)
        if (
            rest and (more := _last(rest, heads[-1], old)) is not None
        ):  # only the newline is missing: the payment counts
            found.append(more)
            heads.append(heads[-1] if old else str(more["chain"]))
        _check_count(path, header, found)
        rollback_guard.check(path, heads, seen)
        renew = old or b"\r\n" in raw  # some editor's line ends: no header can be overwritten in place there
        file = cls(path, header, len(raw), heads, renew=renew)
        if rest:
            file._torn = len(whole) + 1 if len(found) == len(lines) - 1 else len(raw)
        return file, [{key: value for key, value in line.items() if key != "chain"} for line in found]

    def append(self, *lines: Mapping[str, Any]) -> None:
        """Add lines and wait until they are on the disk; if that fails, the file is left as it was.

        The first call makes the file, with its header; without lines it makes a ledger of no releases.
        """
        if self._to_renew:
            self._renew()
        heads, text = self._sealed(lines)
        with self._alone() as handle:
            start = self._size if self._torn is None else self._torn
            try:
                handle.truncate(start)
                handle.seek(start)
                _write_all(handle, text)
                os.fsync(handle.fileno())
                if start == 0:
                    sync(self.path.absolute().parent)  # its name is on the disk, too
            except BaseException:  # a full disk, or Ctrl-C: nothing was released yet
                handle.truncate(start)
                self._size, self._torn = start, start if text.startswith(b"\n") else None
                raise
            self._torn, self._size = None, start + len(text)
            self.heads += heads
            handle.seek(0)
            _write_all(handle, replace(self.header, entries=len(self.heads) - 1, head=self.heads[-1]).line())
        if self.guarded:
            rollback_guard.note(self.path, self.heads)

    def _sealed(self, lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], bytes]:
        """The digest after each line, and all of them as they will stand in the file, after what is missing before."""
        heads = list[str]()
        text = b""
        if not self.begun:
            text = self.header.line()
        elif self._torn == self._size:  # a last line that lacks only its newline
            text = b"\n"
        for line in lines:
            heads.append(_digest(heads[-1] if heads else self.heads[-1], line))
            text += json.dumps({**line, "chain": heads[-1]}).encode() + b"\n"
        return heads, text

    @contextmanager
    def _alone(self) -> Iterator[IO[bytes]]:
        """The file to write to, while nobody else does, and only if it is as this object knows it."""
        if not self.begun and not _held(self.path):
            rollback_guard.check_none(self.path)
        flags = os.O_RDWR | getattr(os, "O_BINARY", 0)
        opened = os.open(self.path, flags if self.begun else flags | os.O_CREAT, 0o666)
        with os.fdopen(opened, "r+b", buffering=0) as handle, _locked(handle):
            size = handle.seek(0, os.SEEK_END)
            # whoever renewed the file while this process waited has put another one in its place
            if size != self._size or not os.path.samestat(os.fstat(opened), os.stat(self.path)):
                raise RuntimeError(f"{self.path} was changed by someone else: a ledger has one writer. Load it again")
            yield handle

    def _renew(self) -> None:
        """Write a file of version 0.1, which has no chain, in today's format, and put it in the old one's place."""
        with self._alone():
            _, lines = LedgerFile.open(self.path)
            place = self.path.resolve()  # a link stays one
            beside = part_of(place)
            fresh = LedgerFile.begin(beside, self.header.data_set, self.header.created)
            fresh.guarded = False
            try:
                fresh.append(*lines)
                beside.replace(place)
            finally:
                beside.unlink(missing_ok=True)
            sync(place.parent)
        self.header, self._size, self.heads = fresh.header, fresh._size, fresh.heads
        self._to_renew, self._torn = False, None


def _held(path: Path) -> bool:
    """Whether a file is there, and anything in it."""
    return path.exists() and path.stat().st_size > 0


def _checked_lines(path: Path, lines: list[bytes], header: Header, old: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """All whole lines, their chain followed from the header's root; and the digest after each."""
    found, head = [], header.root()
    heads = [head]
    for number, raw in enumerate(lines, start=2):
        line = _parsed(path, number, raw)
        if old and "chain" in line:
            raise ValueError(f"{path}, line {number}: chained, in a file whose header says that there is no chain")
        if not old:
            head = _digest(head, {key: value for key, value in line.items() if key != "chain"})
            if line.get("chain") != head:
                raise ValueError(f"{path}, line {number}: edited, or a line before it is missing (its chain is broken)")
            if number - 1 == header.entries and head != header.head:
                raise ValueError(f"{path}, line {number}: not the line that the header counted last")
        found.append(line)
        heads.append(head)
    return found, heads


def _check_count(path: Path, header: Header, lines: list[dict[str, Any]]) -> None:
    if len(lines) < header.entries:
        raise ValueError(f"{path} was cut: its header counts {header.entries} releases, but it has {len(lines)}")


def _last(rest: bytes, head: str, old: bool) -> dict[str, Any] | None:
    """The last line if only its newline is missing, None if it is torn."""
    try:
        line = _loaded(rest)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    plain = {key: value for key, value in line.items() if key != "chain"}
    return line if old or line.get("chain") == _digest(head, plain) else None


def _header(path: Path, first: Mapping[str, Any], raw: bytes) -> Header:
    try:
        header = Header(str(first["data_set"]), str(first["created"]), int(first["entries"]), str(first["head"]))
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path}, line 1: damaged (no whole header)") from None
    if header.line() != raw + b"\n" or header.entries < 0 or (header.entries == 0 and header.head != header.root()):
        raise ValueError(f"{path}, line 1: edited (not as this package writes it)")
    return header


def _digest(before: str, line: Mapping[str, Any]) -> str:
    """The digest after ``line``; a ValueError if a number in it is not finite."""
    plain = json.dumps(line, sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"{before}\n{plain}".encode()).hexdigest()


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        raw = _loaded(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}, line {number}: damaged ({error})") from error
    if not isinstance(raw, dict):
        raise ValueError(f"{path}, line {number}: damaged (not an object)")
    return raw


def _loaded(raw: bytes) -> Any:
    return json.loads(raw, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    """A number; a ValueError for NaN and infinity, also where it is written as 1e999."""
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text} is not a finite number")
    return found


def _write_all(handle: Any, text: bytes) -> None:
    """All of ``text``, without a buffer that could come out later: what fails has been written in part, and no more."""
    rest = memoryview(text)
    while rest:
        rest = rest[handle.write(rest) :]


@contextmanager
def _locked(handle: IO[bytes]) -> Iterator[None]:
    """Alone with the file, where the system has locks: a second writer must not come between a look and a write."""
    try:
        import fcntl
    except ImportError:  # not POSIX: the look at the size is all there is
        yield
        return
    fcntl.flock(handle, fcntl.LOCK_EX)  # given back when the file is closed
    yield
