"""The trainer: passes mini-batches through an objective and the release, and does nothing else.

rows -> sampler -> feature map -> coordinates (Z-step) -> expansion -> bound -> RELEASE -> weights (W-step) -> model
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError, integer
from dpmac.extensions.provenance import Origin, check_origin, check_split, mark
from dpmac.extensions.world import SINGLE_PROCESS, World, WorldError
from dpmac.kernels.moments import merged
from dpmac.mac import AdamCoordinates, Expansion, FirstOrder, FixedPrediction, OptimizerStep, WStep, ZStep
from dpmac.methods import Gradients
from dpmac.modules.task import device_of
from dpmac.nets.feature_maps import FeatureMap
from dpmac.old_names import OldAttribute, with_old_arguments
from dpmac.planning.plan import STEP
from dpmac.privacy import Bound, Ledger, Normalise, Plan, PrivateRows, Unbounded, release
from dpmac.randomness import NoiseSource, SeededNoise, SystemNoise
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.distributed_sync import agreed, books, checkpoints_for, checksum, digest
from dpmac.training.interruptions import held_back
from dpmac.training.objective import TrainingObjective
from dpmac.training.run import Record, Run
from dpmac.training.samples import Samples
from dpmac.training.setup import Rows, described, setup_for, table_for
from dpmac.training.training_state import TrainingState, handing_over, shaped_by

Evaluate = Callable[[Any], Mapping[str, float]]  # of the model
OnStep = Callable[[int, int], None]  # steps done, total steps


@with_old_arguments(front="feature_map")
@dataclass
class Trainer:
    """Trains a copy of ``network`` under ``plan``; every private number leaves through :func:`release`.

    ``network`` itself is never changed, so each :meth:`fit` starts from the same public weights, and its ledger covers
    everything about the model it returns. A network, a feature map or a threshold that was computed from private rows
    is rejected, unless the ledger of those releases is given (``plan.before`` and ``ledger``); if those were rows of
    other people, declare it: ``network.as_public(why)``. (See :mod:`dpmac.extensions.provenance`.)

    ``feature_map`` is the public map from raw rows to the network's inputs; it belongs to the model and is applied
    inside the release. ``zstep``, ``expansion``, ``bound`` and ``wstep`` are small objects chosen by value. ``source``
    provides all randomness (operating-system entropy unless a seeded one is given). ``micro_batch`` bounds memory and
    changes nothing beyond rounding. ``evaluate`` is called after each epoch, and its metrics go into the history (and
    once before the first step, to check that it works): use public data only, since metrics on private rows are not
    covered by the guarantee. ``on_step`` gets the step count, for a progress bar. ``notes`` are added to the list of
    what the run's statement does not cover. ``input_names`` are those of a module's inputs in a table, which are then
    passed by name. With ``autocast=torch.bfloat16`` a torch module computes its products so
    (:class:`dpmac.modules.Task`); weights, shares and sums stay in single precision. ``on_inputs`` gets the
    table behind the feature map, if that was applied once: it is as private as the rows. ``cuda_graphs=False`` does not
    record steps on a GPU (for a module whose Python code changes what it computes from step to step).

    With a ``world`` of several processes (:func:`dpmac.training.together`) each of them calls :meth:`fit` with its own
    part of the rows, and otherwise the same arguments; the plan is for all rows. Initial weights are the leader's.
    """

    network: nn.Module
    loss: Any  # a Loss of ours for a Network; for any other module a function of outputs and targets
    plan: Plan
    zstep: ZStep = field(default_factory=AdamCoordinates)
    bound: Bound = field(default_factory=Normalise)
    wstep: WStep = field(default_factory=OptimizerStep)
    source: NoiseSource = field(default_factory=SystemNoise)
    expansion: Expansion = field(default_factory=FirstOrder)
    feature_map: FeatureMap | None = None
    micro_batch: int | None = None
    evaluate: Evaluate | None = None
    on_step: OnStep | None = None
    notes: tuple[str, ...] = ()
    world: World = SINGLE_PROCESS
    input_names: tuple[str, ...] | None = None
    autocast: torch.dtype | None = None
    on_inputs: Callable[[PrivateRows], None] | None = None
    cuda_graphs: bool = True
    front = OldAttribute("feature_map")

    @classmethod
    def dp_sgd(cls, network: nn.Module, loss: Any, plan: Plan, bound: Bound, **more: Any) -> Trainer:
        """A DP-SGD trainer: ``bound`` is ``JointClip(Theta)`` for flat clipping, ``PerLayerClip`` for layers.

        ``network`` may be any torch module; ``loss`` is then a function of its outputs and the targets that gives one
        number a row, such as ``partial(F.cross_entropy, reduction="none")``. (See docs/modules.md.)

        ``more`` are other fields: ``wstep`` (any torch optimiser), ``feature_map``, ``source``, ``micro_batch``, ...
        """
        return cls(network, loss, plan, FixedPrediction(), bound, expansion=Gradients(), **more)

    def fit(
        self,
        x: Rows,
        y: Tensor | None = None,
        ledger: Ledger | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Run:
        """Train on raw rows ``x`` (n, ...) and targets ``y`` (n, outputs) and return the run: model, ledger, plan.

        Without ``y`` the network learns to reproduce its own inputs, as an autoencoder. ``x`` may be a
        :class:`PrivateRows` of both. For a torch module that is no Network, ``x`` may be several inputs: a tuple of
        tensors, or a dictionary, which is passed by keyword. ``ledger`` must contain exactly what the plan lists as
        released before training; None starts an empty one. All arguments are checked before the first row is accessed.
        If training is interrupted, the ledger contains exactly the releases that were made, and the exception has it as
        ``.ledger``.

        ``checkpoints`` are written during training; if there is one already, training resumes from it (see
        :mod:`dpmac.training.checkpoint`), and ``ledger`` must be the one of that run. They are not removed at the end.
        """
        world = self._world(x)
        given = {"whether there are targets": y is not None, "whether there are checkpoints": checkpoints is not None}
        agreed(world, {**self._job(), "feature_map": self.feature_map, **given})
        book, checkpoints = books(world, ledger), checkpoints_for(world, checkpoints)
        with book.exclusive(refusing=True), handing_over(book), ExitStack() as locks:
            if checkpoints is not None:
                world.everywhere(partial(self._locked, locks, world, book, checkpoints))
            with book.noting(run=None if checkpoints is None else checkpoints.run):
                return self._fit(x, y, book, checkpoints)

    def _locked(self, locks: ExitStack, world: World, book: Ledger, checkpoints: Checkpoints) -> None:
        """Lock the checkpoints, so that no other process writes them."""
        if world.leads and book.path is None:
            fix = "a training that can be resumed needs a ledger on the disk: Ledger('a/path')"
            raise ArgumentError("ledger", book, fix)
        locks.enter_context(checkpoints.locked(book.path))

    def _fit(self, x: Rows, y: Tensor | None, book: Ledger, checkpoints: Checkpoints | None) -> Run:
        world = self._world(x)
        before = book if checkpoints is None else world.everywhere(partial(checkpoints.before, book))
        rows, names = self._checked(x, y, before)
        agreed(world, {"the shapes of rows": rows.shapes, "the names of inputs": names})
        book.check_plan(replace(self.plan, before=()).mechanisms(), "" if checkpoints is None else checkpoints.run)
        setup = setup_for(self, rows, names, world)
        world.everywhere(lambda: setup.check(rows.to(setup.device)))
        # only now that every piece has been used once: one may have loaded a network in the meantime
        found = world.everywhere(lambda: check_origin(before, self.plan.delta, **self._pieces()))
        known = Origin.merged(found, rows.origin)
        world.everywhere(lambda: check_split(before, known))
        given = rows.to(setup.device)
        table, objective = setup.begin(given)
        if self.on_inputs is not None and table is not given:
            self.on_inputs(table)
        samples = Samples(table, self.plan.sampler(self.source.spawn("sampler")))
        training = TrainingState(objective, samples, self.source.spawn("noise"), book, len(before))
        job = self._job()
        if checkpoints is not None:
            world.everywhere(partial(self._resumed, training, checkpoints, job))
        world.agree("steps done", training.done)
        with closing(samples), nullcontext() if checkpoints is None else held_back() as held:
            while training.done < self.plan.steps:
                with self._stopping(checkpoints, training, job), shaped_by(objective, book, known):
                    self._step(training)
                if world.size > 1:
                    world.note("the weights after a step", checksum(setup.model.parameters()))
                if checkpoints is not None and held is not None:
                    # the first step creates the ledger's file: from then on the checkpoint notices if it is gone
                    if training.done in (1, self.plan.steps) or held.came or checkpoints.due():
                        self._keep(checkpoints, partial(training.state, job))
                    held.let_through()
        if world.size > 1:
            world.agree("the weights", digest(objective.model.parameters()))
        self._check_books(book, training)
        mark(objective.model, Origin.of(book, known))
        of_map: tuple[str, ...] = ()
        if setup.feature_map is not None:
            of_map = setup.feature_map.notes()
        notes = tuple(dict.fromkeys((*self.notes, *known.notes(), *of_map)))
        return Run(objective.model, training.history, book, self.plan, notes, setup.feature_map)

    def _pieces(self) -> dict[str, Any]:
        """Everything that takes part in a step, by name: it may have been computed from private rows."""
        names = ("network", "feature_map", "loss", "zstep", "expansion", "bound", "wstep")
        return {name: getattr(self, name) for name in names}

    def _world(self, x: Rows) -> World:
        """The processes that hold the table."""
        if isinstance(x, PrivateRows) and self.world is not SINGLE_PROCESS and x.world is not self.world:
            raise ArgumentError("world", self.world, f"the table is of {x.world}: leave this out")
        return x.world if isinstance(x, PrivateRows) else self.world

    def _resumed(self, training: TrainingState, checkpoints: Checkpoints, job: dict[str, Any]) -> None:
        training.run = checkpoints.run
        training.resume(checkpoints, job)
        checkpoints.write(training.state(job))  # before the first release, so that none is forgotten

    @contextmanager
    def _stopping(
        self, checkpoints: Checkpoints | None, training: TrainingState, job: dict[str, Any]
    ) -> Iterator[None]:
        """Around a step: if another process is gone, save a checkpoint.

        Not for a seeded run, which repeats its steps, and whose sampler is already ahead of the weights.
        """
        try:
            yield
        except WorldError:
            if checkpoints is not None and not self.source.seeded:
                self._keep(checkpoints, partial(training.state, job))
            raise

    def _step(self, training: TrainingState) -> None:
        """One mini-batch: the objective's query is released, and the objective learns from the answer."""
        objective, number = training.objective, training.done + 1
        lr = objective.lr
        answer = release(
            training.samples.take(more=number < self.plan.steps),
            objective.query(),
            noise_multiplier=self.plan.noise_multiplier,
            source=training.noise,
            ledger=training.ledger,
            divisor=self.plan.batch_size,
            micro_batch=self.micro_batch,
            dtype=objective.dtype,
        )
        objective.apply(answer)
        if self._epoch(number) > self._epoch(number - 1) or number == self.plan.steps:
            if self.evaluate is not None:  # evaluate() may keep the model
                mark(objective.model, Origin.of(training.written))
            training.history.append(self._record(objective, number, lr))
        training.done = number
        if self.on_step is not None:
            self.on_step(number, self.plan.steps)

    def _keep(self, checkpoints: Checkpoints, state: Callable[[], dict[str, Any]]) -> None:
        """Write a checkpoint. If that fails (a full disk), the training continues, since it is partly paid for."""
        try:
            checkpoints.write(state())
        except (OSError, TypeError, ValueError) as error:
            said = f"{checkpoints.path} could not be written ({error}): if the process is killed now, more is lost"
            warnings.warn(said, RuntimeWarning, stacklevel=4)

    def _job(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be resumed. (The caller must ensure that the rows are the same.)"""
        pieces = ("loss", "zstep", "bound", "wstep", "expansion", "micro_batch")
        low = {} if self.autocast is None else {"autocast": str(self.autocast)}
        return {
            "plan": {**self.plan.to_dict(), "before": [m.describe() for m in self.plan.before]},
            "network": described(self.network),
            "feature_map": None if self.feature_map is None else self.feature_map.kind,
            "seed": self.source.seed if isinstance(self.source, SeededNoise) else None,
            "device": device_of(self.network).type,
            **low,
            **{name: re.sub(r" at 0x[0-9a-fA-F]+", "", repr(getattr(self, name))) for name in pieces},
        }

    def _epoch(self, step: int) -> int:
        """The number of completed expected passes over the rows after ``step`` steps."""
        return int(step * self.plan.batch_size / self.plan.n + 1e-9)

    def _record(self, objective: TrainingObjective, step: int, lr: float) -> Record:
        """The history's record of an epoch: only public numbers and functions of released ones."""
        epoch, norms = step * self.plan.batch_size / self.plan.n, objective.released_norms()
        return Record(step, epoch, lr, norms, self._metrics(objective.model))

    def _metrics(self, network: nn.Module) -> dict[str, float]:
        return {} if self.evaluate is None else {str(k): float(v) for k, v in self.evaluate(network).items()}

    def _checked(self, x: Rows, y: Tensor | None, ledger: Ledger) -> tuple[PrivateRows, tuple[str, ...] | None]:
        rows, names = table_for(self, x, y)
        if rows.n != self.plan.n:
            raise ArgumentError(
                "x", f"{rows.n} rows", f"the plan was made for n={self.plan.n}: make one for these rows"
            )
        if self.plan.noise_multiplier > 0 and isinstance(self.bound, Unbounded):
            raise ArgumentError(
                "bound", self.bound, "noise needs a bound: choose Normalise() or PerLayerClip(threshold)"
            )
        if self.micro_batch is not None:
            integer("micro_batch", self.micro_batch, "give a number of rows, at least 1, or None")
        if set(ledger.mechanisms()) != set(merged(self.plan.before)):
            raise ArgumentError(
                "ledger", ledger, "it must hold exactly what plan.before lists: pass the ledger of those releases"
            )
        for name in ("evaluate", "on_step"):
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                raise ArgumentError(name, getattr(self, name), "give a function, or None")
        self._metrics(copy.deepcopy(self.network))  # so that an error is raised now, and not after a paid epoch
        return rows, names

    def _check_books(self, ledger: Ledger, training: TrainingState) -> None:
        """Raise unless the ledger contains, besides its earlier entries, exactly this run's steps."""
        since = ledger.entries[training.begun :]
        mine = [e for e in since if not training.run or (e.run == training.run and e.label == STEP)]
        made = (*ledger.until(training.begun).mechanisms(), *(e.mechanism() for e in mine))
        if set(merged(made)) != set(self.plan.mechanisms()):
            raise RuntimeError("the ledger does not hold what the plan promised: this is a bug, do not use the model")
