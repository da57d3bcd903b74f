"""The plan of an estimator that is trained by gradients: batches, and the noise at which all of it costs the budget."""

from __future__ import annotations

from typing import Any

from dpmac.estimators.arguments import GradientArguments
from dpmac.estimators.budget import Budgeted
from dpmac.privacy import Ledger, Mechanism, Plan
from dpmac.training.defaults import Schedule, schedule_for


class Planned(GradientArguments, Budgeted):
    """An estimator whose fit is one plan."""

    def _schedule(self, n: int) -> Schedule:
        return schedule_for(n)

    def _after_at(self, n: int, epsilon: float) -> tuple[Mechanism, ...]:  # noqa: ARG002 - for the estimator to say
        """What is released after the training of a budget ``epsilon`` on ``n`` places, out of the same budget."""
        return ()

    def _plan(self, n: int, schedule: Schedule, ledger: Ledger) -> Plan:
        """The plan whose own cost, with what comes after it, is the budget; refused if that exceeds a total."""
        delta = self._delta(n)
        batch, steps = self.batch_size, None
        if batch is None:
            batch = schedule.batch_size
        if self.epochs is None:
            steps = schedule.steps
        known: dict[str, Any] = {"delta": delta, "n": n, "batch_size": batch, "steps": steps, "epochs": self.epochs}

        def own_at(epsilon: float) -> Plan:
            return Plan.for_budget(epsilon=epsilon, before=self._after_at(n, epsilon), **known)

        own = own_at(self.epsilon)
        self._check_total(ledger, lambda epsilon: own_at(epsilon).mechanisms(), delta)
        return own
