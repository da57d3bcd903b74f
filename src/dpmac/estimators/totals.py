"""Totals that a fit is held to, and the epsilon to which it would have to be lowered: computed, not guessed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpmac.extensions.accounts import most_that_fits, over_total
from dpmac.privacy import Mechanism
from dpmac.privacy.accounting import epsilon_of

_TRIES = 5  # plans between the two that are near the largest epsilon that fits: each takes a fraction of a second
_STEP = 0.8
_LEAST = 0.01  # an epsilon below this is no advice: nothing can be learned with it


@dataclass(frozen=True)
class Total:
    """The most that a ledger may hold: ``epsilon`` at ``delta``."""

    epsilon: float
    delta: float

    def holds(self, mechanisms: Sequence[Mechanism]) -> bool:
        return epsilon_of(mechanisms, self.delta) <= self.epsilon


def check_totals(
    totals: Sequence[Total],
    spent: Sequence[Mechanism],
    own_at: Callable[[float], Sequence[Mechanism]],
    epsilon: float,
) -> None:
    """Raise unless what a fit releases at ``epsilon``, ``own_at(epsilon)``, fits into every total with all ``spent``.

    The error says the largest epsilon at which it would.
    """
    own: Sequence[Mechanism] = ()
    if totals:
        own = own_at(epsilon)
    for total in totals:
        if not total.holds([*spent, *own]):
            whole, held = (epsilon_of([*spent, *more], total.delta) for more in (own, ()))
            raise over_total(total.epsilon, total.delta, held, whole, _largest(totals, spent, own_at, epsilon))


def _largest(
    totals: Sequence[Total],
    spent: Sequence[Mechanism],
    own_at: Callable[[float], Sequence[Mechanism]],
    epsilon: float,
) -> float:
    """The largest epsilon that fits, in two digits behind the point and never above the truth; 0 if none does."""

    def fits(at: float) -> bool:
        own = own_at(at)
        return all(total.holds([*spent, *own]) for total in totals)

    low = min(most_that_fits(spent, min(total.epsilon, 1e6), total.delta) for total in totals)  # of a single release
    low = high = min(epsilon, low)
    while low >= _LEAST and not fits(low):
        low, high = _STEP * low, low
    for _ in range(_TRIES):
        middle = (low + high) / 2
        if high - low < _LEAST:
            break
        if fits(middle):
            low = middle
        else:
            high = middle
    rounded = math.floor(low * 100) / 100
    if rounded < _LEAST or not fits(rounded):
        return 0.0
    return rounded
