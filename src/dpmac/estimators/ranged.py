"""What regressors share: targets within a public range, and outputs to predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from dpmac.checks import ArgumentError, number
from dpmac.estimators.arguments import RangeArguments
from dpmac.estimators.base import Array, TrainedEstimator
from dpmac.methods import ResidualScale
from dpmac.training.defaults import MIN_RESIDUALS, residuals_for


def unit_targets(numbers: Array, low: float, high: float) -> Array:
    """Numbers of a public range as targets within [-1, 1], (rows, 1); what lies outside is clipped."""
    unit = np.clip(2 * (numbers - low) / (high - low) - 1, -1, 1)
    return unit.astype(np.float32)[:, None]


class Ranged(RegressorMixin, RangeArguments, TrainedEstimator):
    """A regressor of one target."""

    _regression = True
    target_range_: tuple[float, float]
    residual_std_: float | None

    def _residual_scale(self, n: int) -> ResidualScale | None:
        """What is released of the residuals after the training; None for nothing."""
        share = residuals_for(n, self.epsilon)
        if not self.residuals or share is None:
            return None
        return ResidualScale.for_share(share, self.epsilon, self._delta(n))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The expected target of each row, within its range; with ``return_std`` the residual's deviation beside it."""
        u = self._outputs(X)[:, 0].numpy()
        low, high = self.target_range_
        found = self._handed_out(np.clip((u + 1) / 2, 0, 1) * (high - low) + low)
        if not return_std:
            return found
        if self.residual_std_ is None:
            fix = "no residual scale was released: fit with residuals=True, noise, and n times epsilon of at least"
            raise ArgumentError("return_std", True, f"{fix} {MIN_RESIDUALS:g}")
        return found, np.full(len(found), self.residual_std_)

    def _numbers(self, y: Any) -> Array:
        try:
            numbers = np.asarray(y, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError, ArithmeticError):  # a number too large for any, a signalling NaN
            raise ArgumentError("y", np.asarray(y).dtype, "give numbers, one for each row") from None
        if not np.isfinite(numbers).all():
            row = int(np.argmax(~np.isfinite(numbers)))
            raise ArgumentError(f"y, row {row}", float(numbers[row]), "give a finite target, or drop the row")
        return numbers

    def _range(self) -> tuple[float, float]:
        given: Any = self.target_range
        if given is None:
            column = self._target_column()
            if column is not None:
                given = column.target_range
            if given is None:
                fix = "give the target's public (low, high), or a schema whose target is a number"
                raise ArgumentError("target_range", None, fix)
        fix = "give public, finite numbers (low, high) with low < high"
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise ArgumentError("target_range", given, fix)
        low, high = (number("target_range", end, fix, low=-1e300, high=1e300) for end in given)
        if not low < high:
            raise ArgumentError("target_range", given, fix)
        return low, high

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
