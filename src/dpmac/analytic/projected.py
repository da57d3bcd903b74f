"""The paper's analytic route: no clipping of coefficients, but coordinates of bounded norm and proven sensitivities.

After the Z-step every example's inputs and targets are projected to norm ``radius`` (the paper's T_z). The sums of the
paper's own coefficients b and C (and a, if it is wanted) then have sensitivities that follow from the public weights
alone, :mod:`dpmac.analytic.proofs`. Use it with the bound :class:`dpmac.privacy.Analytic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.analytic.proofs import layer_sensitivity
from dpmac.bounds.clipping import clip_factors
from dpmac.checks import number
from dpmac.kernels.dense import DensePart
from dpmac.kernels.gram import GramPart
from dpmac.kernels.norms import row_norms
from dpmac.kernels.outer import OuterPart
from dpmac.mac.coordinates import Coordinates, Problem, problems_of
from dpmac.mac.polynomial import Polynomial
from dpmac.mac.second_order import SecondOrder
from dpmac.nets.layers import with_one
from dpmac.nets.losses import Loss
from dpmac.nets.network import Network
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import Part

MOST = 1e25  # of a sensitivity: scales end at 1e30, and shares are cut to it


@dataclass(frozen=True)
class Projected:
    """Order 2 with coefficients b, C (and a) of projected coordinates, each partition with its proven sensitivity.

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

    def partitions(self, network: Network, loss: Loss) -> list[Partition]:
        SecondOrder().partitions(network, loss)  # the same shapes: refuses what has no second order, or too much
        found = []
        for problem in problems_of(network, loss):
            name, layer = problem.stage.name, problem.stage.layer
            matrix = layer.matrix().cpu()
            proven = layer_sensitivity(problem.loss, matrix[:, :-1], matrix[:, -1], self.radius)
            a, b, C = (min(one, MOST) for one in (proven.a, proven.b, proven.C))
            units, d = layer.matrix_shape
            found += [Partition(f"{name} b", (units, d), sensitivity=b)]
            found += [Partition(f"{name} C", (units, d, d), symmetric=True, sensitivity=C)]
            if self.constant:
                found.append(Partition(f"{name} a", (1,), sensitivity=a))
        return found

    @torch.no_grad()
    def parts(self, network: Network, loss: Loss, coordinates: Coordinates) -> list[Part]:
        parts: list[Part] = []
        for problem, z, targets in zip(
            problems_of(network, loss), coordinates.inputs, coordinates.targets, strict=True
        ):
            x = with_one(self.project(problem.stage.inputs(z)))
            if problem.loss.free_targets:
                target = self.project(targets)
            else:
                target = targets.double()
            parts += self._coefficients(problem, x, target)
        # Rounding may carry a share over a bound that is attained, and MOST is below what is proven for enormous
        # weights; it is cut back, so that no row can stop a run.
        stated = [max(p.sensitivity or 0.0, 1e-12) for p in self.partitions(network, loss)]
        return [part.scaled(clip_factors(part.norms(), limit)) for part, limit in zip(parts, stated, strict=True)]

    def _coefficients(self, problem: Problem, x: Tensor, z: Tensor) -> list[Part]:
        """a = g - u g' + u^2 g''/2, b = (g' - u g'') x, C = g''/2 x x^T; in double, since the terms of b may cancel."""
        loss = problem.loss
        u = x @ problem.stage.layer.matrix().transpose(0, 1)
        slope, bend = loss.slope(u, z), loss.curvature(u, z)
        parts: list[Part] = [OuterPart(slope - u * bend, x), GramPart(bend / 2, x)]
        if self.constant:
            rest = (0.5 * u.square() * bend - u * slope).sum(dim=1)
            parts += [DensePart((loss.value(u, z) + rest).unsqueeze(1))]
        return parts

    def polynomials(self, network: Network, loss: Loss, answer: Mapping[str, Tensor]) -> list[Polynomial]:
        polynomials = []
        for problem in problems_of(network, loss):
            name, weight = problem.stage.name, problem.loss.weight
            b, C = weight * answer[f"{name} b"], weight * answer[f"{name} C"]
            centre = problem.stage.layer.matrix()
            flat = Polynomial(centre, b, 2 * C)
            slope = b + flat.bend(centre)
            constant = None
            if self.constant:
                a = weight * answer[f"{name} a"]
                constant = a + (b * centre).sum() + 0.5 * (centre * flat.bend(centre)).sum()
            polynomials.append(Polynomial(centre, slope, 2 * C, constant).floored(self.floor))
        return polynomials

    def project(self, rows: Tensor) -> Tensor:
        """Each row scaled down to norm ``radius`` if it is longer, in double precision; non-finite rows stay so."""
        exact = rows.double()
        return exact * (self.radius / row_norms(exact).clamp(min=self.radius)).unsqueeze(1)
