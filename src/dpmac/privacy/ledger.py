"""The releases from one data set, in order. This list is the only thing that the accountant reads.

An entry is appended before any noise on the sums of its release is drawn. Users hold a
:class:`~dpmac.extensions.ledgers.Ledger`, which also keeps a file, dates and the names of runs.
"""

from __future__ import annotations

from dpmac.checks import ArgumentError
from dpmac.kernels.moments import merged
from dpmac.privacy.accounting import Accountant, Mechanism, epsilon_of
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
        """Record a release. If this returns, the entry is permanent; if it raises, nothing may be released."""
        entry.mechanism()  # rejects numbers that the accountant could not read, before anything is stored
        self.check_unit(entry.unit)
        self._keep(entry)

    def _keep(self, entry: Entry) -> None:
        self._entries.append(entry)

    @property
    def unit(self) -> str:
        """The unit of privacy of all entries; "row" if there are none."""
        return next((entry.unit for entry in self._entries), ROW)

    def check_unit(self, unit: str, places: int | None = None) -> None:  # noqa: ARG002 - for the ledger of a split
        """Raise if the unit differs: a guarantee for single rows says little about a person with many rows."""
        if self._entries and unit != self.unit:
            fix = f"it holds releases whose unit of privacy is a {self.unit}, not a {unit}: release by the same unit"
            raise ArgumentError("ledger", self, fix)

    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The released mechanisms; equal ones are merged."""
        return merged(entry.mechanism() for entry in self._entries)

    @property
    def seeded(self) -> bool:
        """True if any release drew its sample or its noise from a seeded generator."""
        return any(entry.seeded for entry in self._entries)

    def epsilon(self, delta: float, accountant: Accountant = "pld") -> float:
        """The epsilon at ``delta`` of everything in the ledger."""
        return epsilon_of(self.mechanisms(), delta, accountant)

    def statement(self, delta: float, notes: tuple[str, ...] = ()) -> Statement:
        """The privacy statement; ``notes`` are added to the list of what the guarantee does not cover."""
        return Statement(self.mechanisms(), delta, self.seeded, notes, self.unit)
