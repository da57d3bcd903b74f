"""Totals that a fit is held to, and the epsilon to which it would have to be lowered: computed, not guessed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpmac.extensions.accounts import over_total
from dpmac.kernels.loss_distributions import ROUGH
from dpmac.kernels.moments import merged
from dpmac.planning.search import Range, UnreachableError, least
from dpmac.privacy import Mechanism
from dpmac.privacy.accounting import cost_of, epsilon_of

_LEAST = 0.01  # an epsilon below this is no advice: nothing can be learned with it
_MOST = 1e3  # an epsilon above this is none either
_TRIES = 12  # guesses, each of which takes a plan: two or three as a rule
_CLOSE = 1e-3  # of the noise that a guess asks for, relatively
_FACTORS = Range(0.5, 1e4)  # by which noise may have to grow


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

    best, high = 0.0, 2 * _MOST
    at = min(epsilon, *(total.epsilon for total in totals), _MOST)
    for _ in range(_TRIES):
        share = min(_share(total, spent, own_at(at)) for total in totals)
        guess = math.floor(100 * min(at * share, high - _LEAST / 2)) / 100
        if guess < _LEAST or guess <= best + max(_LEAST / 2, 0.01 * best):
            return best
        at = guess
        if fits(at):
            best = at
        else:
            high = at
    return best


def _share(total: Total, spent: Sequence[Mechanism], own: Sequence[Mechanism]) -> float:
    """About the share of its epsilon that ``own`` may cost for all to fit, if all of its noise grows alike.

    On a coarse grid, for it is only a guess; 0 if no noise is enough.
    """

    def cost(before: Sequence[Mechanism], factor: float) -> float:
        grown = (replace(m, noise_multiplier=factor * m.noise_multiplier) for m in own)
        return cost_of(merged(replace(m, label="") for m in (*before, *grown)), total.delta, "pld", ROUGH)[0]

    try:
        factor, _ = least(lambda f: cost(spent, f), total.epsilon, 1.0, -1.3, _CLOSE, _FACTORS)
    except UnreachableError as end:
        factor = end.nearest(_FACTORS)
    return cost((), factor) / max(cost((), 1.0), 1e-300)
