"""The trainer: walks mini-batches through the house, and does nothing else.

rows -> sampler -> coordinates (Z-step) -> expansion -> bound -> RELEASE -> weights (W-step) -> model
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer
from dpmac.mac.coordinates import AdamCoordinates, ZStep
from dpmac.mac.expansion import Expansion, FirstOrder
from dpmac.mac.polynomial import Polynomial
from dpmac.mac.weights import OptimizerStep, WStep
from dpmac.nets.losses import Loss
from dpmac.nets.network import DenseNetwork
from dpmac.privacy.accounting import merged
from dpmac.privacy.bound import Bound, Normalise, Unbounded
from dpmac.privacy.ledger import Ledger
from dpmac.privacy.noise import NoiseSource, SystemNoise
from dpmac.privacy.parts import Part
from dpmac.privacy.plan import STEP, Plan
from dpmac.privacy.release import release
from dpmac.privacy.sampling import PrivateRows
from dpmac.training.inputs import check_rows
from dpmac.training.run import Record, Run

Evaluate = Callable[[DenseNetwork], Mapping[str, float]]
OnStep = Callable[[int, int], None]  # steps done, steps in all


@dataclass
class Trainer:
    """Trains a copy of ``network`` under ``plan``; every private number leaves through :func:`release`.

    ``network`` itself is never changed, so each :meth:`fit` starts from the same public weights and its ledger is the
    whole truth about the model it returns. Do not hand in a network that private rows have shaped already, unless the
    ledger of that shaping comes along (``plan.before`` and ``ledger``).

    ``zstep``, ``expansion``, ``bound`` and ``wstep`` are small objects chosen by value. ``source`` gives all
    randomness (operating-system entropy unless a seeded one is given). ``micro_batch`` bounds memory and changes
    nothing beyond rounding.
    ``evaluate`` is called after each epoch and its figures go into the history: give it public data only, since
    metrics on private rows are not covered by the guarantee. ``on_step`` sees the step count, for a progress bar.
    ``notes`` are added to what the run's statement says it does not cover.
    """

    network: DenseNetwork
    loss: Loss
    plan: Plan
    zstep: ZStep = field(default_factory=AdamCoordinates)
    bound: Bound = field(default_factory=Normalise)
    wstep: WStep = field(default_factory=OptimizerStep)
    source: NoiseSource = field(default_factory=SystemNoise)
    expansion: Expansion = field(default_factory=FirstOrder)
    micro_batch: int | None = None
    evaluate: Evaluate | None = None
    on_step: OnStep | None = None
    notes: tuple[str, ...] = ()

    def fit(self, x: Tensor, y: Tensor, ledger: Ledger | None = None) -> Run:
        """Train on ``x`` (n, inputs) and ``y`` (n, outputs) and return the run: model, history, ledger, plan.

        ``ledger`` must hold exactly what the plan says was released before training; None starts an empty one. All
        arguments are checked before the first row is touched. If training is interrupted, the ledger holds exactly
        the releases that were made.
        """
        book = self._check(x, y, Ledger() if ledger is None else ledger)
        network = copy.deepcopy(self.network)
        rows = PrivateRows(x.to(network.device), y.to(network.device))
        sampler = self.plan.sampler(self.source.spawn("sampler"))
        noise = self.source.spawn("noise")
        updater = self.wstep.start(network, self.plan.steps)
        contribute = functools.partial(self._contribute, network)
        bound, history = self.bound, list[Record]()
        for step in range(1, self.plan.steps + 1):
            lr, blocks = updater.lr, self.expansion.blocks(network, self.loss)
            released = release(
                rows.sample(sampler),
                functools.partial(contribute, bound),
                bound.promise(blocks),
                noise_multiplier=self.plan.noise_multiplier,
                source=noise,
                ledger=book,
                label=STEP,
                divisor=self.plan.batch_size,
                micro_batch=self.micro_batch,
            )
            polynomials = self.expansion.polynomials(network, self.loss, released[: len(blocks)])
            updater.apply(polynomials)
            bound = bound.learned(released[len(blocks) :])
            if self._epoch(step) > self._epoch(step - 1) or step == self.plan.steps:
                history.append(self._record(updater.model, step, lr, polynomials))
            if self.on_step is not None:
                self.on_step(step, self.plan.steps)
        self._check_books(book)
        return Run(updater.model, history, book, self.plan, self.notes)

    def _contribute(self, network: DenseNetwork, bound: Bound, x: Tensor, y: Tensor) -> list[Part]:
        """Bounded parts of a micro-batch, row by row: the whole way from rows to the door."""
        coordinates = self.zstep.solve(network, self.loss, x, y)
        return bound.apply(self.expansion.parts(network, self.loss, coordinates))

    def _epoch(self, step: int) -> int:
        """Whole expected passes over the rows after ``step`` steps."""
        return int(step * self.plan.batch_size / self.plan.n + 1e-9)

    def _record(self, network: DenseNetwork, step: int, lr: float, polynomials: list[Polynomial]) -> Record:
        """What the history keeps of an epoch: only public numbers and functions of released ones."""
        norms = [float(torch.linalg.vector_norm(p.slope)) for p in polynomials]
        metrics = dict(self.evaluate(network)) if self.evaluate is not None else {}
        return Record(step, step * self.plan.batch_size / self.plan.n, lr, norms, metrics)

    def _check(self, x: Tensor, y: Tensor, ledger: Ledger) -> Ledger:
        check_rows(x, y, self.network, self.loss)
        if len(x) != self.plan.n:
            raise ArgumentError(
                "x", f"{len(x)} rows", f"the plan was made for n={self.plan.n}: make one for these rows"
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
        return ledger

    def _check_books(self, ledger: Ledger) -> None:
        if set(ledger.mechanisms()) != set(self.plan.mechanisms()):
            raise RuntimeError("the ledger does not hold what the plan promised: this is a bug, do not use the model")
