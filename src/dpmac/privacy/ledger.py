"""The ledger: every release, in order, append-only; and the only thing the accountant reads.

Kept in memory and, when it has a file, as JSON lines on disk: a header, then one line per release, flushed to the
disk *before* the release hands anything back. So a crash can lose a result that was paid for, never a payment.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.privacy.accounting import Accountant, Mechanism, epsilon_of, merged
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

    def mechanism(self) -> Mechanism:
        return Mechanism(self.noise_multiplier, self.sample_rate, 1, self.label)

    def to_dict(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "noise_multiplier": self.noise_multiplier,
            "sample_rate": self.sample_rate,
            "seeded": self.seeded,
            "scales": {name: scale if math.isfinite(scale) else None for name, scale in self.scales.items()},
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Entry:
        """Read back what :meth:`to_dict` wrote; a line with a missing or strange field is refused, never guessed."""
        scales = {name: math.inf if scale is None else float(scale) for name, scale in raw["scales"].items()}
        if not isinstance(raw["seeded"], bool):
            raise ValueError(f"seeded={raw['seeded']!r} is not true or false")
        entry = cls(str(raw["label"]), float(raw["noise_multiplier"]), float(raw["sample_rate"]), raw["seeded"], scales)
        entry.mechanism()  # checks the numbers
        return entry


class Ledger:
    """Append-only releases. ``Ledger(path)`` starts a new file; ``Ledger.load(path)`` goes on with an old one."""

    def __init__(self, path: str | Path | None = None) -> None:
        self._entries: list[Entry] = []
        self._path = None if path is None else Path(path)
        if self._path is not None:
            if self._path.exists():
                raise ArgumentError("path", str(path), "a ledger is already there: use Ledger.load to continue it")
            self._write({"format": FORMAT})

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: Entry) -> None:
        """Record a release. The line is on the disk when this returns."""
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
        lines = "".join(_line(entry.to_dict()) for entry in self._entries)
        _append(copy._path or Path(path), lines)

    @classmethod
    def load(cls, path: str | Path) -> Ledger:
        """Read a ledger and go on appending to its file.

        A last line that a crash cut short is dropped (its release never returned); any other damage is an error.
        """
        where = Path(path)
        text = where.read_text(encoding="utf-8")
        lines = text.split("\n")
        whole, rest = lines[:-1], lines[-1]
        if not whole or _parse(where, 1, whole[0]).get("format") != FORMAT:
            raise ValueError(f"{where} is not a dpmac ledger: its first line is not a {FORMAT} header")
        ledger = cls()
        for number, line in enumerate(whole[1:], start=2):
            raw = _parse(where, number, line)
            try:
                ledger._entries.append(Entry.from_dict(raw))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise ValueError(f"{where}, line {number}: not a ledger entry ({error})") from error
        ledger._path = where
        if rest:
            with where.open("r+b") as handle:
                handle.truncate(len(text.encode()) - len(rest.encode()))
        return ledger

    def _write(self, raw: dict[str, Any]) -> None:
        assert self._path is not None
        _append(self._path, _line(raw))

    def __repr__(self) -> str:
        return f"Ledger({len(self)} releases)"


def _line(raw: dict[str, Any]) -> str:
    return json.dumps(raw, allow_nan=False) + "\n"


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        raw = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {number}: damaged ({error})") from error
    if not isinstance(raw, dict):
        raise ValueError(f"{path}, line {number}: damaged (not an object)")
    return raw
