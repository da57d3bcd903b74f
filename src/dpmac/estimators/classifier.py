"""The classifier."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.estimators.base import Array, PrivateEstimator
from dpmac.mac import ZStep
from dpmac.methods import Calibration
from dpmac.nets import LOSSES, Activation, Network
from dpmac.privacy import Bound, Ledger
from dpmac.tables import Category, Schema
from dpmac.training.trainer import Evaluate

CALIBRATION = 0.05  # of the budget, for the calibration of the logits
FEWEST = 1000  # rows, below which a calibration would be noise
CLASSES_NOTE = (
    "the set of class labels, which was read from the data and is treated as public (give `classes` to avoid it);"
)


class DPMACClassifier(ClassifierMixin, PrivateEstimator):
    """A differentially private neural-network classifier, trained by the method of auxiliary coordinates.

    After ``fit`` the model is (epsilon, delta)-differentially private for one row, there or blank; ``privacy_``
    holds the proof. Rows are neither centred nor scaled by their own statistics, since that would leak: give public
    bounds in ``feature_range``, or scale the features by public constants yourself.

    Parameters
    ----------
    hidden_layer_sizes : units of each hidden layer; ``()`` for a linear model; "auto" follows from the number of rows.
    epsilon : the budget; ``float("inf")`` trains without noise or bound, and the statement then says "not private".
    delta : must be below 1/n; None takes a power of ten, at most 1e-5 and a tenth of 1/n.
    schema : what is publicly known of a table's columns (:class:`dpmac.tables.Schema`); rows are then tables
        (pandas, polars, arrow, ...), encoded on the private way, and the classes are the target's values.
    feature_range : for arrays, ``(low, high)``, numbers or one per feature, public: mapped to [-1, 1] and clipped.
    classes : the class labels, if they are known; None reads them from ``y``, which treats them as public.
    calibrate : spend CALIBRATION of the budget on a private recalibration of the logits, where there are 1,000 rows.
    batch_size, epochs, activation, learning_rate : None follows from public numbers (:mod:`dpmac.training.defaults`).
    loss : "softmax" or the paper's per-class "sigmoid" cross-entropy.
    z_step : "fixed" (one backward sweep, fast), "adam" (the paper's 30 Adam steps), "error", "gauss-newton", or any
        Z-step object (see ``dpmac.mac``).
    bound : "joint", "normalise", "clip", "adaptive", or a :class:`dpmac.privacy.Bound` object; None clips the whole
        gradient of an example (at 1, or 3 below ten thousand rows).
    ledger : a :class:`dpmac.privacy.Ledger` or a path: what is released is added to it, and the statement composes all
        that it holds. Any number of fits may share one. ``total_epsilon`` refuses a fit that would not fit into it.
    random_state : None draws all randomness from the operating system. A number makes the run repeatable, and *not
        private* against anyone who knows it.
    device : a torch device. ``micro_batch_size`` bounds memory. Neither changes the result beyond rounding.
    progress : True, False, or "auto" for a bar on a terminal when training takes more than a moment.

    Attributes
    ----------
    classes_, n_features_in_, front_ (the public map from rows to the network's inputs, or None), network_ (a plain
    torch module, calibrated), calibration_ (slope and offset of the logits that went into it, or None), plan_,
    privacy_ (``.epsilon``, ``.delta``, ``.statement()``, ``.ledger``), history_ (one public record an epoch), run_
    (all of it, with ``save``).
    """

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] | Literal["auto"] = "auto",
        *,
        epsilon: float = 2.0,
        delta: float | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        feature_range: tuple[Any, Any] | None = None,
        classes: Sequence[Any] | None = None,
        calibrate: bool = True,
        batch_size: float | None = None,
        epochs: float | None = None,
        activation: str | Activation | None = None,
        loss: str = "softmax",
        learning_rate: float | None = None,
        z_step: str | ZStep = "fixed",
        bound: str | Bound | None = None,
        ledger: Ledger | str | Path | None = None,
        total_epsilon: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        micro_batch_size: int | None = None,
        progress: bool | Literal["auto"] = "auto",
    ) -> None:
        super().__init__(
            hidden_layer_sizes,
            epsilon=epsilon,
            delta=delta,
            schema=schema,
            feature_range=feature_range,
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
            progress=progress,
        )
        self.classes = classes
        self.calibrate = calibrate
        self.loss = loss

    def fit(self, X: Any, y: Any = None, public_validation: tuple[Any, Any] | None = None) -> DPMACClassifier:
        """Train on ``X`` (n, features) and labels ``y`` (None takes the schema's target out of the table).

        Everything is checked before any privacy is spent. ``public_validation=(X, y)`` records accuracy on *public*
        rows after each epoch in ``history_``. Never pass private rows there: such metrics are outside the guarantee.
        """
        x, y = self._checked(X, y)
        check_classification_targets(y)
        classes, codes = self._encode(y)
        if self.loss not in ("softmax", "sigmoid"):
            raise ArgumentError("loss", self.loss, "choose 'softmax' or 'sigmoid'")
        evaluate = self._evaluator(public_validation, classes)
        notes = () if self._known_classes() is not None else (CLASSES_NOTE,)
        calibration = self._calibration(len(x))
        after = () if calibration is None else (calibration.mechanism(),)
        targets = torch.eye(len(classes))[codes]
        table, source = self._train(x, targets, LOSSES[self.loss], after=after, evaluate=evaluate, notes=notes)
        self.classes_ = classes
        self.calibration_: tuple[float, float] | None = None
        if calibration is not None:
            run, draw = self.run_, source.spawn("calibration")
            logits = table.behind(run.outputs)  # once for all rounds
            self.calibration_ = calibration.fit(logits, torch.nn.Identity(), draw, run.ledger)
            self._write_into_the_network(*self.calibration_)
        return self

    def _write_into_the_network(self, slope: float, offset: float) -> None:
        """A calibration is affine in the logits, so it is a change of the last layer: the network is the model."""
        last = self.network_.weight_layers[-1]
        matrix = slope * last.matrix()
        if len(matrix) == 2:
            matrix[1, -1] += offset
        last.write(matrix)

    def _calibration(self, n: int) -> Calibration | None:
        if not self.calibrate or not math.isfinite(self.epsilon) or n < FEWEST:
            return None
        return Calibration.for_share(CALIBRATION, self.epsilon, self._delta(n))

    def _known_classes(self) -> Sequence[Any] | None:
        """The class labels that are public: given, or the values of the schema's target."""
        if self.classes is not None:
            return self.classes
        column = self._target_column()
        return column.values if isinstance(column, Category) else None

    def decision_function(self, X: Any) -> Array:
        """The output layer's pre-activations; for two classes the second minus the first, as scikit-learn has it."""
        u = self._outputs(X).numpy()
        return u[:, 1] - u[:, 0] if len(self.classes_) == 2 else u

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, in the order of ``classes_``."""
        result: Array = LOSSES[self.loss].predict(self._outputs(X)).numpy()
        return result

    def predict(self, X: Any) -> Array:
        """The likeliest class of each row."""
        winners = self._outputs(X).argmax(dim=1).numpy()
        result: Array = self.classes_[winners]
        return result

    def _encode(self, y: Array) -> tuple[Array, Tensor]:
        """The classes, sorted, and each label's place among them."""
        column = self._target_column() if self.classes is None else None
        if isinstance(column, Category):
            return _by_schema(column, y)
        found, places = np.unique(y, return_inverse=True)
        classes = found if self.classes is None else np.unique(np.asarray(self.classes))
        strange = np.setdiff1d(found, classes)
        if len(strange):
            raise ArgumentError("y", strange[0], f"this label is not among classes={classes.tolist()}")
        if len(classes) < 2:
            raise ArgumentError("y", f"{len(classes)} class", "a classifier needs at least two classes")
        return classes, torch.from_numpy(np.searchsorted(classes, found)[places].reshape(-1))

    def _evaluator(self, public: tuple[Any, Any] | None, classes: Array) -> Evaluate | None:
        if public is None:
            return None
        inputs = self._inputs(public[0])
        labels = np.asarray(public[1])
        if len(labels) != len(inputs):
            raise ArgumentError("public_validation", f"{len(labels)} labels", f"there are {len(inputs)} rows")

        def accuracy(network: Network) -> Mapping[str, float]:
            with torch.no_grad():
                winners = network(inputs.to(network.device)).argmax(dim=1).cpu().numpy()
            return {"validation_accuracy": float(np.mean(classes[winners] == labels))}

        return accuracy

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self._poor()
        return tags


def _by_schema(column: Category, y: Array) -> tuple[Array, Tensor]:
    """As the schema's values have it, whether or not a row has them; what a class is called follows from y's type."""
    codes = Category(column.values).coded("y", y)
    classes = _named(column.values, y.dtype.kind)
    strange = np.flatnonzero(codes == column.other)
    if len(strange):
        raise ArgumentError("y", y[strange[0]], f"this label is not among classes={classes.tolist()}")
    if len(classes) < 2:
        raise ArgumentError("y", "1 class", "a classifier needs at least two classes: list them in the schema")
    order = np.argsort(classes, kind="stable")
    return classes[order], torch.from_numpy(np.argsort(order)[codes.astype(np.int64)])


def _named(values: Sequence[str], kind: str) -> Array:
    """The values in the type of labels of that NumPy kind, or as text where they have no such form."""
    truth = {"true": True, "false": False, "1": True, "0": False}
    try:
        if kind == "b":
            return np.array([truth[value.lower()] for value in values])
        if kind in "iuf":
            numbers = np.array([float(value) for value in values])
            return numbers if kind == "f" or (numbers % 1).any() else numbers.astype(np.int64)
    except (KeyError, ValueError):
        pass
    return np.array(values)
