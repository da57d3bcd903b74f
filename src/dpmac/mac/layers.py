"""A network seen as MAC sees it: one small problem per layer, coupled only through the coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.nets.losses import Loss, SquaredError
from dpmac.nets.network import DenseNetwork


@dataclass(frozen=True)
class Layer:
    """One weight layer with the loss of its pre-activation."""

    linear: nn.Linear
    loss: Loss

    def pre_activation(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs, self.linear.weight.detach(), self.linear.bias.detach())

    def through(self, slopes: Tensor) -> Tensor:
        """Slopes in the pre-activation, carried back to the layer's input: row by row, W^T slope."""
        return slopes @ self.linear.weight.detach()


@dataclass(frozen=True)
class Coordinates:
    """What the Z-step found, per example: layer k is to map ``inputs[k]`` to ``targets[k]``.

    In MAC proper inputs are x, z_1 .. z_K and targets z_1 .. z_K, y. All are (rows, units).
    """

    inputs: tuple[Tensor, ...]
    targets: tuple[Tensor, ...]


def layers_of(network: DenseNetwork, loss: Loss) -> list[Layer]:
    """The layer problems: squared distance to the coordinates in the hidden layers, ``loss`` in the last."""
    losses: list[Loss] = [SquaredError(act) for act in network.activations]
    return [Layer(linear, g) for linear, g in zip(network.linears, [*losses, loss], strict=True)]


@torch.no_grad()
def forward_values(network: DenseNetwork, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Pre-activations u_1 .. u_{K+1} and hidden values f_1(u_1) .. f_K(u_K) of a forward pass."""
    us: list[Tensor] = []
    values: list[Tensor] = []
    for linear, act in zip(network.linears, network.activations, strict=False):
        us.append(F.linear(values[-1] if values else x, linear.weight, linear.bias))
        values.append(act.f(us[-1]))
    last = network.linears[-1]
    us.append(F.linear(values[-1] if values else x, last.weight, last.bias))
    return us, values
