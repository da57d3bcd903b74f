"""Order 2: slopes and curvatures of dense layers, released together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.kernels.dense import DensePart
from dpmac.mac.coordinates import Coordinates, problems_of
from dpmac.mac.expansions import solved_problems
from dpmac.mac.polynomial import Polynomial
from dpmac.nets.losses import Loss
from dpmac.nets.network import Network
from dpmac.nets.stages import Stage
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import Part

MEMORY = 1 << 30  # bytes of curvature that a network may ask for before it is refused


@dataclass(frozen=True)
class SecondOrder:
    """Slopes g and curvatures H, released together; the paper's b and C are formed from them after the release.

    ``shared=False`` releases one curvature per unit, d_out (d_in + 1)^2 numbers a layer: exact, but refused above
    ``memory`` bytes. ``shared=True`` releases the Gram matrix of the layer's inputs, (d_in + 1)^2 numbers, times a
    public bound on g'': exact for squared error on an identity output, and an upper bound (a majoriser of the
    Gauss-Newton curvature) elsewhere. Softmax keeps the diagonal blocks of its curvature. ``floor`` is the least
    eigenvalue of the curvature used, 0 for the projection to positive semi-definite. ``constant=True`` also releases
    the constant, for a line search, and pays for it with another partition per layer. Layers that have no second order
    (convolutions) are refused.
    """

    shared: bool = False
    floor: float = 0.0
    constant: bool = False
    memory: int = MEMORY

    def __post_init__(self) -> None:
        number("floor", self.floor, "give a number, at least 0", low=0.0, high=1e30)
        integer("memory", self.memory, "give a number of bytes")

    def partitions(self, network: Network, loss: Loss) -> list[Partition]:  # noqa: ARG002
        found = []
        for stage in network.stages:
            units, d = self._checked(stage)
            found += [Partition(f"{stage.name} slope", stage.layer.matrix_shape)]
            found += [Partition(f"{stage.name} curvature", (units, d, d), symmetric=True)]
            if self.constant:
                found.append(Partition(f"{stage.name} constant", (1,)))
        return found

    @torch.no_grad()
    def parts(self, network: Network, loss: Loss, coordinates: Coordinates) -> list[Part]:
        parts: list[Part] = []
        for problem, inputs, u, target in solved_problems(network, loss, coordinates):
            layer, g = problem.stage.layer, problem.loss
            if self.shared:
                bend = torch.ones_like(u[:, :1])
            else:
                bend = g.curvature(u, target)
            parts += [layer.part(g.slope(u, target), inputs), layer.curvature_part(bend, inputs)]
            if self.constant:
                parts.append(DensePart(g.value(u, target).unsqueeze(1)))
        return parts

    def polynomials(self, network: Network, loss: Loss, answer: Mapping[str, Tensor]) -> list[Polynomial]:
        polynomials = []
        for problem in problems_of(network, loss):
            name, g = problem.stage.name, problem.loss
            bend = g.weight * (g.curvature_bound if self.shared else 1.0) * answer[f"{name} curvature"]
            constant = None
            if self.constant:
                constant = g.weight * answer[f"{name} constant"]
            slope = g.weight * answer[f"{name} slope"]
            raw = Polynomial(problem.stage.layer.matrix(), slope, bend, constant)
            polynomials.append(raw.floored(self.floor))
        return polynomials

    def _checked(self, stage: Stage) -> tuple[int, int]:
        """Number and width of the curvatures of a stage; raises if it has none, or too much."""
        empty = stage.layer.weight.new_zeros(0, 1)
        stage.layer.curvature_part(empty, stage.layer.weight.new_zeros(0, stage.layer.matrix_shape[1] - 1))
        units, d = stage.layer.matrix_shape
        if self.shared:
            units = 1
        needed = 8 * units * d**2
        if needed > self.memory:
            fix = (
                f"its curvature takes d_out x d_in^2 = {needed / 2**20:,.0f} MiB: use SecondOrder(shared=True), "
                "a narrower layer, order 1, or raise memory"
            )
            raise ArgumentError(stage.name, f"{d - 1} -> {stage.layer.matrix_shape[0]}", fix)
        return units, d
