"""A network seen as MAC sees it: one small problem per weight layer, coupled only through the coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.nets.losses import Loss, SquaredError
from dpmac.nets.network import Network, Stage


@dataclass(frozen=True)
class Coordinates:
    """What the Z-step found, per example: stage k is to map ``inputs[k]`` to ``targets[k]``.

    In MAC proper inputs are x, z_1 .. z_K and targets z_1 .. z_K, y. All have a row per example. A Z-step that has
    the stages' pre-activations at these inputs hands them on, or even the slopes there (of each stage's loss times its
    weight), so that they need not be computed again.
    """

    inputs: tuple[Tensor, ...]
    targets: Sequence[Tensor]
    pre_activations: tuple[Tensor, ...] | None = None
    slopes: tuple[Tensor, ...] | None = None


@dataclass(frozen=True)
class Problem:
    """One stage with the loss of its pre-activation."""

    stage: Stage
    loss: Loss


def problems_of(network: Network, loss: Loss) -> list[Problem]:
    """The layer problems: squared distance to the coordinates in the hidden layers, ``loss`` in the last."""
    *hidden, last = network.stages
    return [*(Problem(stage, SquaredError(stage.activation)) for stage in hidden), Problem(last, loss)]


@torch.no_grad()
def forward_values(network: Network, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Pre-activations u_1 .. u_{K+1} and hidden values f_1(u_1) .. f_K(u_K) of a forward pass."""
    us: list[Tensor] = []
    values: list[Tensor] = []
    z = x
    for stage in network.stages:
        us.append(stage.pre_activation(z))
        z = stage.activation.f(us[-1])
        values.append(z)
    return us, values[:-1]
