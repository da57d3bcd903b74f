"""The regressor."""

from __future__ import annotations

from typing import Any

import torch

from dpmac.cells import flat
from dpmac.estimators.additive import Additive
from dpmac.estimators.arguments import estimator
from dpmac.estimators.base import Array, PrivateEstimator
from dpmac.estimators.budget import alone_with_ledger
from dpmac.estimators.given import Given
from dpmac.estimators.ranged import Ranged, unit_targets
from dpmac.estimators.target_cells import NUMBER, named_as, target_cells, without_gaps
from dpmac.nets import LOSSES
from dpmac.tables import Number
from dpmac.tables.agreement import Agreement
from dpmac.tables.coding import cells_of
from dpmac.tables.kinds.number import numbers_of
from dpmac.tables.kinds.shared import CellError

ANY = (-1.0, 1.0)  # a range that is not asked for


@estimator
class DPMACRegressor(Additive, Ranged, PrivateEstimator):
    """A differentially private neural-network regressor for one target, trained by the method of auxiliary coordinates.

    After ``fit`` the model is (epsilon, delta)-differentially private for one row, there or blank; with ``groups`` for
    one person with all their rows. ``privacy_`` holds the proof. Targets are clipped to their public range.

    What runs by default (``z_step="fixed"``) is one backward sweep with fixed predictions, which gives the directions
    of DP-SGD. A step with the paper's own Z-steps (``z_step="adam"``) takes 3 to 10 times as long on a CPU; with the
    paper's settings they were behind DP-SGD on MNIST at every epsilon, and ahead of it on the USPS autoencoder at
    three of four (docs/method.md has the figures).

    Parameters
    ----------
    others : those of :class:`~dpmac.estimators.arguments.TrainingArguments`, which every trained estimator has.

    Attributes
    ----------
    feature_map_, network_, plan_, privacy_, history_, run_ as of :class:`DPMACClassifier`; residual_std_ (on the scale
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
    ) -> DPMACRegressor:
        """Train on ``X`` (rows, features) and numbers ``y`` (None takes the schema's target out of the table).

        ``X`` may be in files, and ``groups`` says whose each row is, as of :class:`DPMACClassifier`. Everything is
        checked before any privacy is spent.
        """
        given, targets, (low, high) = self._look_over(X, y, groups)
        residuals = self._residual_scale(given.n, self.epsilon)
        table, outputs, source = self._train(given, targets, LOSSES["squared"])
        self.target_range_ = (low, high)
        self.residual_std_: float | None = None
        with self._post_training("measuring of residuals") as done:
            kept = done.kept
            if residuals is not None and not done.made:
                kept = (residuals.fit(table, outputs, source.spawn("residuals"), done.ledger),)
                done.keep(1, kept)
            if kept is not None:
                self.residual_std_ = kept[0] * (high - low) / 2
        self._become_additive()
        return self

    def _look_over(self, X: Any, y: Any = None, groups: Any = None) -> tuple[Given, torch.Tensor, tuple[float, float]]:
        """All that ``fit`` asks of the rows, spending nothing: raw rows, targets, and the targets' range."""
        files, name = self._files(X, y), self._target_name() if y is None else None
        if files is None:
            given, y = self._checked(X, y, groups)
        low, high = self._range()
        seen = Agreement({self._target_name(): Number(low, high)})

        def targets_of(numbers: Array) -> Array:
            seen.add(numbers[:, None])
            return unit_targets(numbers, low, high)

        with named_as(name):
            if files is not None:
                given, targets = self._from_files(files, groups, lambda cells: targets_of(self._of_cells(cells)))
            elif name is not None:
                targets = torch.from_numpy(targets_of(self._of_cells(list(y))))
            else:
                targets = torch.from_numpy(targets_of(self._numbers(y)))
        self._say_where_they_disagree(seen)
        return given, targets, (low, high)

    def _of_cells(self, cells: Any) -> Array:
        """The numbers of cells of a table, arrow's or a list; one that is missing is an error of its own."""
        found = numbers_of(cells)
        if found is None:
            try:
                found = Number(*ANY, missing=True).coded("y", self._plain(flat(cells_of(cells))))
            except CellError as error:
                raise CellError(error.name, error.value, NUMBER, error.count, error.cells) from None
        return self._numbers(without_gaps(found))

    def _plain(self, found: Array) -> Array:
        encoder = self._encoder()
        if encoder is None or encoder.schema.target is None:
            return found
        return target_cells(encoder.schema, found)
