"""A recipe: every public choice of one training, as plain values that can be written down, and the trainer it makes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from dpmac.baselines.dpsgd import Gradients
from dpmac.checks import ArgumentError
from dpmac.mac.coordinates import AdamCoordinates, FixedPrediction, ZStep
from dpmac.mac.expansion import FirstOrder
from dpmac.mac.weights import Averaged, OptimizerStep, Schedule, StepDecay, WStep, constant, cosine
from dpmac.nets.losses import loss as loss_of
from dpmac.nets.network import DenseNetwork
from dpmac.privacy.accounting import Mechanism
from dpmac.privacy.bound import Bound, JointClip, Normalise, PerLayerClip, Unbounded
from dpmac.privacy.noise import NoiseSource
from dpmac.privacy.plan import Plan, steps_for
from dpmac.training.trainer import Evaluate, Trainer

OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


@dataclass(frozen=True)
class Recipe:
    """One training of one network. ``noise_multiplier`` 0 trains without privacy.

    ``method``: "dp-mac" or "dp-sgd". ``zstep``: "fixed" or "adam" (with ``z_lr``, 30 steps). ``bound``: "clip" (per
    layer) or "joint" (flat), at ``threshold``, or "normalise", which has no threshold and takes a hundredth of this
    number as its gamma. ``schedule``: "cosine", "constant", or a decay an epoch such as "0.95". ``average``: decay of
    the moving average of the weights, 0 for none. ``pca_noise``: noise multiplier of the DP-PCA that made the inputs,
    or None. ``input_centre`` is taken off the inputs and ``input_scale`` multiplies them: public constants both.
    """

    method: str
    hidden: tuple[int, ...]
    activation: str
    loss: str
    batch_size: float
    epochs: int
    noise_multiplier: float
    bound: str = "normalise"
    threshold: float = 1.0
    zstep: str = "fixed"
    z_lr: float = 0.003
    optimizer: str = "adam"
    lr: float = 0.01
    schedule: str = "cosine"
    average: float = 0.0
    pca_noise: float | None = None
    input_scale: float = 1.0
    input_centre: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        for name, value, choices in (
            ("method", self.method, ("dp-mac", "dp-sgd")),
            ("bound", self.bound, ("normalise", "clip", "joint")),
            ("zstep", self.zstep, ("fixed", "adam")),
            ("optimizer", self.optimizer, tuple(OPTIMIZERS)),
        ):
            if value not in choices:
                raise ArgumentError(name, value, f"choose one of {', '.join(choices)}")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def steps(self, n: int) -> int:
        return steps_for(n, self.batch_size, None, self.epochs)

    def before(self) -> tuple[Mechanism, ...]:
        return () if self.pca_noise is None else (Mechanism(self.pca_noise, 1.0, 1, "DP-PCA"),)

    def plan(self, n: int, delta: float) -> Plan:
        """The plan of this recipe on ``n`` rows."""
        return Plan(n, self.batch_size, self.steps(n), self.noise_multiplier, delta, self.before())

    def trainer(
        self,
        inputs: int,
        outputs: int,
        n: int,
        delta: float,
        source: NoiseSource,
        evaluate: Evaluate | None = None,
        device: str = "cpu",
    ) -> Trainer:
        """A trainer for rows of that width; weights and noise come from ``source``."""
        network = DenseNetwork([inputs, *self.hidden, outputs], self.activation, source=source.spawn("weights"))
        return Trainer(
            network.to(device),
            loss_of(self.loss),
            self.plan(n, delta),
            zstep=self._zstep(),
            bound=self._bound(),
            wstep=self._wstep(),
            source=source,
            expansion=Gradients() if self.method == "dp-sgd" else FirstOrder(),
            evaluate=evaluate,
        )

    def _zstep(self) -> ZStep:
        if self.zstep == "fixed" or self.method == "dp-sgd":
            return FixedPrediction()
        return AdamCoordinates(steps=30, lr=self.z_lr)

    def _bound(self) -> Bound:
        if self.noise_multiplier == 0:
            return Unbounded()
        if self.bound == "normalise":
            return Normalise(0.01 * self.threshold)
        return PerLayerClip(self.threshold) if self.bound == "clip" else JointClip(self.threshold)

    def _wstep(self) -> WStep:
        schedules: dict[str, Schedule] = {"cosine": cosine, "constant": constant}
        schedule = schedules.get(self.schedule) or StepDecay(float(self.schedule), self.epochs)
        step = OptimizerStep(self.lr, OPTIMIZERS[self.optimizer], schedule)
        return Averaged(step, self.average) if self.average else step
