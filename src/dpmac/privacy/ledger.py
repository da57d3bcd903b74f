"""The releases from one data set, in order: what was paid for, and the only thing that the accountant reads.

An entry is appended before any noise of its release is drawn. What users hold is the
:class:`~dpmac.extensions.ledgers.Ledger`, which also keeps a file, dates and the names of runs; a release needs no more
of it than what stands here.
"""

from __future__ import annotations

from dpmac.checks import ArgumentError
from dpmac.privacy.accounting import Accountant, Mechanism, epsilon_of, merged
from dpmac.privacy.entry import Entry
from dpmac.privacy.sampling import ROW
from dpmac.privacy.statement import Statement


class Releases:
    """An append-only list of entries. Nothing is ever removed or changed."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: Entry) -> None:
        """Record a release. If this returns, it is recorded for good; if it raises, nothing may be released."""
        entry.mechanism()  # refuses numbers the accountant could not read, before anything is kept
        self.check_unit(entry.unit)
        self._keep(entry)

    def _keep(self, entry: Entry) -> None:
        self._entries.append(entry)

    @property
    def unit(self) -> str:
        """Whose privacy all entries are about; "row" as long as there is none."""
        return self._entries[0].unit if self._entries else ROW

    def check_unit(self, unit: str) -> None:
        """Refuse a release of another unit: a guarantee for single rows says little of a person who has many."""
        if self._entries and unit != self.unit:
            fix = f"it holds releases whose unit of privacy is a {self.unit}, not a {unit}: give another ledger"
            raise ArgumentError("ledger", self, fix)

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
        return Statement(self.mechanisms(), delta, self.seeded, notes, self.unit)
