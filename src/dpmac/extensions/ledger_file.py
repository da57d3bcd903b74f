"""A ledger's file: a header, then one line of JSON per release, each with a digest of everything before it.

    {"format": "dpmac-ledger-2", "data_set": "hospital", "created": "...", "entries": "000000000002", "head": "9f..."}
    {"label": "training step", ..., "chain": "41..."}
    {"label": "training step", ..., "chain": "9f..."}

A line that is edited, dropped, duplicated or moved breaks the chain; the header's count reveals lines that were cut off
at the end. This detects accidents and careless edits. It is not a signature: whoever rewrites the whole file on purpose
can compute a new chain. An old copy that is put back is detected by whoever kept the last digest: a checkpoint does,
and so does the rollback guard (:mod:`dpmac.extensions.rollback_guard`).

The file is created with its first line, so a ledger without releases leaves no file behind, and nobody ever has a
reason to remove one. One that is opened with an account (:mod:`dpmac.extensions.accounts`) is there from then on: its
header has the format "dpmac-ledger-3", which older versions refuse, and the total, which the chain begins with. So is
one whose data set was divided (:mod:`dpmac.extensions.splits`): "dpmac-ledger-4", and how it was divided.
Dates are days: finer ones would reveal how long a program worked on the rows.

A line is on the disk before :meth:`LedgerFile.append` returns. The header's count is updated after it, and is never
ahead. So a crash can leave a line that the header does not count yet (it is valid all the same), or a torn last line
(whose release never returned; it is dropped at the next write), but never the reverse.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from dpmac.checks import ArgumentError
from dpmac.extensions import rollback_guard
from dpmac.extensions.accounts import Account
from dpmac.extensions.ledger_header import Header, digest, first_line, parsed_line
from dpmac.extensions.splits import Splits
from dpmac.files import part_of, sync
from dpmac.limits import finite_json

LONGEST = 200  # characters of a data set's name: the header fits in one sector, which a disk writes atomically


class LedgerFile:
    """An open ledger file that only this object may write: another writer is detected and rejected."""

    def __init__(self, path: Path, header: Header, size: int, heads: list[str], *, renew: bool = False) -> None:
        self.path, self.header = path, header
        self._size, self._to_renew = size, renew
        self.heads = heads  # the digest after every line, starting with the header's root
        self._torn: int | None = None  # offset of a torn last line
        self.guarded = True  # whether the rollback guard records every release

    @classmethod
    def begin(
        cls, path: Path, data_set: str, created: str, account: Account | None = None, splits: Splits | None = None
    ) -> LedgerFile:
        """A new ledger, whose file is created with its first line. A file that is not empty is never touched."""
        if len(json.dumps(data_set)) > LONGEST:
            raise ArgumentError("data_set", data_set, f"give a name of at most {LONGEST - 2} characters")
        if _held(path):
            raise ArgumentError("path", str(path), "a ledger is already there: use Ledger.load to continue it")
        rollback_guard.check_none(path)
        place = path if path.exists() else path.absolute().parent
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        header = Header(data_set, created, account=account, splits=splits)
        return cls(path, header, 0, [header.root()])

    @property
    def begun(self) -> bool:
        """Whether the file exists, which it does after the first line."""
        return self._size > 0

    @classmethod
    def open(cls, path: Path) -> tuple[LedgerFile, list[dict[str, Any]]]:
        """The file and its lines; a ValueError says which line is damaged, or that lines are missing."""
        seen = rollback_guard.recorded(path)  # first: with a write between the two reads, the guard must not be ahead
        raw = path.read_bytes()
        whole, _, rest = raw.rpartition(b"\n")
        lines = [line.rstrip(b"\r") for line in whole.split(b"\n")] if whole else []
        header, old = first_line(path, lines)
        found, heads = _checked_lines(path, lines[1:], header, old)
        more = _last(rest, heads[-1], old)
        if more is not None:  # only the newline is missing: the release is recorded
            found.append(more)
            heads.append(heads[-1])
            if not old:
                heads[-1] = str(more["chain"])
        _check_count(path, header, found)
        rollback_guard.check(path, heads, seen)
        renew = old or b"\r\n" in raw  # an editor changed the line ends: the header cannot be overwritten in place
        file = cls(path, header, len(raw), heads, renew=renew)
        if more is not None:
            file._torn = len(raw)
        elif rest:
            file._torn = len(whole) + 1
        return file, [{key: value for key, value in line.items() if key != "chain"} for line in found]

    def append(self, *lines: Mapping[str, Any]) -> None:
        """Append lines and wait until they are on the disk; if that fails, the file is unchanged.

        The first call creates the file with its header; without lines it creates a ledger of no releases.
        """
        if self._to_renew:
            self._renew()
        heads, text = self._sealed(lines)
        start = self._size if self._torn is None else self._torn
        with self._exclusive() as handle:
            try:
                handle.truncate(start)
                handle.seek(start)
                _write_all(handle, text)
                os.fsync(handle.fileno())
                if start == 0:
                    sync(self.path.absolute().parent)  # so that its name is on the disk, too
            except BaseException:  # a full disk, or Ctrl-C: nothing was released yet
                handle.truncate(start)
                self._size = start
                self._torn = start if text.startswith(b"\n") else None
                raise
            self._torn, self._size = None, start + len(text)
            self.heads += heads
            handle.seek(0)
            _write_all(handle, replace(self.header, entries=len(self.heads) - 1, head=self.heads[-1]).line())
        if self.guarded:
            rollback_guard.note(self.path, self.heads)

    def open_account(self, account: Account) -> None:
        """Put an account into the header."""
        self._reseal(replace(self.header, account=account))

    def divide(self, splits: Splits) -> None:
        """Put the splits into the header."""
        self._reseal(replace(self.header, splits=splits))

    def _reseal(self, header: Header) -> None:
        """Seal every line anew behind another header. A crash leaves the file as it was, or whole."""
        self._check_one_name()
        rollback_guard.guard_file_of(self.path).unlink(missing_ok=True)  # it knows the old digests
        before, heads = self.header, self.heads
        self.header = header
        try:
            if self.begun:
                self._renew()
            else:
                self.heads = [self.header.root()]
                self.append()
        except BaseException:  # a full disk: the file has the old header, and is continued with it
            self.header, self.heads = before, heads
            raise
        finally:
            if self.begun:
                rollback_guard.note(self.path, self.heads)

    def check_unchanged(self) -> None:
        """Raise if somebody else has written to the file since this object last saw it."""
        if self.path.exists() and self.path.stat().st_size != self._size:
            raise RuntimeError(f"{self.path} was changed by someone else: a ledger has one writer. Load it again")

    def _sealed(self, lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], bytes]:
        """The digest after each line, and the bytes to write, including a missing header or newline before them."""
        head, heads, text = self.heads[-1], list[str](), b""
        if not self.begun:
            text = self.header.line()
        elif self._torn == self._size:  # a last line that lacks only its newline
            text = b"\n"
        for line in lines:
            head = digest(head, line)
            heads.append(head)
            text += json.dumps({**line, "chain": head}).encode() + b"\n"
        return heads, text

    @contextmanager
    def _exclusive(self) -> Iterator[IO[bytes]]:
        """The file, locked for writing, provided that it is unchanged since this object last saw it."""
        if not self.begun and not _held(self.path):
            rollback_guard.check_none(self.path)
        flags = os.O_RDWR | getattr(os, "O_BINARY", 0)
        if not self.begun:
            flags |= os.O_CREAT
        opened = os.open(self.path, flags, 0o666)
        with os.fdopen(opened, "r+b", buffering=0) as handle, _locked(handle):
            size = handle.seek(0, os.SEEK_END)
            # another process that renewed the file in the meantime has replaced it by a new one
            if size != self._size or not os.path.samestat(os.fstat(opened), os.stat(self.path)):
                raise RuntimeError(f"{self.path} was changed by someone else: a ledger has one writer. Load it again")
            yield handle

    def _check_one_name(self) -> None:
        """Raise if the file has a second name, a hard link: that would keep the old file, and go on as a second ledger
        that knows of no account and of no later release."""
        if self.begun and self.path.stat().st_nlink > 1:
            fix = "the file has a second name (a hard link), which would go on without it: remove that name first"
            raise ArgumentError("ledger", str(self.path), fix)

    def _renew(self) -> None:
        """Rewrite a file of version 0.1, which has no chain, in the current format, and replace the old one."""
        self._check_one_name()
        with self._exclusive():
            _, lines = LedgerFile.open(self.path)
            place = self.path.resolve()  # keep a link a link
            beside = part_of(place)
            known = self.header
            fresh = LedgerFile.begin(beside, known.data_set, known.created, known.account, known.splits)
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
    """Whether there is a file that is not empty."""
    return path.exists() and path.stat().st_size > 0


def _checked_lines(path: Path, lines: list[bytes], header: Header, old: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """All whole lines, after checking the chain from the header's root, and the digest after each."""
    found, head = [], header.root()
    heads = [head]
    for number, raw in enumerate(lines, start=2):
        line = parsed_line(path, number, raw)
        if old and "chain" in line:
            raise ValueError(f"{path}, line {number}: chained, in a file whose header says that there is no chain")
        if not old:
            head = digest(head, {key: value for key, value in line.items() if key != "chain"})
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
    """The last line if only its newline is missing; None if it is torn or empty."""
    try:
        line = finite_json(rest)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    plain = {key: value for key, value in line.items() if key != "chain"}
    if not old and line.get("chain") != digest(head, plain):
        return None
    return line


def _write_all(handle: Any, text: bytes) -> None:
    """Write all of ``text`` unbuffered: after a failure nothing more can be written later."""
    rest = memoryview(text)
    while rest:
        rest = rest[handle.write(rest) :]


@contextmanager
def _locked(handle: IO[bytes]) -> Iterator[None]:
    """Lock the file, if the system has locks, so that no other writer can interfere between a check and a write."""
    try:
        import fcntl
    except ImportError:  # not POSIX: the check of the size must suffice
        yield
        return
    fcntl.flock(handle, fcntl.LOCK_EX)  # released when the file is closed
    yield
