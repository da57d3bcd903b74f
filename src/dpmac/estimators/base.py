"""What every private estimator shares: its arguments, the way from rows to a fitted model, and what it says of itself.

A new estimator is one file: a class on :class:`PrivateEstimator` that turns its targets into rows of numbers, calls
:meth:`PrivateEstimator._train` with a loss, and reads its predictions off :meth:`PrivateEstimator._outputs`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from dpmac.checks import ArgumentError, chosen, integer, number
from dpmac.estimators.guarantee import Privacy
from dpmac.mac import Z_STEPS, Averaged, OptimizerStep, ZStep, cosine
from dpmac.methods import Gradients
from dpmac.nets import Activation, DenseNetwork, Loss
from dpmac.nets.fronts import Front, ToRange
from dpmac.privacy import BOUNDS, Bound, JointClip, Ledger, Mechanism, Plan, PrivateRows, Unbounded
from dpmac.privacy.plan import check_delta
from dpmac.randomness import NoiseSource, noise_source
from dpmac.tables import Schema, TableEncoder
from dpmac.tables.columns import Column
from dpmac.tables.frames import cells
from dpmac.training import Run, Trainer
from dpmac.training.defaults import Defaults, defaults_for, safe_delta
from dpmac.training.progress import progress_bar
from dpmac.training.trainer import Evaluate

Array = np.ndarray[Any, Any]
_BLOCK = 8192  # rows that are predicted at a time


class PrivateEstimator(BaseEstimator):
    """The arguments that all private estimators have; they are only stored here, and looked at by ``fit``.

    What is left at None follows from public numbers by one rule, :mod:`dpmac.training.defaults`.
    """

    _regression = False

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] | Literal["auto"] = "auto",
        *,
        epsilon: float = 2.0,
        delta: float | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        feature_range: tuple[Any, Any] | None = None,
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
        progress: bool | Literal["auto"] = "auto",
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.feature_range = feature_range
        self.batch_size = batch_size
        self.epochs = epochs
        self.activation = activation
        self.learning_rate = learning_rate
        self.z_step = z_step
        self.bound = bound
        self.ledger = ledger
        self.total_epsilon = total_epsilon
        self.random_state = random_state
        self.device = device
        self.micro_batch_size = micro_batch_size
        self.progress = progress

    def _train(
        self,
        x: Tensor,
        targets: Tensor,
        loss: Loss,
        *,
        after: tuple[Mechanism, ...] = (),
        evaluate: Evaluate | None = None,
        notes: tuple[str, ...] = (),
    ) -> tuple[PrivateRows, NoiseSource]:
        """Fit on raw rows and targets (n, outputs); sets ``run_`` and what is read off it.

        ``after`` is what the estimator will release when the training is done, from the same budget; it is handed the
        table and the source for that.
        """
        usual = defaults_for(len(x), regression=self._regression)
        front = self._front(x.shape[1])
        width = x.shape[1] if front is None else math.prod(front.shape_after(tuple(x.shape[1:])))
        bound = JointClip(usual.threshold) if self.bound is None else chosen("bound", self.bound, BOUNDS)
        zstep = chosen("z_step", self.z_step, Z_STEPS)
        source = noise_source(self._seed())
        act = usual.activation if self.activation is None else self.activation
        network = DenseNetwork([width, *self._hidden(usual), targets.shape[1]], act, source=source.spawn("weights"))
        with torch.no_grad():  # a start near "nothing known": the first steps are not spent on unlearning
            network.weight_layers[-1].weight.mul_(0.1)
        ledger = Ledger.at(self.ledger)
        plan = self._plan(len(x), usual, after, ledger)
        rate = usual.learning_rate if self.learning_rate is None else self.learning_rate
        table = PrivateRows(x, targets)
        with progress_bar("training", self.progress) as on_step:
            trainer = Trainer(
                network.to(self._device()),
                loss,
                plan,
                zstep=zstep,
                bound=bound if plan.noise_multiplier else Unbounded(),
                wstep=Averaged(OptimizerStep(lr=rate, schedule=cosine), usual.average),
                source=source,
                expansion=Gradients(),
                front=front,
                micro_batch=self.micro_batch_size,
                evaluate=evaluate,
                on_step=on_step,
                notes=notes,
            )
            self.run_: Run = trainer.fit(table, ledger=ledger)
        self.front_ = self.run_.front
        self.network_ = self.run_.model
        self.history_ = self.run_.history
        self.plan_ = plan
        self.privacy_ = Privacy(self.run_)
        return table.to(self.network_.device), source

    def _plan(self, n: int, usual: Defaults, after: tuple[Mechanism, ...], ledger: Ledger) -> Plan:
        """The plan whose own cost, ``after`` included, is the budget; it knows what the ledger holds already."""
        delta = self._delta(n)
        batch = usual.batch_size if self.batch_size is None else self.batch_size
        steps = usual.steps if self.epochs is None else None
        own = Plan.for_budget(
            epsilon=self.epsilon, delta=delta, n=n, batch_size=batch, steps=steps, epochs=self.epochs, before=after
        )
        plan = replace(own, before=ledger.mechanisms())
        if self.total_epsilon is not None:
            whole = replace(own, before=(*ledger.mechanisms(), *after)).epsilon()
            if whole > self.total_epsilon:
                spent = ledger.epsilon(delta)
                fix = (
                    f"the ledger holds {spent:.4g} already, and with this fit it would hold {whole:.4g}: lower epsilon"
                )
                raise ArgumentError("total_epsilon", self.total_epsilon, fix)
        return plan

    def _delta(self, n: int) -> float:
        if self.delta is None:
            return safe_delta(n)
        check_delta(self.delta, n)
        return float(self.delta)

    def _device(self) -> torch.device:
        try:
            torch.zeros(1, device=self.device).cpu()
            return torch.device(self.device)
        except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:  # Assertion: no CUDA
            raise ArgumentError("device", self.device, f"{str(error).splitlines()[0]}: use 'cpu'") from None

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _encoder(self) -> TableEncoder | None:
        if self.schema is None:
            return None
        if self.feature_range is not None:
            fix = "the schema has the ranges: leave feature_range out"
            raise ArgumentError("feature_range", self.feature_range, fix)
        return TableEncoder(self.schema)

    def _target_column(self) -> Column | None:
        """What the schema says of its target; None without a schema or a target."""
        encoder = self._encoder()
        return None if encoder is None else encoder.schema.target_column

    def _checked(self, X: Any, y: Any) -> tuple[Tensor, Any]:
        """Raw rows and targets, looked over, enough of them, and a delta that suits them."""
        number("epsilon", self.epsilon, "give a number above 0 (0.5 to 8 is usual), or inf for no privacy", low=5e-324)
        if self.total_epsilon is not None:
            fix = "give what the ledger may hold in all, a number above 0, or None"
            number("total_epsilon", self.total_epsilon, fix, low=5e-324)
        encoder = self._encoder()
        if encoder is None:
            X, y = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=1)
            rows = _tensor(X)
            self._front(rows.shape[1])  # a bad range is said before anything else
        else:
            if y is None:
                y = _target_of(encoder.schema, X)
            y = np.asarray(y)
            rows = encoder.codes(X)
            self.n_features_in_, self.feature_names_in_ = encoder.n_features_in_, encoder.feature_names_in_
            if len(rows) != len(y):
                raise ArgumentError("y", f"{len(y)} targets", f"there are {len(rows)} rows")
        if len(rows) < 2:
            raise ArgumentError("X", f"n_samples={len(rows)}", "give at least 2 rows; a guarantee needs a crowd")
        self._delta(len(rows))
        return rows, y

    def _raw(self, X: Any) -> Tensor:
        encoder = self._encoder()
        if encoder is None:
            return _tensor(validate_data(self, X, dtype=np.float32, reset=False))
        return encoder.codes(X)

    def _outputs(self, X: Any) -> Tensor:
        """The output layer's pre-activations of raw rows, in double precision: a row's does not depend on others."""
        check_is_fitted(self, "network_")
        rows = self._raw(X)
        return torch.cat([self.run_.outputs(block).cpu() for block in torch.split(rows, _BLOCK)])

    def _inputs(self, X: Any) -> Tensor:
        """The network's inputs for rows, for a metric on public ones."""
        rows = self._raw(X)
        front = self._front(rows.shape[1])
        return rows if front is None else front(rows).float()

    def _front(self, width: int) -> Front | None:
        if self.schema is not None:
            return self._encoder()
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

    def _hidden(self, usual: Defaults) -> list[int]:
        sizes = self.hidden_layer_sizes
        if isinstance(sizes, str) and sizes == "auto":
            return list(usual.hidden)
        fix = "give whole numbers of units, each at least 1, such as (64,), or 'auto'"
        if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray):
            sizes = (sizes,)
        return [integer("hidden_layer_sizes", size, fix) for size in sizes]

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
    return torch.from_numpy(np.require(X, requirements=["C", "W"]))  # a copy only where it must be


def _target_of(schema: Schema, table: Any) -> Array:
    """The column of a table that the schema calls its target."""
    if schema.target is None:
        raise ArgumentError("y", None, "the schema names no target: give y, or a schema with one")
    return cells(table, [schema.target])[schema.target]
