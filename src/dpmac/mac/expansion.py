"""The expansion: every layer's loss as a low-order polynomial in its weights, one example at a time.

Around the current weights, with u = w^T [x; 1] and a loss g of the pre-activation, the coefficients of an example are
outer products of a few vectors, never a matrix: slope g'(u) [x; 1]^T, curvature g''(u) [x; 1] [x; 1]^T. What is
released is chosen by an expansion object; what comes back through the door becomes a
:class:`~dpmac.mac.polynomial.Polynomial` per layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.mac.layers import Coordinates, Layer, layers_of
from dpmac.mac.polynomial import Polynomial
from dpmac.nets.losses import Loss
from dpmac.nets.network import DenseNetwork
from dpmac.privacy.bound import Block
from dpmac.privacy.parts import DensePart, GramPart, OuterPart, Part

MEMORY = 1 << 30  # bytes of curvature that a network may ask for before it is refused


class Expansion(Protocol):
    """Says which blocks are released, what each example contributes, and what the release means."""

    def blocks(self, network: DenseNetwork, loss: Loss) -> list[Block]:
        """The blocks, in order. Depends on public weights only."""

    def parts(self, network: DenseNetwork, loss: Loss, coordinates: Coordinates) -> list[Part]:
        """Each example's share of every block, before any bound. Row n depends on example n alone."""

    def polynomials(self, network: DenseNetwork, loss: Loss, released: Sequence[Tensor]) -> list[Polynomial]:
        """The objective's polynomial of each layer, from released sums that were divided by the batch size."""


def with_one(x: Tensor) -> Tensor:
    """[x; 1]: the input with the constant that the bias multiplies."""
    return torch.cat([x, torch.ones_like(x[:, :1])], dim=1)


def weights_of(layer: Layer) -> Tensor:
    """A layer's weights and bias as one (d_out, d_in + 1) matrix in double precision."""
    linear = layer.linear
    return torch.cat([linear.weight.detach(), linear.bias.detach().unsqueeze(1)], dim=1).double()


def _problems(
    network: DenseNetwork, loss: Loss, coordinates: Coordinates
) -> list[tuple[Layer, Tensor, Tensor, Tensor]]:
    """Layer, input, pre-activation and target of every layer problem."""
    return [
        (layer, inputs, layer.pre_activation(inputs), targets)
        for layer, inputs, targets in zip(
            layers_of(network, loss), coordinates.inputs, coordinates.targets, strict=True
        )
    ]


@dataclass(frozen=True)
class FirstOrder:
    """The slopes alone: one block of shape (d_out, d_in + 1) per layer, weights first, bias in the last column.

    Without the loss's weight, as the paper's dT_n; the polynomial has it.
    """

    def blocks(self, network: DenseNetwork, loss: Loss) -> list[Block]:  # noqa: ARG002
        return [
            Block(name, (linear.out_features, linear.in_features + 1))
            for name, linear in zip(network.layer_names, network.linears, strict=True)
        ]

    @torch.no_grad()
    def parts(self, network: DenseNetwork, loss: Loss, coordinates: Coordinates) -> list[Part]:
        return [
            OuterPart(layer.loss.slope(u, target), with_one(inputs))
            for layer, inputs, u, target in _problems(network, loss, coordinates)
        ]

    def polynomials(self, network: DenseNetwork, loss: Loss, released: Sequence[Tensor]) -> list[Polynomial]:
        return [
            Polynomial(weights_of(layer), layer.loss.weight * slope)
            for layer, slope in zip(layers_of(network, loss), released, strict=True)
        ]


@dataclass(frozen=True)
class SecondOrder:
    """Slopes g and curvatures H, released together; the paper's b and C are formed from them after the release.

    ``shared=False`` releases one curvature per unit, d_out (d_in + 1)^2 numbers a layer: exact, but refused above
    ``memory`` bytes. ``shared=True`` releases the Gram matrix of the layer's inputs, (d_in + 1)^2 numbers, times a
    public bound on g'': exact for squared error on an identity output, and an upper bound (a majoriser of the
    Gauss-Newton curvature) elsewhere. Softmax keeps the diagonal blocks of its curvature. ``floor`` is the least
    eigenvalue of the curvature used, 0 for the projection to positive semi-definite. ``constant=True`` also releases
    the constant, for a line search, and pays for it with another partition per layer.
    """

    shared: bool = False
    floor: float = 0.0
    constant: bool = False
    memory: int = MEMORY

    def __post_init__(self) -> None:
        number("floor", self.floor, "give a number, at least 0", low=0.0, high=1e30)
        integer("memory", self.memory, "give a number of bytes")

    def blocks(self, network: DenseNetwork, loss: Loss) -> list[Block]:
        self._check_memory(network)
        blocks = []
        for name, layer in zip(network.layer_names, layers_of(network, loss), strict=True):
            units, d = layer.linear.out_features, layer.linear.in_features + 1
            blocks += [Block(f"{name} slope", (units, d))]
            blocks += [Block(f"{name} curvature", (1 if self.shared else units, d, d), symmetric=True)]
            blocks += [Block(f"{name} constant", (1,))] if self.constant else []
        return blocks

    @torch.no_grad()
    def parts(self, network: DenseNetwork, loss: Loss, coordinates: Coordinates) -> list[Part]:
        parts: list[Part] = []
        for layer, inputs, u, target in _problems(network, loss, coordinates):
            x = with_one(inputs)
            bend = torch.ones_like(u[:, :1]) if self.shared else layer.loss.curvature(u, target)
            parts += [OuterPart(layer.loss.slope(u, target), x), GramPart(bend, x)]
            if self.constant:
                parts += [DensePart(layer.loss.value(u, target).unsqueeze(1))]
        return parts

    def polynomials(self, network: DenseNetwork, loss: Loss, released: Sequence[Tensor]) -> list[Polynomial]:
        step = 3 if self.constant else 2
        polynomials = []
        for k, layer in enumerate(layers_of(network, loss)):
            slope, bend, *constant = released[k * step : (k + 1) * step]
            factor = layer.loss.weight * (layer.loss.curvature_bound if self.shared else 1.0)
            raw = Polynomial(
                weights_of(layer),
                layer.loss.weight * slope,
                factor * bend,
                layer.loss.weight * constant[0] if constant else None,
            )
            polynomials.append(raw.floored(self.floor))
        return polynomials

    def _check_memory(self, network: DenseNetwork) -> None:
        for name, linear in zip(network.layer_names, network.linears, strict=True):
            units = 1 if self.shared else linear.out_features
            needed = 8 * units * (linear.in_features + 1) ** 2
            if needed > self.memory:
                fix = (
                    f"its curvature takes d_out x d_in^2 = {needed / 2**20:,.0f} MiB: use SecondOrder(shared=True), "
                    "a narrower layer, order 1, or raise memory"
                )
                shape = f"{linear.in_features} -> {linear.out_features}"
                raise ArgumentError(name, shape, fix)


def first_order(network: DenseNetwork, loss: Loss, coordinates: Coordinates) -> list[Part]:
    """Slopes of all layers: :class:`FirstOrder`'s parts."""
    return FirstOrder().parts(network, loss, coordinates)
