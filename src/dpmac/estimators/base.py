"""What every estimator shares that trains a network: the way from rows to a fitted model, and what it says of itself.

A new estimator is one file: a class on :class:`PrivateEstimator` that turns its targets into rows of numbers, calls
:meth:`PrivateEstimator._train` with a loss, and reads its predictions off :meth:`PrivateEstimator._outputs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dpmac.checks import ArgumentError, chosen, integer
from dpmac.estimators.arguments import TrainingArguments
from dpmac.estimators.given import Given
from dpmac.estimators.guarantee import Privacy
from dpmac.estimators.planned import Planned
from dpmac.estimators.resumable import Resumable
from dpmac.estimators.rows import Array
from dpmac.estimators.stages import stage_before
from dpmac.estimators.warning import counted, warn_of_scales
from dpmac.extensions.outputs import remember
from dpmac.extensions.provenance import check_origin, origin_of
from dpmac.mac import Z_STEPS, Averaged, FixedPrediction, OptimizerStep, WStep, ZStep, cosine
from dpmac.methods import Gradients
from dpmac.modules.task import device_of
from dpmac.nets import Activation, DenseNetwork, Network, WideNetwork, activation
from dpmac.nets.feature_maps import FeatureMap
from dpmac.privacy import BOUNDS, Bound, JointClip, Origin, Plan, PrivateRows, Unbounded
from dpmac.privacy.gaussian_release import MAX_ROWS
from dpmac.randomness import NoiseSource, noise_source
from dpmac.training import Trainer
from dpmac.training.defaults import Defaults, defaults_for
from dpmac.training.distributed_sync import books
from dpmac.training.post_training import PostTraining
from dpmac.training.progress import progress_bar
from dpmac.training.threads import step_work, threads_for, using
from dpmac.training.trainer import Evaluate

__all__ = ["Array", "PrivateEstimator"]

_BLOCK = 8192  # rows that are predicted at a time
EvaluateBehind = Callable[[FeatureMap | None], Evaluate]
Outputs = Callable[..., Tensor]  # of a block of rows


class TrainedEstimator(Planned, Resumable):
    """An estimator that is trained by gradients. What is left at None follows from public numbers by one rule,
    :mod:`dpmac.training.defaults`. The class on it says what is trained: :meth:`_start` and the methods behind it."""

    _regression = False
    _needs_scales = True  # whether columns that are plainly not scaled are warned of
    _input_names: tuple[str, ...] | None = None  # of a module's inputs, where they are passed by name

    def _train(
        self,
        given: Given,
        targets: Tensor | None,
        loss: Any,
        *,
        evaluate: EvaluateBehind | None = None,
        notes: tuple[str, ...] = (),
    ) -> tuple[PrivateRows, Outputs, NoiseSource]:
        """Fit on raw rows and targets (rows, outputs), None for the inputs; sets ``run_`` and what is read off it.

        What the estimator will release when the training is done, :meth:`_after_at`, is from the same budget; it is
        handed a table for that, the model's outputs for rows of this table, and the source. ``evaluate`` makes a metric
        on public rows of the feature map.
        """
        ledger, machine = books(self._world, self.ledger), self._machine
        ledger.check_unit(given.unit, given.n)
        if (
            self._after_at(given.n, self.epsilon) and given.spots > MAX_ROWS
        ):  # said now, and not when the training is paid for
            fix = f"what is released after the training takes {MAX_ROWS:,} at most: leave it out, or lower max_rows"
            raise ArgumentError("X", f"{given.spots:,} rows", fix)
        checkpoints = self._checkpoints(ledger)
        found = others = ledger
        if checkpoints is not None:
            found = self._world.everywhere(partial(checkpoints.before, ledger))  # as it was when this run began
            others = ledger.of_others(checkpoints.run)  # what others released since counts against a total as well
        own = self._plan(given.n, self._schedule(given.n), others)
        defaults = self._defaults(own)
        plan = replace(own, before=found.mechanisms())
        feature_map = self._map_of(given, defaults)
        metric = None if evaluate is None else evaluate(feature_map)
        check_origin(found, plan.delta, schema=feature_map)
        before = stage_before(given.inputs, found, own.mechanisms(), plan.delta, self._world.leads)
        self._made_of = before.origin
        bound = self._bound(defaults)
        if not plan.noise_multiplier:
            bound = Unbounded()
        zstep = self._zstep()
        source = noise_source(self._seed())
        if targets is None:
            table = given.table()
        else:
            table = given.table(targets)
        network = self._start(given, targets, defaults, feature_map, source.spawn("weights"))
        rate = self.learning_rate
        if rate is None:
            rate = defaults.learning_rate
        if self._needs_scales and feature_map is None and plan.noise_multiplier and self._world.leads:
            warn_of_scales(given.few)
        shared = self.ledger is not None or not self._world.leads
        self._own_threads = self._threads(network, plan)
        behind: list[PrivateRows] = []  # the table of inputs, if there is one
        with (
            using(self._own_threads),
            progress_bar("training", self._world.leads and machine.progress) as on_step,
            counted(given.few, self.epsilon, ledger, shared),
        ):
            trainer = Trainer(
                network.to(machine.available_device()),
                loss,
                plan,
                zstep=zstep,
                bound=bound,
                wstep=self._wstep(rate, defaults, plan),
                source=source,
                expansion=Gradients(),
                feature_map=feature_map,
                input_names=self._input_names,
                micro_batch=self._micro_batch(),
                cuda_graphs=machine.cuda_graphs,
                evaluate=metric,
                on_step=on_step,
                notes=(*notes, *before.notes),
                on_inputs=behind.append,
            )
            self.run_ = trainer.fit(table, ledger=ledger, checkpoints=checkpoints)
        book, seeded = self.run_.ledger, source.seeded
        self._after = PostTraining.of(book, checkpoints, plan.steps, seeded=seeded, world=self._world)
        self.feature_map_ = self.run_.feature_map
        self._keep(self.run_.model)
        self.history_ = self.run_.history
        self.plan_ = plan
        self.privacy_ = Privacy(self.run_.ledger, plan.delta, self.run_.notes)
        return *self._for_releases(table, behind), source

    def _for_releases(self, table: PrivateRows, behind: Sequence[PrivateRows]) -> tuple[PrivateRows, Outputs]:
        """The table for what is released after the training, ``behind`` its feature map or raw, and its outputs."""
        del behind  # outputs of a module are of raw rows
        return table.to(device_of(self.run_.model)), self.run_.outputs

    # --- what is trained ----------------------------------------------------------------------------------------------

    def _map_of(self, given: Given, defaults: Defaults) -> FeatureMap | None:
        """The public map from rows to inputs."""
        raise NotImplementedError

    def _start(
        self,
        given: Given,
        targets: Tensor | None,
        defaults: Defaults,
        feature_map: FeatureMap | None,
        draw: NoiseSource,
    ) -> Any:
        """What is trained, as it is before the first step, drawn from ``draw``."""
        raise NotImplementedError

    def _keep(self, model: Any) -> None:
        """Set the attributes that are the trained model."""
        raise NotImplementedError

    def _outputs(self, X: Any) -> Tensor:
        """The model's outputs for raw rows, in double precision."""
        raise NotImplementedError

    def _micro_batch(self) -> int | None:
        """How many rows of a batch are computed at a time; None leaves it to the release."""
        return self._machine.micro_batch_size

    def _zstep(self) -> ZStep:
        return FixedPrediction()

    def _wstep(self, rate: float, defaults: Defaults, plan: Plan) -> WStep:  # noqa: ARG002 - for the estimator to see
        return Averaged(OptimizerStep(lr=rate, schedule=cosine, penalty=defaults.penalty), defaults.average)

    def _defaults(self, own: Plan) -> Defaults:
        raise NotImplementedError

    def _threads(self, network: Any, plan: Plan) -> int:
        raise NotImplementedError

    def _bound(self, defaults: Defaults) -> Bound:
        if self.bound is None:
            return JointClip(defaults.threshold)
        bound = chosen("bound", self.bound, BOUNDS)
        if not hasattr(bound, "promise"):
            raise ArgumentError("bound", bound, f"choose one of {', '.join(BOUNDS)}, or give a Bound")
        return bound

    def _handed_out(self, values: Array) -> Array:
        """Predictions, remembered so that a later fit on them is recognised as one on outputs of this model."""
        remember(values, self._origin())
        return values

    def _origin(self) -> Origin:
        """The releases that have shaped the model."""
        return origin_of(self._model())


