"""Z-steps: find every example's auxiliary coordinates, with the weights fixed.

The guarantee needs each example's coordinates to be a function of that example and of released weights alone. So
losses are sums over units and never means over the batch (a mean would reach an optimiser's epsilon), there are no
batch statistics, no batch-level stopping rule, and the optimisers allowed here treat every number by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.mac.layers import Coordinates, Layer, forward_values, layers_of
from dpmac.nets.losses import Loss
from dpmac.nets.network import DenseNetwork

# Optimisers whose update of a number depends on that number's own gradients alone. Others (LBFGS, Adafactor, Muon)
# mix numbers, and so would mix examples.
ELEMENTWISE = (
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.SGD,
)


class ZStep(Protocol):
    """Finds coordinates for a micro-batch, row by row."""

    def solve(self, network: DenseNetwork, loss: Loss, x: Tensor, y: Tensor) -> Coordinates:
        """Coordinates of each example. Row n depends on row n of ``x`` and ``y`` and on the weights, nothing else."""


@dataclass(frozen=True)
class AdamCoordinates:
    """The paper's Z-step: start at the forward values and descend on the sum of all layer losses.

    ``steps`` steps of a torch optimiser (Adam by default), its state fresh for every batch; ``mu`` weighs the hidden
    layers' losses against the output's. Each example descends on its own loss, so neither the batch's size nor its
    other rows are felt, whatever epsilon the optimiser has.
    """

    steps: int = 30
    lr: float = 0.003
    mu: float = 1.0
    optimizer: type[torch.optim.Optimizer] = torch.optim.Adam

    def __post_init__(self) -> None:
        integer("steps", self.steps, "give a number of Z-steps, at least 1")
        number("lr", self.lr, "give a learning rate above 0", low=0.0, high=1e6, strict=True)
        number("mu", self.mu, "give a penalty above 0 (the paper takes 1)", low=0.0, high=1e12, strict=True)
        if self.optimizer not in ELEMENTWISE:
            fix = f"it could mix examples; choose one of {', '.join(o.__name__ for o in ELEMENTWISE)}"
            raise ArgumentError("optimizer", self.optimizer, fix)

    @torch.no_grad()
    def solve(self, network: DenseNetwork, loss: Loss, x: Tensor, y: Tensor) -> Coordinates:
        _, values = forward_values(network, x)
        layers = layers_of(network, loss)
        zs = [value.clone() for value in values]
        if zs:
            first = values[0]  # f_1(W_1 x) does not move during the Z-step
            optimizer = self.optimizer(zs, lr=self.lr)  # type: ignore[call-arg]
            for _ in range(self.steps):
                for z, gradient in zip(zs, self._gradients(network, layers, first, zs, y), strict=True):
                    z.grad = gradient
                optimizer.step()
            for z in zs:
                z.grad = None
        return Coordinates(inputs=(x, *zs), targets=(*zs, y))

    def _gradients(
        self, network: DenseNetwork, layers: list[Layer], first: Tensor, zs: list[Tensor], y: Tensor
    ) -> list[Tensor]:
        """d/dz_k of mu/2 sum_k ||z_k - f_k(z_{k-1})||^2 + output loss, one row per example."""
        gradients = [self.mu * (zs[0] - first)]
        for k, act in enumerate(network.activations[1:], start=1):
            u = layers[k].pre_activation(zs[k - 1])
            residual = self.mu * (zs[k] - act.f(u))
            gradients[-1].sub_(layers[k].through(residual * act.df(u)))
            gradients.append(residual)
        last = layers[-1]
        slope = last.loss.weight * last.loss.slope(last.pre_activation(zs[-1]), y)
        gradients[-1].add_(last.through(slope))
        return gradients


@dataclass(frozen=True)
class FixedPrediction:
    """The fixed-prediction limit: one backward sweep at the forward values, z_k = f_k - gamma dloss/df_k.

    Every layer keeps its forward input, so its slope is exactly back-propagation's gradient times ``gamma`` (and the
    output layer's without it): the signal reaches all layers at full strength in one sweep. Cheapest Z-step there is.
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        number("gamma", self.gamma, "give a step above 0", low=0.0, high=1e12, strict=True)

    @torch.no_grad()
    def solve(self, network: DenseNetwork, loss: Loss, x: Tensor, y: Tensor) -> Coordinates:
        us, values = forward_values(network, x)
        layers = layers_of(network, loss)
        targets: list[Tensor] = [y]
        slopes = layers[-1].loss.weight * layers[-1].loss.slope(us[-1], y)
        for k in range(len(values) - 1, -1, -1):
            error = layers[k + 1].through(slopes)
            targets.insert(0, values[k] - self.gamma * error)
            slopes = error * network.activations[k].df(us[k])
        return Coordinates(inputs=(x, *values), targets=tuple(targets))
