"""The expansion: every layer's loss as a low-order polynomial in its weights, one example at a time.

Around the current weights, with u = w^T [x; 1] and a loss g of the pre-activation, the coefficients of an example are
outer products of a few vectors, never a matrix: slope g'(u) [x; 1]^T, curvature g''(u) [x; 1] [x; 1]^T. What is
released is chosen by an expansion object; what the release gives back becomes a
:class:`~dpmac.mac.polynomial.Polynomial` per layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpmac.mac.coordinates import Coordinates, Problem, problems_of
from dpmac.mac.polynomial import Polynomial
from dpmac.nets.losses import Loss
from dpmac.nets.network import Network
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import Part


class Expansion(Protocol):
    """Says which partitions are released, what each example contributes, and what the answer means."""

    def partitions(self, network: Network, loss: Loss) -> list[Partition]:
        """The partitions, in order, without a scale yet. Depends on public weights only."""

    def parts(self, network: Network, loss: Loss, coordinates: Coordinates) -> list[Part]:
        """Each example's share of every partition, before any bound. Row n depends on example n alone."""

    def polynomials(self, network: Network, loss: Loss, answer: Mapping[str, Tensor]) -> list[Polynomial]:
        """The objective's polynomial of each layer, from an answer whose sums were divided by the batch size."""


def weighted_slopes(network: Network, loss: Loss, coordinates: Coordinates) -> list[tuple[Problem, Tensor, Tensor]]:
    """Every layer problem with the weight layer's inputs and the slope of its loss, times the loss's weight, in u."""
    if coordinates.slopes is not None:
        problems, inputs = problems_of(network, loss), coordinates.layer_inputs
        if inputs is None:
            pairs = zip(problems, coordinates.inputs, strict=True)
            inputs = tuple(problem.stage.inputs(z) for problem, z in pairs)
        return list(zip(problems, inputs, coordinates.slopes, strict=True))
    return [
        (problem, inputs, problem.loss.weight * problem.loss.slope(u, target))
        for problem, inputs, u, target in solved_problems(network, loss, coordinates)
    ]


def solved_problems(
    network: Network, loss: Loss, coordinates: Coordinates
) -> list[tuple[Problem, Tensor, Tensor, Tensor]]:
    """Every layer problem with the weight layer's inputs, the pre-activation and the target."""
    found = []
    known = coordinates.pre_activations
    pairs = zip(problems_of(network, loss), coordinates.inputs, coordinates.targets, strict=True)
    for k, (problem, z, target) in enumerate(pairs):
        inputs = problem.stage.inputs(z)
        if known is None:
            u = problem.stage.layer(inputs)
        else:
            u = known[k]
        found.append((problem, inputs, u, target))
    return found


@dataclass(frozen=True)
class FirstOrder:
    """The slopes alone: one partition per layer, of the shape of its matrix, bias in the last column.

    Without the loss's weight, as the paper's dT_n; the polynomial has it. For layers of every kind.
    """

    def partitions(self, network: Network, loss: Loss) -> list[Partition]:  # noqa: ARG002
        return [Partition(stage.name, stage.layer.matrix_shape) for stage in network.stages]

    @torch.no_grad()
    def parts(self, network: Network, loss: Loss, coordinates: Coordinates) -> list[Part]:
        return [
            problem.stage.layer.part(slope if problem.loss.weight == 1 else slope / problem.loss.weight, inputs)
            for problem, inputs, slope in weighted_slopes(network, loss, coordinates)
        ]

    def polynomials(self, network: Network, loss: Loss, answer: Mapping[str, Tensor]) -> list[Polynomial]:
        return [
            Polynomial(problem.stage.layer.matrix_now(), problem.loss.weight * answer[problem.stage.name])
            for problem in problems_of(network, loss)
        ]
