"""What every run of a search may spend, so that the search as a whole costs its budget: public numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.extensions.searches import SEARCH
from dpmac.kernels.selection import Selection
from dpmac.kernels.tries import Tries
from dpmac.methods.merits import Score
from dpmac.planning.search import Range, UnreachableError, least
from dpmac.privacy import Ledger, Mechanism
from dpmac.privacy.accounting import epsilon_of

TOLERANCE = 4e-3  # of the budget that a search may leave unused
FIRST = 1.8  # a search costs about so many times what a run costs
WORST = 50.0


@dataclass(frozen=True)
class Priced:
    """A run's own budget, what it releases, and the search of such runs."""

    epsilon: float
    trainings: tuple[tuple[Mechanism, ...], ...]  # one for each candidate
    score: Score
    selection: Selection
    cost: float

    def mechanism(self) -> Mechanism:
        """The whole search, as the ledger will hold it."""
        return search_of(self.selection)


def search_of(selection: Selection) -> Mechanism:
    """The whole search, for the accountant."""
    return Mechanism(selection.least_noise, label=SEARCH, search=selection)


def priced(
    candidates: Sequence[Any], n: int, tries: Tries, epsilon: float, delta: float, scoring: str, *, free_scores: bool
) -> Priced:
    """The search of ``candidates`` on ``n`` places that costs ``epsilon`` at ``delta`` at most, and hardly less. The
    candidates have the budget of its runs from then on.

    A place is trained on or scored on, never both: so a run costs the larger of the two. ``free_scores`` are of public
    rows, and cost nothing.
    """

    def at(own: float) -> Priced:
        trainings = tuple(trained(candidate, n, own) for candidate in candidates)
        score = Score.for_budget(own, delta, scoring)
        cases = list(dict.fromkeys(trainings))
        if not free_scores:
            cases.append((score.mechanism(),))
        selection = Selection(tuple(cases), tries)
        return Priced(own, trainings, score, selection, epsilon_of([search_of(selection)], delta))

    seen: dict[float, Priced] = {}

    def cost(s: float) -> float:
        seen[s] = at(1 / s)
        return seen[s].cost

    try:
        s, _ = least(cost, epsilon, FIRST / epsilon, -1.0, TOLERANCE, Range(1 / epsilon, WORST / epsilon))
    except UnreachableError:
        fix = "so little cannot be shared among so many tries: raise epsilon, or lower tries"
        raise ArgumentError("epsilon", epsilon, fix) from None
    for candidate in candidates:
        candidate.set_params(epsilon=seen[s].epsilon)  # the last one that was tried may be another
    return seen[s]


def trained(candidate: Any, n: int, epsilon: float) -> tuple[Mechanism, ...]:
    """All that a fit of ``candidate`` on ``n`` places releases at this budget."""
    candidate.set_params(epsilon=epsilon)
    plan = candidate._plan(n, candidate._schedule(n), Ledger())
    return tuple(plan.mechanisms())
