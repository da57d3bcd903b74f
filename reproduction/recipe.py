"""Recipes: every public choice of one run, as plain values that can be written down, and the method they make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from dpmac.checks import ArgumentError
from dpmac.mac import (
    AdamCoordinates,
    Averaged,
    FirstOrder,
    FixedPrediction,
    OptimizerStep,
    Schedule,
    StepDecay,
    WStep,
    ZStep,
    constant,
    cosine,
)
from dpmac.methods import ClosedForm, Gradients
from dpmac.nets import DenseNetwork
from dpmac.nets import loss as loss_of
from dpmac.nets.feature_maps import FeatureMap, LowFrequencies
from dpmac.planning.plan import steps_for
from dpmac.privacy import Bound, JointClip, Mechanism, Normalise, PerLayerClip, Plan, Unbounded
from dpmac.randomness import NoiseSource
from dpmac.training import Trainer
from dpmac.training.trainer import Evaluate

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

    def before(self) -> tuple[Mechanism, ...]:
        return () if self.pca_noise is None else (Mechanism(self.pca_noise, 1.0, 1, "DP-PCA"),)

    def plan(self, n: int, delta: float) -> Plan:
        """The plan of this recipe on ``n`` rows."""
        steps = steps_for(n, self.batch_size, None, self.epochs)
        return Plan(n, self.batch_size, steps, self.noise_multiplier, delta, self.before())

    def trainer(
        self,
        inputs: int,
        outputs: int,
        n: int,
        delta: float,
        source: NoiseSource,
        *,
        feature_map: FeatureMap | None = None,
        evaluate: Evaluate | None = None,
        device: str = "cpu",
    ) -> Trainer:
        """A trainer for ``n`` rows, ``inputs`` wide behind ``feature_map``; weights and noise come from ``source``."""
        network = DenseNetwork([inputs, *self.hidden, outputs], self.activation, source=source.spawn("weights"))
        return Trainer(
            network.to(device),
            loss_of(self.loss),
            self.plan(n, delta),
            feature_map=feature_map,
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


@dataclass(frozen=True)
class ClosedFormRecipe:
    """An autoencoder from one or two releases (:class:`dpmac.methods.ClosedForm` says what the numbers do).

    ``centre`` is taken off every pixel, and only the lowest ``frequencies`` of the image are used.
    """

    share: float = 0.5
    centre: float = 0.15
    frequencies: int = 130
    code: int = 20
    features: int = 600
    bandwidth: float = 5.0
    norm: float = 4.6
    threshold: float = 2.5
    ridge: float = 20.0

    def method(self, side: int) -> ClosedForm:
        """The method for images of ``side`` x ``side`` pixels."""
        return ClosedForm(
            feature_map=LowFrequencies(side, self.frequencies, self.centre),
            share=self.share,
            code=self.code,
            features=self.features,
            bandwidth=self.bandwidth,
            norm=self.norm,
            threshold=self.threshold,
            ridge=self.ridge,
        )


@dataclass(frozen=True)
class StatisticsRecipe:
    """A linear classifier's choices: the noise multipliers of its DP-PCA and of its one release, and its ridge."""

    pca_noise: float
    noise_multiplier: float
    ridge: float


AnyRecipe = Recipe | ClosedFormRecipe | StatisticsRecipe


def agrees(recorded: Mapping[str, Any], recipe: AnyRecipe) -> bool:
    """Whether every field that a run wrote down is what ``recipe`` says. A field added since then breaks nothing."""
    today = json.loads(json.dumps(asdict(recipe)))
    return all(name in today and today[name] == value for name, value in recorded.items())
