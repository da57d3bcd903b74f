"""The regressor of any torch module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from dpmac.estimators.arguments import estimator
from dpmac.estimators.budget import alone_with_ledger
from dpmac.estimators.given import Given
from dpmac.estimators.module_base import ModuleEstimator
from dpmac.estimators.module_columns import Kind
from dpmac.estimators.ranged import Ranged, unit_targets
from dpmac.modules.outputs import OutputLoss
from dpmac.nets import LOSSES


@estimator
class DPMACModuleRegressor(Ranged, ModuleEstimator):
    """A differentially private regressor of any torch module for one target, trained by DP-SGD.

    ``forward`` gives one number for each row, (rows,) or (rows, 1), in units in which the public ``target_range`` is
    [-1, 1]: 0 is its middle. Rows and everything else are as of :class:`DPMACModuleClassifier`. After ``fit`` the model
    is (epsilon, delta)-differentially private for one row, there or blank; with ``groups`` for one person with all
    their rows. ``privacy_`` holds the proof. Targets are clipped to their public range.

    Parameters
    ----------
    others : those of :class:`~dpmac.estimators.arguments.RangeArguments`, ``GradientArguments`` and ``Arguments``,
        which other regressors have, too.

    Attributes
    ----------
    module_, inputs_, plan_, privacy_, history_, run_ as of :class:`DPMACModuleClassifier`; residual_std_ (on the scale
    of the target, or None), target_range_.
    """

    @alone_with_ledger
    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        *,
        sample_weight: Any = None,  # noqa: ARG002 - alone_with_ledger refuses it
    ) -> DPMACModuleRegressor:
        """Train on ``X`` and numbers ``y``, one for each row, or the name of their column in ``X``.

        A torch dataset without ``y`` has items (input, target); a target that is no finite number makes its row blank.
        ``groups`` says whose each row is. Everything is checked before any privacy is spent.
        """
        given, targets, (low, high) = self._look_over(X, y, groups)
        residuals = self._residual_scale(given.n, self.epsilon)
        table, _, source = self._train(given, targets, OutputLoss(LOSSES["squared"], 1))
        self.target_range_ = (low, high)
        self.residual_std_ = None
        with self._post_training("measuring of residuals") as done:
            kept = done.kept
            if residuals is not None and not done.made:
                measured = residuals.fit(
                    table,
                    self._private_outputs(),
                    source.spawn("residuals"),
                    done.ledger,
                    self._machine.micro_batch_size,
                )
                kept = (measured,)
                done.keep(1, kept)
            if kept is not None:
                self.residual_std_ = kept[0] * (high - low) / 2
        return self

    def _look_over(
        self, X: Any, y: Any = None, groups: Any = None, fitted: tuple[Kind, ...] | None = None
    ) -> tuple[Given, Tensor, tuple[float, float]]:
        """All that ``fit`` asks of the rows, spending nothing: rows, targets, and the targets' range. Rows for a model
        that was ``fitted`` are of those kinds."""
        read = self._read_rows(X, y, fitted)
        low, high = self._range()
        encode = None
        if read.y is None:
            encode = _Units(low, high)
            targets = torch.zeros(0, 1)
        else:
            numbers = self._numbers(column_or_1d(_plain(read.y), warn=True))
            targets = torch.from_numpy(unit_targets(numbers, low, high))
        return self._given(read, targets, encode, X, groups), targets, (low, high)

    def _units(self) -> int:
        return 1


def _plain(y: Any) -> Any:
    if isinstance(y, Tensor):
        return y.detach().cpu().numpy()
    return y


class _Units:
    """Targets of a dataset's items, within [-1, 1]; NaN for what is no finite number."""

    def __init__(self, low: float, high: float) -> None:
        self._low, self._high = low, high

    def __call__(self, numbers: Sequence[Any]) -> Tensor:
        found = np.array([_number(one) for one in numbers])
        return torch.from_numpy(unit_targets(found, self._low, self._high))


def _number(value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return float("nan")
    if not np.isfinite(found):
        return float("nan")
    return found
