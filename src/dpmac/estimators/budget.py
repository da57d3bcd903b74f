"""What every private estimator does with its budget before any of it is spent: epsilon, delta, total, seed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from dpmac.checks import ArgumentError, integer, number
from dpmac.estimators.arguments import Arguments
from dpmac.estimators.refused import check_weights
from dpmac.estimators.sharing import agree_on
from dpmac.estimators.totals import Total, check_totals
from dpmac.extensions.accounts import Account
from dpmac.extensions.ledger_header import account_at
from dpmac.extensions.world import SINGLE_PROCESS, World
from dpmac.extensions.writers import sole_writer
from dpmac.planning.plan import check_delta
from dpmac.privacy import Ledger, Mechanism
from dpmac.training.defaults import safe_delta

Fit = TypeVar("Fit", bound=Callable[..., Any])
OwnAt = Callable[[float], Sequence[Mechanism]]  # what a fit would release at another epsilon


def alone_with_ledger(fit: Fit) -> Fit:
    """A ``fit`` during which nobody else releases anything into the ledger it was given, an object or a path.

    Before it begins, it checks that it fits into the total. That would not stay true otherwise: several threads would
    all see the same remaining budget, and all spend it. Others, threads and processes, are refused: they would wait for
    the whole fit, and are told so before they have spent anything.
    """

    @functools.wraps(fit)
    def fitted(self: Budgeted, *arguments: Any, **options: Any) -> Any:
        check_weights(options.get("sample_weight"))
        with self._with_ledger():
            return fit(self, *arguments, **options)

    return cast("Fit", fitted)


class Budgeted(Arguments):
    """An estimator that has a budget."""

    _account: Account | None = None  # during a fit: that of its ledger

    @contextmanager
    def _with_ledger(self) -> Iterator[None]:
        """Inside, the ledger is this fit's alone, and its account is known to all processes."""
        with ExitStack() as held:
            found = self._world.leaders(self._world.everywhere(partial(self._take_ledger, held)))
            if found is not None:
                self._account = Account.from_dict(found)
            try:
                yield
            finally:
                self.__dict__.pop("_account", None)

    def _take_ledger(self, held: ExitStack) -> dict[str, Any] | None:
        """Take the ledger until ``held`` is closed, and read its account; in a process that does not lead, nothing."""
        account: Account | None = None
        if isinstance(self.ledger, Ledger):
            held.enter_context(self.ledger.exclusive(refusing=True))
            account = self.ledger.account
        elif isinstance(self.ledger, str | Path) and self._world.leads:
            held.enter_context(sole_writer(Path(self.ledger), refusing=True))
            account = account_at(Path(self.ledger))
        if account is None:
            return None
        return account.to_dict()

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
        if self.delta is None and self._account is not None:
            return self._delta_of_account(self._account.delta, n)
        if self.delta is None:
            return safe_delta(n)
        check_delta(self.delta, n)
        return float(self.delta)

    def _delta_of_account(self, delta: float, n: int) -> float:
        """The account's delta, at which its total is counted; refused where it is none for so few rows."""
        try:
            check_delta(delta, n)
        except ArgumentError as error:
            fix = f"the ledger's account was opened at delta {delta:g}, which is too large here; {error.fix}"
            raise ArgumentError("delta", self.delta, fix) from None
        return delta

    def _check_total(self, ledger: Ledger, own_at: OwnAt, delta: float) -> None:
        """Refuse a fit that together with all that the ledger holds would exceed ``total_epsilon`` or the account.

        Both hold. A total that is larger than the account's would change nothing, and is refused.
        """
        totals = list[Total]()
        if self.total_epsilon is not None:
            totals.append(Total(float(self.total_epsilon), delta))
        account = self._account or ledger.account
        if account is not None:
            totals.append(Total(account.total_epsilon, account.delta))
            if self.total_epsilon is not None and self.total_epsilon > account.total_epsilon and delta >= account.delta:
                fix = f"the ledger was opened with a total of {account.total_epsilon:g}, which holds: leave this out"
                raise ArgumentError("total_epsilon", self.total_epsilon, fix)
        check_totals(totals, ledger.mechanisms(), own_at, float(self.epsilon))

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
