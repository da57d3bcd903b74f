"""The classifier."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from torch import Tensor

from dpmac.checks import ArgumentError, chosen
from dpmac.estimators.arguments import estimator
from dpmac.estimators.base import Array, PrivateEstimator
from dpmac.estimators.budget import alone_with_ledger
from dpmac.estimators.labels import (
    CLASSES_NOTE,
    LabelsInFiles,
    accuracy_on,
    check_classes,
    class_weights,
    encoded,
    encoded_by_schema,
    label_weights,
    looked_over,
    names_of_labels,
)
from dpmac.estimators.sharing import all_classes
from dpmac.methods import Calibration
from dpmac.nets import LOSSES, Loss, MultiLabelCrossEntropy, WeightedClasses
from dpmac.privacy import BOUNDS, Mechanism, Normalise, PrivateRows
from dpmac.randomness import NoiseSource
from dpmac.tables.stored import MEMORY
from dpmac.training.defaults import calibration_for
from dpmac.training.post_training import PostTraining
from dpmac.training.trainer import Evaluate


@estimator
class DPMACClassifier(ClassifierMixin, PrivateEstimator):
    """A differentially private neural-network classifier, trained by the method of auxiliary coordinates.

    After ``fit`` the model is (epsilon, delta)-differentially private for one row, there or blank; with ``groups`` for
    one person with all their rows. ``privacy_`` holds the proof. Rows are neither centred nor scaled by their own
    statistics, since that would leak: give public bounds in ``feature_range``, or scale by public constants yourself.

    What runs by default (``z_step="fixed"``) is one backward sweep with fixed predictions, which gives the directions
    of DP-SGD. A step with the paper's own Z-steps (``z_step="adam"``) takes 3 to 10 times as long on a CPU; with the
    paper's settings they were behind DP-SGD on MNIST at every epsilon, and ahead of it on the USPS autoencoder at
    three of four (docs/method.md has the figures).

    Parameters
    ----------
    classes : the class labels, if they are known; None takes those of the schema's target, or reads them from ``y``,
        which treats them as public. With several labels a row their number is in ``y``'s shape, public as the number of
        columns is; ``classes`` may name them.
    class_weight : public weights {class: weight}, 1 for a class left out; with several labels a row a list of dicts
        {0: weight, 1: weight}, one a label. They multiply an example's loss *before* the bound, which therefore holds,
        and cuts what it makes too long: weights of at most 1 keep their ratios best. Probabilities are those of the
        re-weighted problem, and the calibration keeps them so (it weighs the rows alike); p_k / weight_k, made to sum
        to 1, are those of the rows as they are. "balanced" is refused: it would read the rows' class frequencies.
    calibrate : spend 5 % (below 1,000 rows 10 %) on a recalibration of the logits, if n epsilon is 500 at least.
    loss : "softmax" or the paper's per-class "sigmoid" cross-entropy, which is always that of several labels a row.
    others : those of :class:`~dpmac.estimators.arguments.TrainingArguments`, which every trained estimator has.

    Attributes
    ----------
    classes_, n_features_in_, feature_map_ (the public map from rows to the network's inputs, or None), network_ (a
    plain torch module, calibrated), calibration_ (slope and offset of the logits that went into it, or None), plan_,
    privacy_ (``.epsilon``, ``.delta``, ``.statement()``, ``.ledger``), history_ (one public record an epoch), run_ (all
    of it, with ``save``).
    """

    _labels_may_be_several = True

    classes: Sequence[Any] | None = None
    class_weight: Mapping[Any, float] | Sequence[Mapping[int, float]] | None = None
    calibrate: bool = True
    loss: str = "softmax"

    @alone_with_ledger
    def fit(
        self, X: Any, y: Any = None, public_validation: tuple[Any, Any] | None = None, groups: Any = None
    ) -> DPMACClassifier:
        """Train on ``X`` (rows, features) and labels ``y`` (None takes the schema's target out of the table).

        ``X`` may be in files, larger than memory (:class:`dpmac.tables.Files`, or a path): with a schema, without y.
        ``y`` is one label a row, or a matrix (rows, labels) of 0 and 1 where a row may have several (multi-label).
        ``groups`` says whose each row is, an id for each (with a schema, the name of their column will do): the unit of
        privacy is then a person with any number of rows, and every person has the same say.
        Everything is checked before any privacy is spent. ``public_validation=(X, y)`` records accuracy on *public*
        rows after each epoch in ``history_``. Never pass private rows there: such metrics are outside the guarantee.
        """
        indicator: np.dtype[Any] | None = None
        if (files := self._files(X, y)) is not None:
            found = LabelsInFiles(self._single, self._known_classes())
            given, targets = self._from_files(files, groups, found)
            classes = found.classes
        else:
            if y is not None:
                given, y = self._checked(X, looked_over(y), groups)
            else:
                given, y = self._checked(X, None, groups)
                y = looked_over(y)  # the schema's target
            if y.ndim == 2:
                indicator = y.dtype
                classes, targets = self._several(y)
            else:
                classes, targets = self._single(y)
        several = indicator is not None
        if self.loss not in ("softmax", "sigmoid"):
            raise ArgumentError("loss", self.loss, "choose 'softmax' or 'sigmoid'")
        loss, weights = self._weighed(classes, several)
        evaluate: Evaluate | None = None
        if public_validation is not None:
            rows, right = public_validation
            evaluate = accuracy_on(self._inputs(rows), np.asarray(right), classes, several, self._target_column())
        notes: tuple[str, ...] = ()
        if not several and self._known_classes() is None:
            notes = (CLASSES_NOTE,)
        calibration = self._calibration(given.n)
        after: tuple[Mechanism, ...] = ()
        if calibration is not None:
            after = (calibration.mechanism(),)
        table, source = self._train(given, targets, loss, after=after, evaluate=evaluate, notes=notes)
        self.classes_, self._indicator = classes, indicator
        self.calibration_: tuple[float, float] | None = None
        with self._post_training("calibration") as done:
            if calibration is not None and (done.kept is not None or done.made < calibration.rounds):
                self._calibrate(calibration, table, source.spawn("calibration"), weights, done)
        return self

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
            return LOSSES[self.loss], None
        return WeightedClasses(LOSSES[self.loss], weights), torch.tensor(weights, dtype=torch.float64)

    def _calibrate(
        self,
        calibration: Calibration,
        table: PrivateRows,
        source: NoiseSource,
        weights: Tensor | None,
        done: PostTraining,
    ) -> None:
        self.calibration_ = calibration.fit(
            table.behind(self.run_.outputs, memory=MEMORY),  # once for all rounds
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

    def _write_into_the_network(self, slope: float, offset: float) -> None:
        """A calibration is affine in the logits, so it is a change of the last layer: the network is the model."""
        last = self.network_.weight_layers[-1]
        matrix = slope * last.matrix()
        if len(matrix) == 2:  # two classes; of two labels the offset is 0
            matrix[1, -1] += offset
        last.write(matrix)

    def _calibration(self, n: int) -> Calibration | None:
        found = calibration_for(n, self.epsilon)
        if not self.calibrate or not math.isfinite(self.epsilon) or found is None:
            return None
        share, rounds = found
        return Calibration.for_share(share, self.epsilon, self._delta(n), rounds)

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
        loss = LOSSES[self.loss]
        if self._indicator is not None:
            loss = LOSSES["multilabel"]
        return self._handed_out(loss.predict(u).numpy())

    def predict(self, X: Any) -> Array:
        """The likeliest class of each row; of several labels a matrix of 0 and 1, as ``fit`` took it."""
        u = self._outputs(X)
        if self._indicator is not None:
            return (u > 0).numpy().astype(self._indicator)
        result: Array = self.classes_[u.argmax(dim=1).numpy()]
        return result

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
