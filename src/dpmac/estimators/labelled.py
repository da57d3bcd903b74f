"""What classifiers share: labels to targets, public weights of the classes, and outputs to predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from torch import Tensor

from dpmac.checks import ArgumentError, chosen
from dpmac.estimators.arguments import LabelArguments
from dpmac.estimators.base import Array, TrainedEstimator
from dpmac.estimators.labels import (
    check_classes,
    class_weights,
    encoded,
    encoded_by_schema,
    label_weights,
    names_of_labels,
)
from dpmac.estimators.sharing import all_classes
from dpmac.estimators.target_cells import target_cells
from dpmac.methods import BaseRates, Calibration
from dpmac.nets import LOSSES, Loss, MultiLabelCrossEntropy, WeightedClasses
from dpmac.privacy import BOUNDS, Mechanism, Normalise
from dpmac.training.defaults import calibration_for


class Labelled(ClassifierMixin, LabelArguments, TrainedEstimator):
    """A classifier."""

    _labels_may_be_several = True
    _loss_name = "softmax"
    _indicator: np.dtype[Any] | None  # the type of y, where a row may have several labels
    classes_: Array

    def _weighed(self, classes: Array, several: bool) -> tuple[Loss, Tensor | None]:
        """The loss with the public weights in it, and the weights by themselves."""
        if self.class_weight is not None and math.isfinite(self.epsilon) and self.bound is not None:
            bound = chosen("bound", self.bound, BOUNDS)
            if isinstance(bound, Normalise):
                fix = "it gives every example the same length, whatever its class weighs: choose 'joint' or 'clip'"
                raise ArgumentError("bound", self.bound, fix)
        if several:
            both = label_weights(self.class_weight, len(classes))
            if both is None:
                return LOSSES["multilabel"], None
            off, on = (tuple(side) for side in both.T.tolist())
            return MultiLabelCrossEntropy(on, off), both
        weights = class_weights(self.class_weight, classes)
        if weights is None:
            return LOSSES[self._loss_name], None
        return WeightedClasses(LOSSES[self._loss_name], weights), torch.tensor(weights, dtype=torch.float64)

    def _calibration(self, n: int, epsilon: float) -> Calibration | BaseRates | None:
        """What is released after the training: slope and offset of the logits, or of few rows offsets alone."""
        if not self.calibrate or not math.isfinite(epsilon):
            return None
        share, rounds = calibration_for(n, epsilon)
        if not rounds:
            return BaseRates.for_share(share, epsilon, self._delta(n))
        return Calibration.for_share(share, epsilon, self._delta(n), rounds)

    def _after_at(self, n: int, epsilon: float) -> tuple[Mechanism, ...]:
        calibration = self._calibration(n, epsilon)
        if calibration is None:
            return ()
        return (calibration.mechanism(),)

    def _known_classes(self) -> Sequence[Any] | None:
        """The class labels that are public: given, or the values of the schema's target."""
        if self.classes is not None:
            return self.classes
        column = self._target_column()
        if column is None:
            return None
        return column.classes

    def decision_function(self, X: Any) -> Array:
        """The output layer's pre-activations; for two classes the second minus the first, as scikit-learn has it.

        Of several labels one each: a label is on where its number is above 0.
        """
        u = self._outputs(X).numpy()
        if self._indicator is None and len(self.classes_) == 2:
            u = u[:, 1] - u[:, 0]
        return self._handed_out(u)

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, in the order of ``classes_``; of several labels that each of them is on."""
        u = self._outputs(X)
        loss = LOSSES[self._loss_name]
        if self._indicator is not None:
            loss = LOSSES["multilabel"]
        return self._handed_out(loss.predict(u).numpy())

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithms of :meth:`predict_proba`; minus infinity where a probability is 0 in double precision."""
        with np.errstate(divide="ignore"):
            return self._handed_out(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> Array:
        """The likeliest class of each row; of several labels a matrix of 0 and 1, as ``fit`` took it."""
        u = self._outputs(X)
        if self._indicator is not None:
            return (u > 0).numpy().astype(self._indicator)
        result: Array = self.classes_[u.argmax(dim=1).numpy()]
        return result

    def _target_cells(self, found: Array) -> Array:
        """Cells of the target in the format of the schema."""
        encoder = self._encoder()
        if encoder is None or encoder.schema.target is None:
            return found
        return target_cells(encoder.schema, found)

    def _several(self, y: Array) -> tuple[Array, Tensor]:
        """The names of the labels, and an indicator matrix as targets."""
        if self._target_column() is not None:
            fix = "the schema's target is one column: for several labels a row, give a schema without a target"
            raise ArgumentError("y", f"shape {y.shape}", fix)
        return names_of_labels(y.shape[1], self.classes), torch.from_numpy(y.astype(np.float32))

    def _single(self, y: Array) -> tuple[Array, Tensor]:
        """The classes, sorted, and one-hot targets."""
        check_classes(y)
        column = None
        if self.classes is None:
            column = self._target_column()
        if column is not None and column.classes is not None:
            classes, codes = encoded_by_schema(column.classes, y)
        else:
            classes, codes = encoded(y, all_classes(self._world, y, self.classes))
        return classes, torch.eye(len(classes))[codes]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self._poor()
        tags.classifier_tags.multi_label = True
        return tags


def affine(calibration: Sequence[float], units: int, several: bool) -> tuple[float, Tensor]:
    """A calibration as what it does to logits: the slope of all, and the offset of each (``units``,).

    It holds the slope and the offset of the second of two classes; or the slope and offsets of every class but the
    first, or of every label; or, where there are none, the slope and 0.
    """
    slope, *offsets = calibration
    found = torch.zeros(units, dtype=torch.float64)
    if several and len(offsets) == units:
        found[:] = torch.tensor(offsets)
    if not several and len(offsets) == units - 1:
        found[1:] = torch.tensor(offsets)
    return slope, found
