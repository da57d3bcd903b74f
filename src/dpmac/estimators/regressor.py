"""The regressor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import RegressorMixin

from dpmac.cells import flat
from dpmac.checks import ArgumentError, number
from dpmac.estimators.base import Array, PrivateEstimator
from dpmac.estimators.budget import alone_with_ledger
from dpmac.mac import ZStep
from dpmac.methods import ResidualScale
from dpmac.nets import LOSSES, Activation
from dpmac.privacy import Bound, Ledger
from dpmac.privacy.groups import USUAL
from dpmac.privacy.world import World
from dpmac.tables import Number, Schema
from dpmac.tables.coding import cells_of
from dpmac.tables.kinds.number import numbers_of
from dpmac.training.checkpoint import Checkpoints

ANY = (-1.0, 1.0)  # a range that is not asked for
RESIDUALS = 0.02  # of the budget, for the residual's scale


class DPMACRegressor(RegressorMixin, PrivateEstimator):
    """A differentially private neural-network regressor for one target, trained by the method of auxiliary coordinates.

    After ``fit`` the model is (epsilon, delta)-differentially private for one row, there or blank; with ``groups`` for
    one person with all their rows. ``privacy_`` holds the proof. Targets are clipped to their public range.

    Parameters
    ----------
    target_range : ``(low, high)``, public; None takes the schema's range of its target.
    residuals : spend RESIDUALS of the budget on the residual's scale, for ``predict(..., return_std=True)``.
    hidden_layer_sizes, epsilon, delta, schema, feature_range, max_rows, batch_size, epochs, activation, learning_rate,
    z_step, bound, ledger, total_epsilon, random_state, device, micro_batch_size, threads,
    progress, checkpoint, world : as of :class:`DPMACClassifier`.

    Attributes
    ----------
    front_, network_, plan_, privacy_, history_, run_ as of :class:`DPMACClassifier`; residual_std_ (on the scale of
    the target, or None), target_range_.
    """

    _regression = True

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] | Literal["auto"] = "auto",
        *,
        epsilon: float = 2.0,
        delta: float | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        feature_range: tuple[Any, Any] | None = None,
        max_rows: int = USUAL,
        target_range: tuple[float, float] | None = None,
        residuals: bool = True,
        batch_size: float | None = None,
        epochs: float | None = None,
        activation: str | Activation | None = None,
        learning_rate: float | None = None,
        z_step: str | ZStep = "fixed",
        bound: str | Bound | None = None,
        ledger: Ledger | str | Path | None = None,
        total_epsilon: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        micro_batch_size: int | None = None,
        threads: int | None = None,
        progress: bool | Literal["auto"] = "auto",
        checkpoint: Checkpoints | str | Path | None = None,
        world: World | None = None,
    ) -> None:
        super().__init__(
            hidden_layer_sizes,
            epsilon=epsilon,
            delta=delta,
            schema=schema,
            feature_range=feature_range,
            max_rows=max_rows,
            batch_size=batch_size,
            epochs=epochs,
            activation=activation,
            learning_rate=learning_rate,
            z_step=z_step,
            bound=bound,
            ledger=ledger,
            total_epsilon=total_epsilon,
            random_state=random_state,
            device=device,
            micro_batch_size=micro_batch_size,
            threads=threads,
            progress=progress,
            checkpoint=checkpoint,
            world=world,
        )
        self.target_range = target_range
        self.residuals = residuals

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
        after = () if residuals is None else (residuals.mechanism(),)
        table, source = self._train(given, targets, LOSSES["squared"], after=after)
        self.target_range_ = (low, high)
        self.residual_std_: float | None = None
        with self._afterwards("measuring of residuals") as done:
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
            given = None if column is None else column.target_range
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
    return Number(*ANY, missing=True).coded("y", flat(cells_of(cells))) if found is None else found
