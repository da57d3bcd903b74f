"""Totals that a fit is held to, and the epsilon to which it would have to be lowered: computed, not guessed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpmac.extensions.accounts import over_total
from dpmac.planning.calibration import MULTIPLIERS, calibrate
from dpmac.privacy import Mechanism
from dpmac.privacy.accounting import epsilon_of

_STEP = 0.9  # by which a guess is lowered until it fits: each takes a plan, a fraction of a second
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

    low = high = min(epsilon, 1.05 * min(_near(total, epsilon_of(spent, total.delta)) for total in totals))
    while low >= _LEAST and not fits(low):
        low, high = _STEP * low, low
    while low >= _LEAST and high - low > max(_LEAST, 0.02 * low):
        middle = (low + high) / 2
        if fits(middle):
            low = middle
        else:
            high = middle
    rounded = math.floor(low * 100) / 100
    if rounded < _LEAST or not fits(rounded):
        return 0.0
    return rounded


def _near(total: Total, spent: float) -> float:
    """About what is left of a total, as if all that was spent were one Gaussian release: their costs add as squares."""
    if spent >= total.epsilon or math.isinf(total.epsilon):
        return max(0.0, total.epsilon - spent)
    whole, gone = _square(total.epsilon, total.delta), 0.0
    if spent >= _LEAST:
        gone = _square(spent, total.delta)
    if whole <= gone:
        return 0.0
    return epsilon_of(
        [Mechanism(max(MULTIPLIERS.low, min(MULTIPLIERS.high, 1 / math.sqrt(whole - gone))))], total.delta
    )


def _square(epsilon: float, delta: float) -> float:
    """The squared signal-to-noise ratio of the one Gaussian release that costs ``epsilon``."""
    return calibrate(lambda noise: [Mechanism(noise)], min(epsilon, 1e3), delta) ** -2
