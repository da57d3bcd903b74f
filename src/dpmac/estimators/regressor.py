"""The regressor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin

from dpmac.cells import flat
from dpmac.checks import ArgumentError, number
from dpmac.estimators.arguments import estimator
from dpmac.estimators.base import Array, PrivateEstimator
from dpmac.estimators.budget import alone_with_ledger
from dpmac.methods import ResidualScale
from dpmac.nets import LOSSES
from dpmac.privacy import Mechanism
from dpmac.tables import Number
from dpmac.tables.coding import cells_of
from dpmac.tables.kinds.number import numbers_of

ANY = (-1.0, 1.0)  # a range that is not asked for
RESIDUALS = 0.02  # of the budget, for the residual's scale


@estimator
class DPMACRegressor(RegressorMixin, PrivateEstimator):
    """A differentially private neural-network regressor for one target, trained by the method of auxiliary coordinates.

    After ``fit`` the model is (epsilon, delta)-differentially private for one row, there or blank; with ``groups`` for
    one person with all their rows. ``privacy_`` holds the proof. Targets are clipped to their public range.

    What runs by default (``z_step="fixed"``) is one backward sweep with fixed predictions, which gives the directions
    of DP-SGD. A step with the paper's own Z-steps (``z_step="adam"``) takes 3 to 10 times as long on a CPU; with the
    paper's settings they were behind DP-SGD on MNIST at every epsilon, and ahead of it on the USPS autoencoder at
    three of four (docs/method.md has the figures).

    Parameters
    ----------
    target_range : ``(low, high)``, public; None takes the schema's range of its target.
    residuals : spend RESIDUALS of the budget on the residual's scale, for ``predict(..., return_std=True)``.
    others : those of :class:`~dpmac.estimators.arguments.TrainingArguments`, which every trained estimator has.

    Attributes
    ----------
    feature_map_, network_, plan_, privacy_, history_, run_ as of :class:`DPMACClassifier`; residual_std_ (on the scale
    of the target, or None), target_range_.
    """

    _regression = True

    target_range: tuple[float, float] | None = None
    residuals: bool = True

    @alone_with_ledger
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> DPMACRegressor:
        """Train on ``X`` (rows, features) and numbers ``y`` (None takes the schema's target out of the table).

        ``X`` may be in files, and ``groups`` says whose each row is, as of :class:`DPMACClassifier`. Everything is
        checked before any privacy is spent.
        """
        files = self._files(X, y)
        if files is None:
            given, y = self._checked(X, y, groups)
        low, high = self._range()

        def targets_of(numbers: Array) -> Array:
            unit = np.clip(2 * (numbers - low) / (high - low) - 1, -1, 1)
            return unit.astype(np.float32)[:, None]

        if files is None:
            targets = torch.from_numpy(targets_of(self._numbers(y)))
        else:
            given, targets = self._from_files(files, groups, lambda cells: targets_of(self._numbers(_read(cells))))
        residuals = None
        if self.residuals and math.isfinite(self.epsilon):
            residuals = ResidualScale.for_share(RESIDUALS, self.epsilon, self._delta(given.n))
        after: tuple[Mechanism, ...] = ()
        if residuals is not None:
            after = (residuals.mechanism(),)
        table, source = self._train(given, targets, LOSSES["squared"], after=after)
        self.target_range_ = (low, high)
        self.residual_std_: float | None = None
        with self._post_training("measuring of residuals") as done:
            kept = done.kept
            if residuals is not None and not done.made:
                kept = (residuals.fit(table, self.run_.outputs, source.spawn("residuals"), done.ledger),)
                done.keep(1, kept)
            if kept is not None:
                self.residual_std_ = kept[0] * (high - low) / 2
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The expected target of each row, within its range; with ``return_std`` the residual's deviation beside it."""
        u = self._outputs(X)[:, 0].numpy()
        low, high = self.target_range_
        found = self._handed_out(np.clip((u + 1) / 2, 0, 1) * (high - low) + low)
        if not return_std:
            return found
        if self.residual_std_ is None:
            raise ArgumentError("return_std", True, "no residual scale was released: fit with residuals=True and noise")
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


def _read(cells: Any) -> Array:
    """The numbers of a batch of cells, NaN where one is missing."""
    found = numbers_of(cells)
    if found is None:
        return Number(*ANY, missing=True).coded("y", flat(cells_of(cells)))
    return found
