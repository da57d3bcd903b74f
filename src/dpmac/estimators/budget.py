"""What every private estimator does with its budget before any of it is spent: epsilon, delta, total, seed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import numpy as np

from dpmac.checks import ArgumentError, integer, number
from dpmac.estimators.arguments import Arguments
from dpmac.estimators.sharing import agree_on
from dpmac.extensions.world import SINGLE_PROCESS, World
from dpmac.planning.plan import check_delta
from dpmac.privacy import Ledger, Mechanism
from dpmac.privacy.accounting import epsilon_of
from dpmac.training.defaults import safe_delta

Fit = TypeVar("Fit", bound=Callable[..., Any])


def alone_with_ledger(fit: Fit) -> Fit:
    """A ``fit`` during which no other thread releases anything into the ledger it was given.

    Before it begins, it checks that it fits into the total. That would not stay true otherwise: several threads would
    all see the same remaining budget, and all spend it.
    """

    @functools.wraps(fit)
    def fitted(self: Budgeted, *arguments: Any, **options: Any) -> Any:
        if not isinstance(self.ledger, Ledger):
            return fit(self, *arguments, **options)
        with self.ledger.exclusive():
            return fit(self, *arguments, **options)

    return cast("Fit", fitted)


class Budgeted(Arguments):
    """An estimator that has a budget."""

    @property
    def _world(self) -> World:
        """The processes that fit together."""
        world = self._machine.world
        if world is None:
            return SINGLE_PROCESS
        return world

    def _check_budget(self) -> None:
        number("epsilon", self.epsilon, "give a number above 0 (0.5 to 8 is usual), or inf for no privacy", low=5e-324)
        if self.total_epsilon is not None:
            fix = "give what the ledger may hold in all, a number above 0, or None"
            number("total_epsilon", self.total_epsilon, fix, low=5e-324)
        agree_on(self._world, self)

    def _delta(self, n: int) -> float:
        if self.delta is None:
            return safe_delta(n)
        check_delta(self.delta, n)
        return float(self.delta)

    def _check_total(self, ledger: Ledger, own: Iterable[Mechanism], delta: float) -> None:
        """Refuse a fit, ``own``, that together with all that the ledger holds would exceed ``total_epsilon``."""
        if self.total_epsilon is None:
            return
        whole = epsilon_of([*ledger.mechanisms(), *own], delta)
        if whole > self.total_epsilon:
            spent = ledger.epsilon(delta)
            fix = f"the ledger holds {spent:.4g} already, and with this fit it would hold {whole:.4g}: lower epsilon"
            raise ArgumentError("total_epsilon", self.total_epsilon, fix)

    def _seed(self) -> int | None:
        seed: int | None = None
        if isinstance(self.random_state, np.random.RandomState):
            seed = int(self.random_state.randint(2**31))
        elif self.random_state is not None:
            fix = "give None or a whole number, at least 0"
            seed = integer("random_state", self.random_state, fix, low=0, high=2**63 - 1)
        led: int | None = self._world.leaders(seed)
        return led

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags

    def _poor(self) -> bool:
        """For scikit-learn's checks: noise costs accuracy on a few hundred rows."""
        return math.isfinite(self.epsilon)
