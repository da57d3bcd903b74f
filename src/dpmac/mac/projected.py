"""The paper's analytic route: no clipping of coefficients, but coordinates of bounded norm and proven sensitivities.

After the Z-step every example's inputs and targets are projected to norm ``radius`` (the paper's T_z). The sums of the
paper's own coefficients b and C (and a, if it is wanted) then have sensitivities that follow from the public weights
alone, :mod:`dpmac.privacy.sensitivity`. Use it with the bound :class:`dpmac.privacy.Analytic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import number
from dpmac.mac.expansion import SecondOrder, weights_of, with_one
from dpmac.mac.layers import Coordinates, Layer, layers_of
from dpmac.mac.polynomial import Polynomial
from dpmac.nets.losses import Loss, SquaredError
from dpmac.nets.network import DenseNetwork
from dpmac.privacy.bound import Block, clip_factors
from dpmac.privacy.parts import DensePart, GramPart, OuterPart, Part, row_norms
from dpmac.privacy.sensitivity import layer_sensitivity


@dataclass(frozen=True)
class Projected:
    """Order 2 with coefficients b, C (and a) of projected coordinates, each block with its proven sensitivity.

    ``radius`` is T_z: inputs of every layer (without the constant 1) and targets of squared-error layers are scaled
    down, example by example, to norm at most T_z; class targets stay as they are, in [0, 1]. ``constant`` releases a
    too; ``floor`` is the least eigenvalue of the curvature used. The sensitivities grow with the weights and the number
    of units, which is why the paper's experiments clip instead.
    """

    radius: float
    constant: bool = False
    floor: float = 0.0

    def __post_init__(self) -> None:
        number("radius", self.radius, "give T_z, a number above 0", low=1e-30, high=1e30)
        number("floor", self.floor, "give a number, at least 0", low=0.0, high=1e30)

    def blocks(self, network: DenseNetwork, loss: Loss) -> list[Block]:
        SecondOrder().blocks(network, loss)  # the same shapes: refuses what does not fit into memory
        blocks = []
        for name, layer in zip(network.layer_names, layers_of(network, loss), strict=True):
            weight, bias = layer.linear.weight.detach().cpu().double(), layer.linear.bias.detach().cpu().double()
            proven = layer_sensitivity(layer.loss, weight, bias, self.radius)
            units, d = layer.linear.out_features, layer.linear.in_features + 1
            blocks += [Block(f"{name} b", (units, d), sensitivity=proven.b)]
            blocks += [Block(f"{name} C", (units, d, d), symmetric=True, sensitivity=proven.C)]
            blocks += [Block(f"{name} a", (1,), sensitivity=proven.a)] if self.constant else []
        return blocks

    @torch.no_grad()
    def parts(self, network: DenseNetwork, loss: Loss, coordinates: Coordinates) -> list[Part]:
        parts: list[Part] = []
        layers = layers_of(network, loss)
        for layer, inputs, targets in zip(layers, coordinates.inputs, coordinates.targets, strict=True):
            x = with_one(self.project(inputs))
            z = self.project(targets) if isinstance(layer.loss, SquaredError) else targets.double()
            parts += self._coefficients(layer, x, z)
        # Rounding may carry a share over a bound that is attained; it is cut back, so that no row can stop a run.
        stated = [max(block.sensitivity or 0.0, 1e-12) for block in self.blocks(network, loss)]
        return [part.scaled(clip_factors(part.norms(), limit)) for part, limit in zip(parts, stated, strict=True)]

    def _coefficients(self, layer: Layer, x: Tensor, z: Tensor) -> list[Part]:
        """a = g - u g' + u^2 g''/2, b = (g' - u g'') x, C = g''/2 x x^T; in double, since the terms of b may cancel."""
        u = x @ weights_of(layer).transpose(0, 1)
        slope, bend = layer.loss.slope(u, z), layer.loss.curvature(u, z)
        parts: list[Part] = [OuterPart(slope - u * bend, x), GramPart(bend / 2, x)]
        if self.constant:
            rest = (0.5 * u.square() * bend - u * slope).sum(dim=1)
            parts += [DensePart((layer.loss.value(u, z) + rest).unsqueeze(1))]
        return parts

    def polynomials(self, network: DenseNetwork, loss: Loss, released: Sequence[Tensor]) -> list[Polynomial]:
        step = 3 if self.constant else 2
        polynomials = []
        for k, layer in enumerate(layers_of(network, loss)):
            b, C, *a = (layer.loss.weight * block for block in released[k * step : (k + 1) * step])
            centre = weights_of(layer)
            flat = Polynomial(centre, b, 2 * C)
            slope = b + flat.bend(centre)
            constant = a[0] + (b * centre).sum() + 0.5 * (centre * flat.bend(centre)).sum() if a else None
            polynomials.append(Polynomial(centre, slope, 2 * C, constant).floored(self.floor))
        return polynomials

    def project(self, rows: Tensor) -> Tensor:
        """Each row scaled down to norm ``radius`` if it is longer, in double precision; non-finite rows stay so."""
        exact = rows.double()
        return exact * (self.radius / row_norms(exact).clamp(min=self.radius)).unsqueeze(1)
