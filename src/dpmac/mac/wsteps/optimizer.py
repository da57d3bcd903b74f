"""A W-step by any torch optimiser, at either order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from dpmac.checks import integer, number
from dpmac.mac.optimizers import optimizer_for
from dpmac.mac.polynomial import Polynomial
from dpmac.mac.released import WEIGHT
from dpmac.mac.wsteps.base import Schedule, constant
from dpmac.nets.network import Network


@dataclass(frozen=True)
class OptimizerStep:
    """``inner_steps`` steps of any torch optimiser on each released polynomial, with a learning-rate schedule.

    At order 1 the polynomial's gradient is the released slope, the same at every inner step; at order 2 it follows the
    weights. ``schedule`` maps the part of the run that is done to a factor on ``lr``; ``options`` go to the optimiser.
    ``penalty`` adds penalty / 2 times the squared weights, times the inputs of their unit, to what is minimised: a unit
    of many inputs has smaller weights. Offsets are not penalised.
    """

    lr: float = 0.01
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam
    schedule: Schedule = constant
    inner_steps: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    penalty: float = 0.0

    def __post_init__(self) -> None:
        number("lr", self.lr, "give a learning rate above 0", low=0.0, high=1e9, strict=True)
        integer("inner_steps", self.inner_steps, "give a number of steps per release, at least 1")
        number("penalty", self.penalty, "give a number, at least 0", low=0.0, high=1e9)

    def start(self, network: Network, steps: int) -> OptimizerUpdater:
        return OptimizerUpdater(self, network, steps)


class OptimizerUpdater:
    """An :class:`OptimizerStep` at work: hands released gradients to a plain torch optimiser, and sets its rate."""

    def __init__(self, step: OptimizerStep, network: Network, steps: int) -> None:
        self._network, self._step, self._steps, self._done = network, step, max(steps, 1), 0
        self._parameters = list(network.parameters())  # (finding them takes longer than moving a small network's)
        self.optimizer = optimizer_for(step.optimizer, self._parameters, lr=step.lr, **step.options)
        self.skip(0)

    @property
    def lr(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    @property
    def model(self) -> Network:
        return self._network

    def apply(self, polynomials: Sequence[Polynomial]) -> None:
        for _ in range(self._step.inner_steps):
            for layer, polynomial in zip(self._network.weight_layers, polynomials, strict=True):
                at_order_one = polynomial.curvature is None  # then the slope is the same everywhere
                layer.write_gradient(polynomial.slope if at_order_one else polynomial.gradient(layer.matrix()))
            for parameter in self._parameters:
                if parameter.grad is not None:
                    if self._step.penalty and parameter.dim() > 1:
                        inputs = math.prod(parameter.shape[1:])
                        parameter.grad.add_(parameter.detach(), alpha=self._step.penalty * inputs)
                    parameter.grad.clamp_(-WEIGHT, WEIGHT)
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.skip(1)

    def state(self) -> dict[str, Any]:
        return {
            "network": dict(self._network.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "done": self._done,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._done = 0
        self.skip(state["done"])

    def skip(self, steps: int) -> None:
        self._done += steps
        rate = self._step.lr * self._step.schedule(min(self._done / self._steps, 1.0))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
