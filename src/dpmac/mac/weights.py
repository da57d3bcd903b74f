"""W-steps: what the weights do with a release. Post-processing: any number of steps costs no further privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from dpmac.checks import number
from dpmac.nets.network import DenseNetwork

Schedule = Callable[[float], float]  # part of the run that is done, 0 to 1, to a factor on the learning rate


class WeightUpdater(Protocol):
    """A W-step at work on one network."""

    def apply(self, gradients: Sequence[Tensor]) -> None:
        """Take released gradients of all layers, (d_out, d_in + 1) each, and move the weights."""

    @property
    def lr(self) -> float:
        """The learning rate of the next step."""


class WStep(Protocol):
    """Makes an updater for a network and a run of known length."""

    def start(self, network: DenseNetwork, steps: int) -> WeightUpdater: ...


def constant(done: float) -> float:  # noqa: ARG001
    """No decay."""
    return 1.0


def cosine(done: float) -> float:
    """Half a cosine from 1 to 0."""
    return 0.5 * (1.0 + math.cos(math.pi * done))


@dataclass(frozen=True)
class StepDecay:
    """The paper's schedule: the rate times ``factor`` after each of ``epochs`` equal parts of the run."""

    factor: float
    epochs: int

    def __call__(self, done: float) -> float:
        return self.factor ** math.floor(done * self.epochs + 1e-9)


@dataclass(frozen=True)
class OptimizerStep:
    """One step of any torch optimiser per release, on the released gradient, with a learning-rate schedule.

    ``schedule`` maps the part of the run that is done to a factor on ``lr``; ``options`` go to the optimiser.
    """

    lr: float = 0.01
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam
    schedule: Schedule = constant
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        number("lr", self.lr, "give a learning rate above 0", low=0.0, high=1e9, strict=True)

    def start(self, network: DenseNetwork, steps: int) -> OptimizerUpdater:
        return OptimizerUpdater(self, network, steps)


class OptimizerUpdater:
    """An :class:`OptimizerStep` at work: hands released gradients to a plain torch optimiser and scheduler."""

    def __init__(self, step: OptimizerStep, network: DenseNetwork, steps: int) -> None:
        self._network = network
        self.optimizer = step.optimizer(network.parameters(), lr=step.lr, **step.options)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda index: step.schedule(min(index / max(steps, 1), 1.0))
        )

    @property
    def lr(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def apply(self, gradients: Sequence[Tensor]) -> None:
        for linear, gradient in zip(self._network.linears, gradients, strict=True):
            exact = gradient.to(linear.weight.dtype)
            linear.weight.grad = exact[:, :-1].contiguous()
            linear.bias.grad = exact[:, -1].contiguous()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.scheduler.step()
