"""What an estimator would do with n rows where it is told nothing: what it releases, and the rule of the defaults."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from dpmac.checks import integer

if TYPE_CHECKING:
    from dpmac.privacy import Mechanism, Plan
    from dpmac.training.defaults import Schedule


@dataclass(frozen=True)
class DefaultsPreview:
    """The schedule of ``estimator``, and beside the training the release ``after`` it, which costs ``share``."""

    estimator: str
    regression: bool
    schedule: Schedule
    delta: float
    share: float
    after: Mechanism | None

    def settings(self, plan: Plan) -> dict[str, Any]:
        """Every field of the rule's answer for a plan by name, whatever fields it has."""
        from dpmac.training.defaults import defaults_for

        found = defaults_for(plan, regression=self.regression, drawn=True)
        return {field.name: getattr(found, field.name) for field in fields(found)}


def preview_defaults(n: int, *, epsilon: float, delta: float | None, regression: bool) -> DefaultsPreview:
    """By the rule of :mod:`dpmac.training.defaults` for tables with a schema; a ``delta`` that is given is kept.

    After training a classifier recalibrates its logits and a regressor measures its residuals, from the same budget.
    """
    from dpmac.methods import BaseRates, Calibration, ResidualScale
    from dpmac.planning.plan import check_delta
    from dpmac.training.defaults import calibration_for, residuals_for, safe_delta, schedule_for, whitens

    integer("n", n, "give the number of training examples, at least 2", low=2)
    if delta is None:
        delta = safe_delta(n)
    check_delta(delta, n)
    schedule = schedule_for(n, whitened=not regression and whitens(n, regression=False))
    if regression:
        share = residuals_for(n, epsilon)
        if share is None:
            return DefaultsPreview("DPMACRegressor", True, schedule, delta, 0.0, None)
        after = ResidualScale.for_share(share, epsilon, delta).mechanism()
        return DefaultsPreview("DPMACRegressor", True, schedule, delta, share, after)
    share, rounds = calibration_for(n, epsilon)
    if rounds:
        after = Calibration.for_share(share, epsilon, delta, rounds).mechanism()
    else:
        after = BaseRates.for_share(share, epsilon, delta).mechanism()
    return DefaultsPreview("DPMACClassifier", False, schedule, delta, share, after)
