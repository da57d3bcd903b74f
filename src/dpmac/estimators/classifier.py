"""The classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.estimators.base import Array, PrivateEstimator
from dpmac.mac import ZStep
from dpmac.nets import LOSSES, Activation, Network
from dpmac.privacy import Bound
from dpmac.training.trainer import Evaluate

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
    hidden_layer_sizes : units of each hidden layer; ``()`` for a linear model.
    epsilon : the budget; ``float("inf")`` trains without noise or bound, and the statement then says "not private".
    delta : must be below 1/n.
    batch_size : expected size of a Poisson batch; None takes a quarter of the rows, between 256 and 4096.
    epochs : expected passes over the rows.
    activation : "tanh", "relu", "elu", "gelu", "softplus", "sigmoid" or "identity".
    loss : "softmax" or the paper's per-class "sigmoid" cross-entropy.
    learning_rate : initial rate of Adam; it falls to 0 along a cosine.
    z_step : "fixed" (one backward sweep, fast), "adam" (the paper's 30 Adam steps), "error", "gauss-newton", or any
        Z-step object (see ``dpmac.mac``).
    bound : "normalise", "clip", "joint", "adaptive", or a :class:`dpmac.privacy.Bound` object; None normalises every
        example's part in every layer.
    classes : the class labels, if they are known; None reads them from ``y``, which treats them as public.
    feature_range : ``(low, high)``, numbers or one per feature, public: features are mapped to [-1, 1] and clipped.
    random_state : None draws all randomness from the operating system. A number makes the run repeatable, and *not
        private* against anyone who knows it.
    device : a torch device. ``micro_batch_size`` bounds memory. Neither changes the result beyond rounding.
    progress : True, False, or "auto" for a bar on a terminal when training takes more than a moment.

    Attributes
    ----------
    classes_, n_features_in_, front_ (the public map from rows to the network's inputs, or None), network_ (a plain
    torch module), privacy_ (``.epsilon``, ``.delta``, ``.statement()``, ``.ledger``), history_ (one public record an
    epoch), run_ (all of it, with ``save``).
    """

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (300,),
        *,
        epsilon: float = 2.0,
        delta: float = 1e-5,
        batch_size: float | None = None,
        epochs: float = 30,
        activation: str | Activation = "tanh",
        loss: str = "softmax",
        learning_rate: float = 0.03,
        z_step: str | ZStep = "fixed",
        bound: str | Bound | None = None,
        classes: Sequence[Any] | None = None,
        feature_range: tuple[Any, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        micro_batch_size: int | None = None,
        progress: bool | Literal["auto"] = "auto",
    ) -> None:
        super().__init__(
            hidden_layer_sizes,
            epsilon=epsilon,
            delta=delta,
            batch_size=batch_size,
            epochs=epochs,
            activation=activation,
            learning_rate=learning_rate,
            z_step=z_step,
            bound=bound,
            feature_range=feature_range,
            random_state=random_state,
            device=device,
            micro_batch_size=micro_batch_size,
            progress=progress,
        )
        self.loss = loss
        self.classes = classes

    def fit(self, X: Any, y: Any, public_validation: tuple[Any, Any] | None = None) -> DPMACClassifier:
        """Train on ``X`` (n, features) and labels ``y``. Everything is checked before any privacy is spent.

        ``public_validation=(X, y)`` records accuracy on *public* rows after each epoch in ``history_``. Never pass
        private rows there: such metrics are outside the guarantee.
        """
        X, y = self._checked(X, y)
        check_classification_targets(y)
        classes, codes = self._encode(y)
        if self.loss not in ("softmax", "sigmoid"):
            raise ArgumentError("loss", self.loss, "choose 'softmax' or 'sigmoid'")
        evaluate = self._evaluator(public_validation, classes)
        notes = () if self.classes is not None else (CLASSES_NOTE,)
        self._train(X, torch.eye(len(classes))[codes], LOSSES[self.loss], evaluate=evaluate, notes=notes)
        self.classes_ = classes
        return self

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
        """The classes, and each label's place among them."""
        found = np.unique(y)
        classes = found if self.classes is None else np.unique(np.asarray(self.classes))
        strange = np.setdiff1d(found, classes)
        if len(strange):
            raise ArgumentError("y", strange[0], f"this label is not among classes={classes.tolist()}")
        if len(classes) < 2:
            raise ArgumentError("y", f"{len(classes)} class", "a classifier needs at least two classes")
        return classes, torch.from_numpy(np.searchsorted(classes, y).reshape(-1))

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
