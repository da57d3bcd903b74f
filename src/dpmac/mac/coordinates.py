"""A network seen as MAC sees it: one small problem per weight layer, coupled only through the coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.nets.losses import Loss, SquaredError
from dpmac.nets.network import Network
from dpmac.nets.stages import Stage


@dataclass(frozen=True)
class Carried:
    """What the weight layers get of the coordinates ``of``: of these very ones, and no others in their place."""

    of: Sequence[Tensor]
    inputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Coordinates:
    """What the Z-step found, per example: stage k is to map ``inputs[k]`` to ``targets[k]``.

    In MAC proper inputs are x, z_1 .. z_K and targets z_1 .. z_K, y. All have a row per example. A Z-step that has
    the stages' pre-activations at these inputs hands them on, or even the slopes there (of each stage's loss times its
    weight), so that they need not be computed again. So it does with what the weight layers get of these inputs.
    """

    inputs: Sequence[Tensor]
    targets: Sequence[Tensor]
    pre_activations: Sequence[Tensor] | None = None
    slopes: tuple[Tensor, ...] | None = None
    carried: Carried | None = None

    @property
    def layer_inputs(self) -> tuple[Tensor, ...] | None:
        """What the weight layers get of ``inputs``, if that is known."""
        if self.carried is None or self.carried.of is not self.inputs:
            return None
        return self.carried.inputs


@dataclass(frozen=True)
class Problem:
    """One stage with the loss of its pre-activation."""

    stage: Stage
    loss: Loss


def problems_of(network: Network, loss: Loss) -> list[Problem]:
    """The layer problems: squared distance to the coordinates in the hidden layers, ``loss`` in the last."""
    *hidden, last = network.stages
    return [*(Problem(stage, SquaredError(stage.activation)) for stage in hidden), Problem(last, loss)]


@dataclass(frozen=True)
class Forward:
    """A forward pass: pre-activations u_1 .. u_{K+1}, hidden values f_1(u_1) .. f_K(u_K), and of every stage what its
    carriers make of the coordinates before it (:meth:`Stage.carried`)."""

    us: list[Tensor]
    values: list[Tensor]
    carried: list[tuple[Tensor, ...]]


@torch.no_grad()
def forward_pass(network: Network, x: Tensor) -> Forward:
    us: list[Tensor] = []
    values: list[Tensor] = []
    carried: list[tuple[Tensor, ...]] = []
    z = x
    for stage in network.stages:
        carried.append(stage.carried(z))
        us.append(stage.layer(carried[-1][-1]))
        z = stage.activation.f(us[-1])
        values.append(z)
    return Forward(us, values[:-1], carried)


def forward_values(network: Network, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Pre-activations u_1 .. u_{K+1} and hidden values f_1(u_1) .. f_K(u_K) of a forward pass."""
    made = forward_pass(network, x)
    return made.us, made.values
