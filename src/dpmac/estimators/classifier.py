"""The classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.estimators.additive import Additive
from dpmac.estimators.arguments import estimator
from dpmac.estimators.base import Array, EvaluateBehind, PrivateEstimator
from dpmac.estimators.budget import alone_with_ledger
from dpmac.estimators.given import Given
from dpmac.estimators.labelled import Labelled, affine
from dpmac.estimators.labels import (
    CLASSES_NOTE,
    LabelsInFiles,
    looked_over,
)
from dpmac.estimators.metrics import accuracy_on
from dpmac.estimators.target_cells import named_as
from dpmac.methods import BaseRates, Calibration
from dpmac.privacy import PrivateRows
from dpmac.randomness import NoiseSource
from dpmac.tables.stored import MEMORY
from dpmac.training.post_training import PostTraining


@estimator
class DPMACClassifier(Additive, Labelled, PrivateEstimator):
    """A differentially private neural-network classifier, trained by the method of auxiliary coordinates.

    After ``fit`` the model is (epsilon, delta)-differentially private for one row, there or blank; with ``groups`` for
    one person with all their rows. ``privacy_`` has the ledger and the statement. Rows are neither centred nor scaled
    by their own statistics, since that would leak: give public bounds in ``feature_range``, or scale by public
    constants yourself.

    What runs by default (``z_step="fixed"``) is one backward sweep with fixed predictions, which gives the directions
    of DP-SGD. A step with the paper's own Z-steps (``z_step="adam"``) takes 3 to 10 times as long on a CPU; with the
    paper's settings they were behind DP-SGD on MNIST at every epsilon, and ahead of it on the USPS autoencoder at
    three of four (docs/method.md has the figures).

    Parameters
    ----------
    loss : "softmax" or the paper's per-class "sigmoid" cross-entropy, which is always that of several labels a row.
    others : those of :class:`~dpmac.estimators.arguments.TrainingArguments`, which every trained estimator has.

    Attributes
    ----------
    classes_, n_features_in_, feature_map_ (the public map from rows to the network's inputs, or None), network_ (a
    plain torch module, calibrated), calibration_ (slope and offset of the logits that went into it; of few rows 1 and
    the offsets of all classes but the first, or of all labels; or None), plan_, privacy_ (``.epsilon``, ``.delta``,
    ``.statement()``, ``.ledger``), history_ (one public record an epoch), run_ (all of it, with ``save``).
    """

    loss: str = "softmax"

    @property
    def _loss_name(self) -> str:  # type: ignore[override]
        return self.loss

    @alone_with_ledger
    def fit(
        self,
        X: Any,
        y: Any = None,
        public_validation: tuple[Any, Any] | None = None,
        groups: Any = None,
        *,
        sample_weight: Any = None,  # noqa: ARG002 - alone_with_ledger refuses it
    ) -> DPMACClassifier:
        """Train on ``X`` (rows, features) and labels ``y`` (None takes the schema's target out of the table).

        ``X`` may be in files, larger than memory (:class:`dpmac.tables.Files`, or a path): with a schema, without y.
        ``y`` is one label a row, or a matrix (rows, labels) of 0 and 1 where a row may have several (multi-label).
        ``groups`` gives the person of each row, as an id (with a schema, the name of the column of ids will do): the
        unit of privacy is then a person with any number of rows, and every person has the same influence.
        ``sample_weight`` is refused, and the error says why. Everything is checked before any privacy is spent.
        ``public_validation=(X, y)`` records accuracy on *public*
        rows after each epoch in ``history_``. Never pass private rows there: such metrics are outside the guarantee.
        """
        given, targets, classes, indicator = self._look_over(X, y, groups)
        several = indicator is not None
        if self.loss not in ("softmax", "sigmoid"):
            raise ArgumentError("loss", self.loss, "choose 'softmax' or 'sigmoid'")
        loss, weights = self._weighed(classes, several)
        evaluate: EvaluateBehind | None = None
        if public_validation is not None:
            rows, right = public_validation
            evaluate = accuracy_on(self._raw(rows), np.asarray(right), classes, several, self._target_column())
        notes: tuple[str, ...] = ()
        if not several and self._known_classes() is None:
            notes = (CLASSES_NOTE,)
        calibration = self._calibration(given.n, self.epsilon)
        table, outputs, source = self._train(given, targets, loss, evaluate=evaluate, notes=notes)
        self.classes_, self._indicator = classes, indicator
        self.calibration_: tuple[float, ...] | None = None
        with self._post_training("calibration") as done:
            if calibration is not None and (done.kept is not None or done.made < calibration.rounds):
                logits = table.behind(outputs, memory=MEMORY)  # once for all rounds
                self._calibrate(calibration, logits, source.spawn("calibration"), weights, done)
        self._become_additive(*(self.calibration_ or ())[:1])
        return self

    def _look_over(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> tuple[Given, Tensor, Array, np.dtype[Any] | None]:
        """All that ``fit`` asks of the rows: every cell, every label, whose the rows are. Nothing is spent.

        Raw rows, targets, the classes, and the type of y where a row may have several labels.
        """
        if (files := self._files(X, y)) is not None:
            found = LabelsInFiles(self._single, self._known_classes(), self._target_cells)
            with named_as(self._target_name()):
                given, targets = self._from_files(files, groups, found)
            return given, targets, found.classes, None
        if y is None:
            given, y = self._checked(X, None, groups)
            with named_as(self._target_name()):
                classes, targets = self._single(looked_over(y))
            return given, targets, classes, None
        given, y = self._checked(X, looked_over(y), groups)
        if y.ndim == 2:
            classes, targets = self._several(y)
            return given, targets, classes, y.dtype
        classes, targets = self._single(y)
        return given, targets, classes, None

    def _calibrate(
        self,
        calibration: Calibration | BaseRates,
        logits: PrivateRows,
        source: NoiseSource,
        weights: Tensor | None,
        done: PostTraining,
    ) -> None:
        self.calibration_ = calibration.fit(
            logits,
            torch.nn.Identity(),
            source,
            done.ledger,
            several=self._indicator is not None,
            weights=weights,
            made=done.made,
            kept=done.kept,
            keep=done.keep,
        )
        self._write_into_the_network(*self.calibration_)

    def _write_into_the_network(self, *calibration: float) -> None:
        """A calibration is affine in the logits, so it is a change of the last layer: the network is the model."""
        last = self.network_.weight_layers[-1]
        matrix = last.matrix()
        slope, offsets = affine(calibration, len(matrix), self._indicator is not None)
        matrix = slope * matrix
        matrix[:, -1] += offsets.to(matrix)
        last.write(matrix)
