"""The scikit-learn front: a thin classifier over the trainer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from dpmac.checks import ArgumentError, integer
from dpmac.mac.coordinates import AdamCoordinates, FixedPrediction, ZStep
from dpmac.mac.error_coordinates import ErrorCoordinates
from dpmac.mac.gauss_newton import GaussNewton
from dpmac.mac.weights import OptimizerStep, cosine
from dpmac.nets.activations import Activation
from dpmac.nets.losses import loss as loss_of
from dpmac.nets.network import DenseNetwork
from dpmac.privacy.bound import Bound, Normalise, Unbounded
from dpmac.privacy.ledger import Ledger
from dpmac.privacy.noise import noise_source
from dpmac.privacy.plan import Plan, check_delta
from dpmac.privacy.statement import Statement
from dpmac.training.progress import progress_bar
from dpmac.training.run import Run
from dpmac.training.trainer import Evaluate, Trainer

Array = np.ndarray[Any, Any]
CLASSES_NOTE = (
    "the set of class labels, which was read from the data and is treated as public (give `classes` to avoid it);"
)
Z_STEPS: Mapping[str, ZStep] = {
    "fixed": FixedPrediction(),
    "adam": AdamCoordinates(),
    "error": ErrorCoordinates(),
    "gauss-newton": GaussNewton(),
}


@dataclass(frozen=True)
class Privacy:
    """What a fitted model guarantees, composed from its ledger."""

    run: Run

    @property
    def ledger(self) -> Ledger:
        return self.run.ledger

    @property
    def epsilon(self) -> float:
        """By privacy loss distributions, of everything in the ledger; inf if the model is not private."""
        return self.ledger.epsilon(self.delta)

    @property
    def delta(self) -> float:
        return self.run.plan.delta

    def statement(self) -> Statement:
        """The guarantee in plain sentences."""
        return self.run.statement()


class DPMACClassifier(ClassifierMixin, BaseEstimator):
    """A differentially private neural-network classifier, trained by the method of auxiliary coordinates.

    After ``fit`` the model is (epsilon, delta)-differentially private under adding or removing one row; ``privacy_``
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
    bound : a :class:`dpmac.privacy.Bound`; None normalises every example's part in every layer.
    classes : the class labels, if they are known; None reads them from ``y``, which treats them as public.
    feature_range : ``(low, high)``, numbers or one per feature, public: features are mapped to [-1, 1] and clipped.
    random_state : None draws all randomness from the operating system. A number makes the run repeatable, and *not
        private* against anyone who knows it.
    device : a torch device. ``micro_batch_size`` bounds memory. Neither changes the result beyond rounding.
    progress : True, False, or "auto" for a bar on a terminal when training takes more than a moment.

    Attributes
    ----------
    classes_, n_features_in_, network_ (a plain torch module), privacy_ (``.epsilon``, ``.delta``, ``.statement()``,
    ``.ledger``), history_ (one public record an epoch), run_ (all of it, with ``save``).
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
        bound: Bound | None = None,
        classes: Sequence[Any] | None = None,
        feature_range: tuple[Any, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        micro_batch_size: int | None = None,
        progress: bool | Literal["auto"] = "auto",
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.epsilon = epsilon
        self.delta = delta
        self.batch_size = batch_size
        self.epochs = epochs
        self.activation = activation
        self.loss = loss
        self.learning_rate = learning_rate
        self.z_step = z_step
        self.bound = bound
        self.classes = classes
        self.feature_range = feature_range
        self.random_state = random_state
        self.device = device
        self.micro_batch_size = micro_batch_size
        self.progress = progress

    def fit(self, X: Any, y: Any, public_validation: tuple[Any, Any] | None = None) -> DPMACClassifier:
        """Train on ``X`` (n, features) and labels ``y``. Everything is checked before any privacy is spent.

        ``public_validation=(X, y)`` records accuracy on *public* rows after each epoch in ``history_``. Never pass
        private rows there: such metrics are outside the guarantee.
        """
        X, y = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=1)
        check_classification_targets(y)
        n, width = X.shape
        if n < 2:
            raise ArgumentError("X", f"n_samples={n}", "give at least 2 rows; a guarantee needs a crowd")
        check_delta(self.delta, n)
        classes, codes = self._encode(y)
        if self.loss not in ("softmax", "sigmoid"):
            raise ArgumentError("loss", self.loss, "choose 'softmax' or 'sigmoid'")
        g = loss_of(self.loss)
        source = noise_source(self._seed())
        sizes = [width, *self._hidden(), len(classes)]
        network = DenseNetwork(sizes, self.activation, source=source.spawn("weights")).to(self.device)
        rows = self._features(X)
        plan = Plan.for_budget(
            epsilon=self.epsilon, delta=self.delta, n=n, batch_size=self._batch(n), epochs=self.epochs
        )
        bound: Bound = self.bound if self.bound is not None else Normalise()
        with progress_bar("training", self.progress) as on_step:
            trainer = Trainer(
                network,
                g,
                plan,
                zstep=self._z_step(),
                bound=bound if plan.private else Unbounded(),
                wstep=OptimizerStep(lr=self.learning_rate, schedule=cosine),
                source=source,
                micro_batch=self.micro_batch_size,
                evaluate=self._evaluator(public_validation, classes),
                on_step=on_step,
                notes=() if self.classes is not None else (CLASSES_NOTE,),
            )
            self.run_: Run = trainer.fit(rows, torch.eye(len(classes))[codes])
        self.classes_ = classes
        self.network_ = self.run_.model
        self.history_ = self.run_.history
        self.privacy_ = Privacy(self.run_)
        return self

    def decision_function(self, X: Any) -> Array:
        """The output layer's pre-activations; for two classes the second minus the first, as scikit-learn has it."""
        u = self._pre_activation(X).numpy()
        return u[:, 1] - u[:, 0] if len(self.classes_) == 2 else u

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, in the order of ``classes_``."""
        result: Array = loss_of(self.loss).predict(self._pre_activation(X)).numpy()
        return result

    def predict(self, X: Any) -> Array:
        """The likeliest class of each row."""
        winners = self._pre_activation(X).argmax(dim=1).numpy()
        result: Array = self.classes_[winners]
        return result

    @torch.no_grad()
    def _pre_activation(self, X: Any) -> Tensor:
        check_is_fitted(self, "network_")
        rows = self._features(validate_data(self, X, dtype=np.float32, reset=False))
        exact = self.network_.plain().double()  # so that a row's answer does not depend on the rows beside it
        return torch.cat([exact(block.to(self.network_.device).double()).cpu() for block in torch.split(rows, 8192)])

    def _features(self, X: Array) -> Tensor:
        if self.feature_range is None:
            return torch.from_numpy(np.ascontiguousarray(X))
        low, high = (np.asarray(end, dtype=np.float64) for end in self.feature_range)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ArgumentError("feature_range", self.feature_range, "give public, finite bounds with low < high")
        if any(end.shape not in ((), (X.shape[1],)) for end in (low, high)):
            raise ArgumentError("feature_range", self.feature_range, f"give two numbers, or {X.shape[1]} a side")
        return torch.from_numpy(np.clip(2 * (X - low) / (high - low) - 1, -1, 1).astype(np.float32))

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

    def _hidden(self) -> list[int]:
        sizes = self.hidden_layer_sizes
        fix = "give whole numbers of units, each at least 1, such as (300,)"
        if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray):
            sizes = (sizes,)
        return [integer("hidden_layer_sizes", size, fix) for size in sizes]

    def _batch(self, n: int) -> float:
        return self.batch_size if self.batch_size is not None else float(min(n, max(256, min(4096, n // 4))))

    def _z_step(self) -> ZStep:
        if not isinstance(self.z_step, str):
            return self.z_step
        if self.z_step not in Z_STEPS:
            raise ArgumentError("z_step", self.z_step, f"choose one of {', '.join(Z_STEPS)}, or a Z-step object")
        return Z_STEPS[self.z_step]

    def _seed(self) -> int | None:
        if self.random_state is None:
            return None
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31))
        return integer(
            "random_state", self.random_state, "give None or a whole number, at least 0", low=0, high=2**63 - 1
        )

    def _evaluator(self, public: tuple[Any, Any] | None, classes: Array) -> Evaluate | None:
        if public is None:
            return None
        inputs = self._features(validate_data(self, public[0], dtype=np.float32, reset=False))
        labels = np.asarray(public[1])
        if len(labels) != len(inputs):
            raise ArgumentError("public_validation", f"{len(labels)} labels", f"there are {len(inputs)} rows")

        def accuracy(network: DenseNetwork) -> Mapping[str, float]:
            with torch.no_grad():
                winners = network(inputs.to(network.device)).argmax(dim=1).cpu().numpy()
            return {"validation_accuracy": float(np.mean(classes[winners] == labels))}

        return accuracy

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.classifier_tags.poor_score = math.isfinite(self.epsilon)  # noise costs accuracy on a few hundred rows
        return tags
