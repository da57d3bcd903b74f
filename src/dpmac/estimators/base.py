"""What every private estimator shares: its arguments, the way from rows to a fitted model, and what it says of itself.

A new estimator is one file: a class on :class:`PrivateEstimator` that turns its targets into rows of numbers, calls
:meth:`PrivateEstimator._train` with a loss, and reads its predictions off :meth:`PrivateEstimator._outputs`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from dpmac.checks import ArgumentError, chosen, integer
from dpmac.mac import Z_STEPS, OptimizerStep, ZStep, cosine
from dpmac.nets import Activation, DenseNetwork, Loss
from dpmac.nets.fronts import Front, ToRange
from dpmac.privacy import BOUNDS, Bound, Ledger, Normalise, Plan, Statement, Unbounded
from dpmac.privacy.plan import check_delta
from dpmac.randomness import noise_source
from dpmac.training import Run, Trainer
from dpmac.training.progress import progress_bar
from dpmac.training.trainer import Evaluate

Array = np.ndarray[Any, Any]
_BLOCK = 8192  # rows that are predicted at a time


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


class PrivateEstimator(BaseEstimator):
    """The arguments that all private estimators have; they are only stored here, and looked at by ``fit``."""

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (300,),
        *,
        epsilon: float = 2.0,
        delta: float = 1e-5,
        batch_size: float | None = None,
        epochs: float = 30,
        activation: str | Activation = "tanh",
        learning_rate: float = 0.03,
        z_step: str | ZStep = "fixed",
        bound: str | Bound | None = None,
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
        self.learning_rate = learning_rate
        self.z_step = z_step
        self.bound = bound
        self.feature_range = feature_range
        self.random_state = random_state
        self.device = device
        self.micro_batch_size = micro_batch_size
        self.progress = progress

    def _train(
        self, X: Array, targets: Tensor, loss: Loss, *, evaluate: Evaluate | None = None, notes: tuple[str, ...] = ()
    ) -> None:
        """Fit on raw rows and targets (n, outputs); sets ``run_`` and what is read off it."""
        n, width = X.shape
        bound = Normalise() if self.bound is None else chosen("bound", self.bound, BOUNDS)
        zstep = chosen("z_step", self.z_step, Z_STEPS)
        source = noise_source(self._seed())
        sizes = [width, *self._hidden(), targets.shape[1]]
        network = DenseNetwork(sizes, self.activation, source=source.spawn("weights")).to(self.device)
        plan = Plan.for_budget(
            epsilon=self.epsilon, delta=self.delta, n=n, batch_size=self._batch(n), epochs=self.epochs
        )
        with progress_bar("training", self.progress) as on_step:
            trainer = Trainer(
                network,
                loss,
                plan,
                zstep=zstep,
                bound=bound if plan.private else Unbounded(),
                wstep=OptimizerStep(lr=self.learning_rate, schedule=cosine),
                source=source,
                front=self._front(width),
                micro_batch=self.micro_batch_size,
                evaluate=evaluate,
                on_step=on_step,
                notes=notes,
            )
            self.run_: Run = trainer.fit(_tensor(X), targets)
        self.front_ = self.run_.front
        self.network_ = self.run_.model
        self.history_ = self.run_.history
        self.privacy_ = Privacy(self.run_)

    def _checked(self, X: Any, y: Any) -> tuple[Array, Any]:
        """Rows and targets as scikit-learn checks them, enough of them, and a delta that suits them."""
        X, y = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=1)
        if len(X) < 2:
            raise ArgumentError("X", f"n_samples={len(X)}", "give at least 2 rows; a guarantee needs a crowd")
        check_delta(self.delta, len(X))
        self._front(X.shape[1])  # a bad range is said before anything else
        return X, y

    def _outputs(self, X: Any) -> Tensor:
        """The output layer's pre-activations of raw rows, in double precision: a row's does not depend on others."""
        check_is_fitted(self, "network_")
        rows = _tensor(validate_data(self, X, dtype=np.float32, reset=False))
        return torch.cat([self.run_.outputs(block).cpu() for block in torch.split(rows, _BLOCK)])

    def _inputs(self, X: Any) -> Tensor:
        """The network's inputs for rows, for a metric on public ones."""
        rows = _tensor(validate_data(self, X, dtype=np.float32, reset=False))
        front = self._front(rows.shape[1])
        return rows if front is None else front(rows).float()

    def _front(self, width: int) -> Front | None:
        if self.feature_range is None:
            return None
        fix = "give public, finite bounds with low < high"
        try:
            if not isinstance(self.feature_range, tuple | list | np.ndarray):
                raise TypeError
            low, high = (np.asarray(end, dtype=np.float64) for end in self.feature_range)
        except (TypeError, ValueError):
            raise ArgumentError("feature_range", self.feature_range, f"{fix}: (low, high)") from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ArgumentError("feature_range", self.feature_range, fix)
        if any(end.shape not in ((), (width,)) for end in (low, high)):
            raise ArgumentError("feature_range", self.feature_range, f"give two numbers, or {width} a side")
        return ToRange(torch.from_numpy(np.array(low)), torch.from_numpy(np.array(high)))

    def _hidden(self) -> list[int]:
        sizes = self.hidden_layer_sizes
        fix = "give whole numbers of units, each at least 1, such as (300,)"
        if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray):
            sizes = (sizes,)
        return [integer("hidden_layer_sizes", size, fix) for size in sizes]

    def _batch(self, n: int) -> float:
        return self.batch_size if self.batch_size is not None else float(min(n, max(256, min(4096, n // 4))))

    def _seed(self) -> int | None:
        if self.random_state is None:
            return None
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31))
        return integer(
            "random_state", self.random_state, "give None or a whole number, at least 0", low=0, high=2**63 - 1
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags

    def _poor(self) -> bool:
        """For scikit-learn's checks: noise costs accuracy on a few hundred rows."""
        return math.isfinite(self.epsilon)


def _tensor(X: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(X))
