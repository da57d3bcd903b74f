"""A search: its entry in the ledger, its runs, and their ledgers, which hold no more than that entry has paid for.

A search has one entry, written before its first run: what any run may release, and the law of their number. The runs
themselves release into ledgers of their own, which are thrown away, except that the best run's numbers become public as
the search's one release. :class:`Prepaid` refuses whatever a run was not paid for, before any noise is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from dpmac.extensions.accounts import counted
from dpmac.extensions.ledgers import Ledger
from dpmac.kernels.selection import Selection
from dpmac.privacy.accounting import Mechanism
from dpmac.privacy.entry import Entry

SEARCH = "private search"


def entry_of(selection: Selection, unit: str, seeded: bool) -> Entry:
    """The one entry of a whole search."""
    return Entry(SEARCH, selection.least_noise, 1.0, seeded, unit=unit, search=selection)


class Scored(Protocol):
    """What a run gives back."""

    @property
    def score(self) -> float:
        """The higher, the better: a function of what the run has released."""


Result = TypeVar("Result", bound=Scored)


def best_of(count: int, run: Callable[[int], Result]) -> Result:
    """The best of ``count`` runs; of equal ones the first, and of all others nothing is kept.

    Runs are independent and alike. So which of several equal ones is taken makes no difference to the law of what it
    holds, as long as it does not depend on that: the proof takes any, by lot. It does ask for an order: a score that is
    no number counts as the lowest, wherever it comes.
    """
    best = run(0)
    for turn in range(1, count):
        made = run(turn)
        if _ranked(made) > _ranked(best):
            best = made
    return best


def _ranked(run: Scored) -> float:
    if math.isnan(run.score):
        return -math.inf
    return run.score


class Prepaid(Ledger):
    """The ledger of one run: it knows what was released before the search, and takes what is paid for, once."""

    def __init__(self, before: Ledger, paid: Sequence[Mechanism]) -> None:
        super().__init__(data_set=before.data_set)
        self._entries = list(before.entries)
        self._unpaid = counted(paid)

    def _keep(self, entry: Entry) -> None:
        (key,) = counted([entry.mechanism()])
        if self._unpaid[key] <= 0:
            raise RuntimeError(f"a run of the search was about to release what it has not paid for: {key.describe()}")
        self._unpaid[key] -= 1
        super()._keep(entry)

    @property
    def complete(self) -> bool:
        """Whether all that was paid for is released."""
        return not +self._unpaid


class Rehearsal(Ledger):
    """The ledger of a trial that ends where the first release would be: nothing is released, and nothing spent. That
    release must be among what a run is going to pay for."""

    def __init__(self, before: Ledger, to_pay: Sequence[Mechanism]) -> None:
        super().__init__(data_set=before.data_set)
        self._entries = list(before.entries)
        self._to_pay = counted(to_pay)

    def _keep(self, entry: Entry) -> None:
        (key,) = counted([entry.mechanism()])
        if not self._to_pay[key]:
            raise RuntimeError(
                f"a search would not pay for what its runs release, {key.describe()}: a bug; nothing was spent"
            )
        raise Rehearsed


class Rehearsed(BaseException):
    """The end of a rehearsal. No ``Exception``: nothing on the way may take it for a failure and go on."""