class PrivateEstimator(TrainingArguments, TrainedEstimator):
    """An estimator that trains a network on rows of numbers."""

    network_: Network

    def _map_of(self, given: Given, defaults: Defaults) -> FeatureMap | None:  # noqa: ARG002
        return self._feature_map(given.x.shape[1])

    def _start(
        self,
        given: Given,
        targets: Tensor | None,
        defaults: Defaults,
        feature_map: FeatureMap | None,
        draw: NoiseSource,
    ) -> Network:
        width = outputs = given.x.shape[1]
        if feature_map is not None:
            width = outputs = math.prod(feature_map.shape_after(tuple(given.x.shape[1:])))
        if targets is not None:
            outputs = targets.shape[1]
        network = self._network(width, outputs, defaults, draw)
        with torch.no_grad():  # a start near "nothing known": the first steps are not spent on unlearning
            network.weight_layers[-1].weight.mul_(0.1)
        return network

    def _keep(self, model: Network) -> None:
        self.network_ = model

    def _model(self) -> Network:
        return self.network_

    def _origin(self) -> Origin:
        return self.network_.origin

    def _for_releases(self, table: PrivateRows, behind: Sequence[PrivateRows]) -> tuple[PrivateRows, Outputs]:
        if behind:
            return behind[0], self.run_.outputs_of_inputs
        return super()._for_releases(table, behind)

    def _zstep(self) -> ZStep:
        zstep = chosen("z_step", self.z_step, Z_STEPS)
        if not hasattr(zstep, "solve"):
            raise ArgumentError("z_step", zstep, f"choose one of {', '.join(Z_STEPS)}, or give a Z-step")
        return zstep

    def _threads(self, network: Network, plan: Plan) -> int:
        """As many in every process: solvers round by how many there are."""
        if self._machine.threads is not None:
            return self._machine.threads
        return int(self._world.leaders(threads_for(step_work(network.sizes, plan.batch_size))))

    def _defaults(self, own: Plan) -> Defaults:
        return defaults_for(own, regression=self._regression, hidden=self._hidden())

    def _network(self, inputs: int, outputs: int, defaults: Defaults, source: NoiseSource) -> Network:
        act = self.activation
        if act is None:
            act = defaults.activation
        if not isinstance(act, str | Activation):
            raise ArgumentError("activation", act, "give the name of one, or an Activation")
        activation(act)  # also where no layer has one
        if defaults.wide and act == "relu":
            (units,) = defaults.hidden
            return WideNetwork(inputs, units, outputs, source=source)
        return DenseNetwork([inputs, *defaults.hidden, outputs], act, source=source)

    def _outputs(self, X: Any) -> Tensor:
        """The output layer's pre-activations of raw rows, in double precision: a row's does not depend on others."""
        check_is_fitted(self, "run_")
        rows = self._raw(X)
        return torch.cat([self.run_.outputs(block).cpu() for block in torch.split(rows, _BLOCK)])

    def _hidden(self) -> tuple[int, ...] | None:
        """What was asked for; None leaves it to the rule."""
        sizes = self.hidden_layer_sizes
        if isinstance(sizes, str) and sizes == "auto":
            return None
        fix = "give whole numbers of units, each at least 1, such as (64,), or 'auto'"
        if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray):
            sizes = (sizes,)
        return tuple(integer("hidden_layer_sizes", size, fix) for size in sizes)
