"""The ledger: every release, in order, append-only; and the only thing the accountant reads.

Kept in memory and, when it has a file, as JSON lines on disk: a header, then one line per release, flushed to the
disk *before* the release hands anything back. So a crash can lose a result that was paid for, never a payment.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from dpmac.checks import ArgumentError
from dpmac.privacy.accounting import Accountant, Mechanism, epsilon_of, merged
from dpmac.privacy.sampling import NO_ROOM
from dpmac.privacy.statement import Statement

FORMAT = "dpmac-ledger-1"


@dataclass(frozen=True)
class Entry:
    """One release: what the accountant needs, and what an auditor wants to see."""

    label: str
    noise_multiplier: float
    sample_rate: float
    seeded: bool = False
    scales: Mapping[str, float] = field(default_factory=dict)
    overflow: float = 0.0  # the chance that the sample was cut to its room

    def mechanism(self) -> Mechanism:
        return Mechanism(self.noise_multiplier, self.sample_rate, 1, self.label, self.overflow)

    def to_dict(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "noise_multiplier": self.noise_multiplier,
            "sample_rate": self.sample_rate,
            "overflow": self.overflow,
            "seeded": self.seeded,
            "scales": {name: scale if math.isfinite(scale) else None for name, scale in self.scales.items()},
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Entry:
        """Read back what :meth:`to_dict` wrote; a line with a missing or strange field is refused, never guessed.

        Versions that wrote no ``overflow`` had room for all but one sample in 2**80.
        """
        raw = {"overflow": 0.0 if raw["sample_rate"] == 1 else NO_ROOM, **raw}
        if set(raw) != {"label", "noise_multiplier", "sample_rate", "overflow", "seeded", "scales"}:
            raise ValueError(f"its fields are {sorted(raw)}")
        numbers = [raw["noise_multiplier"], raw["sample_rate"], raw["overflow"]]
        numbers += [v for v in raw["scales"].values() if v is not None]
        strange = [value for value in numbers if isinstance(value, bool) or not isinstance(value, int | float)]
        if strange or not isinstance(raw["seeded"], bool) or not isinstance(raw["label"], str):
            raise ValueError("a field has the wrong type")
        scales = {name: math.inf if scale is None else float(scale) for name, scale in raw["scales"].items()}
        noise, rate, overflow = (float(raw[name]) for name in ("noise_multiplier", "sample_rate", "overflow"))
        entry = cls(raw["label"], noise, rate, raw["seeded"], scales, overflow)
        entry.mechanism()  # checks the numbers
        return entry


class Ledger:
    """Append-only releases. ``Ledger(path)`` starts a new file; ``Ledger.load(path)`` goes on with an old one."""

    def __init__(self, path: str | Path | None = None) -> None:
        self._entries: list[Entry] = []
        self._path = None if path is None else Path(path)
        self._size = 0  # bytes of the file that this object knows of
        self._copied = False
        if self._path is not None:
            try:
                self._path.open("xb").close()  # made here, or not at all
            except FileExistsError:
                fix = "a ledger is already there: use Ledger.load to continue it"
                raise ArgumentError("path", str(path), fix) from None
            _sync_folder(self._path.parent)
            self._write({"format": FORMAT})

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: Entry) -> None:
        """Record a release. The line is on the disk when this returns."""
        if self._copied:
            raise RuntimeError(
                "this ledger came out of a pickle (another process, a saved model): what it recorded would be lost to "
                "the one it was copied from. Give the path of a file as the ledger, or work in one process"
            )
        entry.mechanism()  # refuses numbers the accountant could not read, before anything is kept
        if self._path is not None:
            self._write(entry.to_dict())
        self._entries.append(entry)

    def mechanisms(self) -> tuple[Mechanism, ...]:
        """What was released, equal releases counted together."""
        return merged(entry.mechanism() for entry in self._entries)

    @property
    def seeded(self) -> bool:
        """True if any release drew its noise from a seeded generator."""
        return any(entry.seeded for entry in self._entries)

    def epsilon(self, delta: float, accountant: Accountant = "pld") -> float:
        """The epsilon at ``delta`` of everything in the ledger."""
        return epsilon_of(self.mechanisms(), delta, accountant)

    def statement(self, delta: float, notes: tuple[str, ...] = ()) -> Statement:
        """The guarantee in plain sentences; ``notes`` are added to what it does not cover."""
        return Statement(self.mechanisms(), delta, self.seeded, notes)

    def save(self, path: str | Path) -> None:
        """Write the whole ledger to a new file, in the format that :meth:`load` reads."""
        copy = Ledger(path)
        copy._write(*(entry.to_dict() for entry in self._entries))

    @classmethod
    def load(cls, path: str | Path) -> Ledger:
        """Read a ledger and go on appending to its file.

        A last line that a crash cut short is dropped (its release never returned); any other damage is an error.
        """
        where = Path(path)
        raw = where.read_bytes()
        whole, _, rest = raw.rpartition(b"\n")
        if rest and _is_whole(rest):  # only the newline is missing: the payment counts
            whole = raw
        lines = whole.split(b"\n")
        if _parse(where, 1, lines[0]).get("format") != FORMAT:
            raise ValueError(f"{where} is not a dpmac ledger: its first line is not a {FORMAT} header")
        ledger = cls()
        for number, line in enumerate(lines[1:], start=2):
            try:
                ledger._entries.append(Entry.from_dict(_parse(where, number, line)))
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise ValueError(f"{where}, line {number}: not a ledger entry ({error})") from error
        ledger._path, ledger._size = where, len(raw)
        if rest:
            with where.open("r+b") as handle, _locked(handle):
                if handle.seek(0, os.SEEK_END) != len(raw):
                    raise RuntimeError(f"{where} was changed by someone else: a ledger has one writer. Load it again")
                handle.truncate(len(whole))
                handle.seek(0, os.SEEK_END)
                handle.write(b"\n")
            ledger._size = len(whole) + 1
        return ledger

    def _write(self, *lines: dict[str, Any]) -> None:
        """Append lines and wait until they are on the disk; if that fails, leave the file as it was."""
        assert self._path is not None
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode()
        with self._path.open("r+b") as handle, _locked(handle):
            if handle.seek(0, os.SEEK_END) != self._size:
                raise RuntimeError(f"{self._path} was changed by someone else: a ledger has one writer. Load it again")
            try:
                handle.write(text)
                handle.flush()
                os.fsync(handle.fileno())
            except OSError:
                handle.truncate(self._size)
                raise
        self._size += len(text)

    @classmethod
    def at(cls, where: Ledger | str | Path | None) -> Ledger:
        """The ledger that is meant: one given, the one in a file (gone on with, or begun), or a new one in memory."""
        if isinstance(where, Ledger):
            return where
        if where is None:
            return cls()
        if not isinstance(where, str | Path):
            raise ArgumentError("ledger", where, "give a Ledger, the path of one, or None")
        return cls.load(where) if Path(where).exists() else cls(where)

    def __getstate__(self) -> dict[str, Any]:
        """A ledger in memory that comes out of a pickle is a copy, and says so if anyone wants to go on with it."""
        return {**self.__dict__, "_copied": self._path is None}

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        """Itself: what is spent is spent once, and a copy of whoever holds a ledger (``clone``) goes on with it."""
        memo[id(self)] = self
        return self

    def __repr__(self) -> str:
        return f"Ledger({len(self)} releases)"


@contextmanager
def _locked(handle: BinaryIO) -> Iterator[None]:
    """Alone with the file, where the system has locks: a second writer must not come between a look and a write."""
    try:
        import fcntl
    except ImportError:  # not POSIX: the look at the size is all there is
        yield
        return
    fcntl.flock(handle, fcntl.LOCK_EX)  # given back when the file is closed
    yield


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable, where the system lets a folder be synced."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_whole(line: bytes) -> bool:
    try:
        Entry.from_dict(json.loads(line))
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return True


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        raw = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: damaged ({error})") from error
    if not isinstance(raw, dict):
        raise ValueError(f"{path}, line {number}: damaged (not an object)")
    return raw
