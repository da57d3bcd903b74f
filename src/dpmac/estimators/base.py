"""What every estimator shares that trains a network: the way from rows to a fitted model, and what it says of itself.

A new estimator is one file: a class on :class:`PrivateEstimator` that turns its targets into rows of numbers, calls
:meth:`PrivateEstimator._train` with a loss, and reads its predictions off :meth:`PrivateEstimator._outputs`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
from dpmac.estimators.rows import Array, OnRows
from dpmac.estimators.stages import stage_before
from dpmac.estimators.warning import counted, warn_of_scales
from dpmac.extensions.outputs import remember
from dpmac.extensions.provenance import check_origin
from dpmac.mac import Z_STEPS, Averaged, OptimizerStep, ZStep, cosine
from dpmac.methods import Gradients
from dpmac.nets import Activation, DenseNetwork, Loss, Network
from dpmac.privacy import BOUNDS, Bound, JointClip, Ledger, Mechanism, Origin, Plan, PrivateRows, Unbounded
from dpmac.privacy.gaussian_release import MAX_ROWS
from dpmac.randomness import NoiseSource, noise_source
from dpmac.training import Run, Trainer
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.defaults import Defaults, Schedule, defaults_for, schedule_for
from dpmac.training.distributed_sync import books, checkpoints_for
from dpmac.training.post_training import PostTraining
from dpmac.training.progress import progress_bar
from dpmac.training.threads import step_work, threads_for, using
from dpmac.training.trainer import Evaluate
from dpmac.training.training_state import handing_over

__all__ = ["Array", "PrivateEstimator"]

_BLOCK = 8192  # rows that are predicted at a time


class PrivateEstimator(TrainingArguments, OnRows):
    """An estimator that trains a network. What is left at None follows from public numbers by one rule,
    :mod:`dpmac.training.defaults`."""

    _regression = False

    def _train(
        self,
        given: Given,
        targets: Tensor | None,
        loss: Loss,
        *,
        after: tuple[Mechanism, ...] = (),
        evaluate: Evaluate | None = None,
        notes: tuple[str, ...] = (),
    ) -> tuple[PrivateRows, NoiseSource]:
        """Fit on raw rows and targets (rows, outputs), None for the inputs; sets ``run_`` and what is read off it.

        ``after`` is what the estimator will release when the training is done, from the same budget; it is handed the
        table and the source for that.
        """
        x, ledger, machine = given.x, books(self._world, self.ledger), self._machine
        ledger.check_unit(given.unit)
        if after and given.spots > MAX_ROWS:  # said now, and not when the training is paid for
            fix = f"what is released after the training takes {MAX_ROWS:,} at most: leave it out, or lower max_rows"
            raise ArgumentError("X", f"{given.spots:,} rows", fix)
        checkpoints = self._checkpoints(ledger)
        found = others = ledger
        if checkpoints is not None:
            found = self._world.everywhere(partial(checkpoints.before, ledger))  # as it was when this run began
            others = ledger.of_others(checkpoints.run)  # what others released since counts against a total as well
        own = self._plan(given.n, schedule_for(given.n), after, others)
        defaults = self._defaults(own)
        plan = replace(own, before=found.mechanisms())
        feature_map = self._feature_map(x.shape[1])
        check_origin(found, plan.delta, schema=feature_map)
        before = stage_before(given.few, found, own.mechanisms(), plan.delta, self._world.leads)
        width = x.shape[1]
        if feature_map is not None:
            width = math.prod(feature_map.shape_after(tuple(x.shape[1:])))
        bound = self._bound(defaults)
        if not plan.noise_multiplier:
            bound = Unbounded()
        zstep = self._zstep()
        source = noise_source(self._seed())
        if targets is None:
            outputs, table = width, given.table()
        else:
            outputs, table = targets.shape[1], given.table(targets)
        network = self._network(width, outputs, defaults, source.spawn("weights"))
        with torch.no_grad():  # a start near "nothing known": the first steps are not spent on unlearning
            network.weight_layers[-1].weight.mul_(0.1)
        rate = self.learning_rate
        if rate is None:
            rate = defaults.learning_rate
        if feature_map is None and plan.noise_multiplier and self._world.leads:
            warn_of_scales(given.few)
        shared = self.ledger is not None or not self._world.leads
        with (
            using(self._threads(network, plan)),
            progress_bar("training", self._world.leads and machine.progress) as on_step,
            counted(given.few, self.epsilon, ledger, shared),
        ):
            trainer = Trainer(
                network.to(machine.available_device()),
                loss,
                plan,
                zstep=zstep,
                bound=bound,
                wstep=Averaged(OptimizerStep(lr=rate, schedule=cosine), defaults.average),
                source=source,
                expansion=Gradients(),
                feature_map=feature_map,
                micro_batch=machine.micro_batch_size,
                evaluate=evaluate,
                on_step=on_step,
                notes=(*notes, *before.notes),
            )
            self.run_: Run = trainer.fit(table, ledger=ledger, checkpoints=checkpoints)
        book, seeded = self.run_.ledger, source.seeded
        self._after = PostTraining.of(book, checkpoints, plan.steps, seeded=seeded, world=self._world)
        self._made_of = before.origin
        self.feature_map_ = self.run_.feature_map
        self.network_: Network = self.run_.model
        self.history_ = self.run_.history
        self.plan_ = plan
        self.privacy_ = Privacy(self.run_.ledger, plan.delta, self.run_.notes)
        return table.to(self.network_.device), source

    def _checkpoints(self, ledger: Ledger) -> Checkpoints | None:
        checkpoint = self._machine.checkpoint
        self._world.agree("whether there is a checkpoint", checkpoint is not None)
        if checkpoint is not None and self._world.leaders(ledger.path is None):
            fix = "a training that can be resumed needs a ledger on the disk: give ledger='a/path'"
            raise ArgumentError("checkpoint", checkpoint, fix)
        return checkpoints_for(self._world, checkpoint)

    def _written_here(self) -> Checkpoints | None:
        """The checkpoints that this process writes."""
        if self._world.leads:
            return Checkpoints.at(self._machine.checkpoint)
        return None

    @contextmanager
    def _post_training(self, what: str) -> Iterator[PostTraining]:
        """Around the releases after the training, of which a resumed fit has made some already; then the fit ends."""
        after, ledger, checkpoints = self._after, self.run_.ledger, self._written_here()
        if after.lost and self._world.leads:
            said = f"{after.lost} releases of the {what} died with the process: they are paid for, and left out"
            warnings.warn(said, RuntimeWarning, stacklevel=3)
        lock: AbstractContextManager[None] = nullcontext()
        if checkpoints is not None:
            lock = checkpoints.locked()
        with handing_over(ledger), lock, ledger.noting(run=after.run or None):
            yield after
        self.network_.origin = Origin.of(ledger, self.network_.origin)
        del self._after
        self._fitted()

    def _fitted(self) -> None:
        """The end of a fit: nothing is left to resume. The releases that made its rows are part of its origin, too."""
        self.network_.origin = Origin.merged(self.network_.origin, self._made_of)
        del self._made_of
        checkpoints = self._written_here()
        if checkpoints is not None:
            checkpoints.finished()

    def _bound(self, defaults: Defaults) -> Bound:
        if self.bound is None:
            return JointClip(defaults.threshold)
        bound = chosen("bound", self.bound, BOUNDS)
        if not hasattr(bound, "promise"):
            raise ArgumentError("bound", bound, f"choose one of {', '.join(BOUNDS)}, or give a Bound")
        return bound

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
        return DenseNetwork([inputs, *defaults.hidden, outputs], act, source=source)

    def _plan(self, n: int, schedule: Schedule, after: tuple[Mechanism, ...], ledger: Ledger) -> Plan:
        """The plan whose own cost, ``after`` included, is the budget; refused if it does not fit the ledger's total."""
        delta = self._delta(n)
        batch, steps = self.batch_size, None
        if batch is None:
            batch = schedule.batch_size
        if self.epochs is None:
            steps = schedule.steps
        own = Plan.for_budget(
            epsilon=self.epsilon, delta=delta, n=n, batch_size=batch, steps=steps, epochs=self.epochs, before=after
        )
        self._check_total(ledger, own.mechanisms(), delta)
        return own

    def _outputs(self, X: Any) -> Tensor:
        """The output layer's pre-activations of raw rows, in double precision: a row's does not depend on others."""
        check_is_fitted(self, "network_")
        rows = self._raw(X)
        return torch.cat([self.run_.outputs(block).cpu() for block in torch.split(rows, _BLOCK)])

    def _handed_out(self, values: Array) -> Array:
        """Predictions, remembered so that a later fit on them is recognised as one on outputs of this model."""
        remember(values, self.network_.origin)
        return values

    def _hidden(self) -> tuple[int, ...] | None:
        """What was asked for; None leaves it to the rule."""
        sizes = self.hidden_layer_sizes
        if isinstance(sizes, str) and sizes == "auto":
            return None
        fix = "give whole numbers of units, each at least 1, such as (64,), or 'auto'"
        if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray):
            sizes = (sizes,)
        return tuple(integer("hidden_layer_sizes", size, fix) for size in sizes)
