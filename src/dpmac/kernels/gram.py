"""Weighted Gram matrices (a dense layer's curvature).

K1: norms are computed from two vectors in double precision: at least (1 - (d + 32) u) times the true one, for d
numbers. K2: sums in double precision: for m rows off by at most m (m + 2) u scales, which ``parts.SLACK`` covers for
two neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import check_dimensions
from dpmac.kernels.norms import norms_and_scales, times


@dataclass(frozen=True)
class GramPart:
    """Share n is the stack of symmetric matrices ``weights[n, j] rows[n] rows[n]^T``, one for each unit j.

    This is the curvature of a dense layer, or, with a single column of ones as weights, the Gram matrix of its inputs.
    The norm of a share is ||weights[n]|| ||inputs[n]||^2, and no share is ever built.
    """

    weights: Tensor  # (rows, units)
    inputs: Tensor  # (rows, d_in)

    def __post_init__(self) -> None:
        check_dimensions(self, weights=2, inputs=2)

    @property
    def rows(self) -> int:
        return len(self.weights)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.weights.shape[1], self.inputs.shape[1], self.inputs.shape[1])

    def norms(self) -> Tensor:
        (weights, a), (inputs, b) = norms_and_scales(self.weights), norms_and_scales(self.inputs)
        found = weights * inputs.square() * (a * b * b)  # in this order: b * b alone could underflow
        return torch.where((weights == 0) & torch.isfinite(inputs), 0.0, found)  # b * b may be infinite there

    single = False

    def doubled(self) -> GramPart:
        return self

    def explicit(self) -> Tensor:
        inputs, weights = self.inputs.double(), self.weights.double()
        return weights[:, :, None, None] * (inputs.unsqueeze(2) * inputs.unsqueeze(1)).unsqueeze(1)

    def scaled(self, factors: Tensor) -> GramPart:
        # sqrt(factor) on both sides of x x^T: a small weight next to a long row has no digits to lose
        roots = torch.where((self.weights == 0).all(dim=1), 0.0, factors.double().abs().sqrt())
        return GramPart(times(self.weights, factors.sign()), times(self.inputs, roots))

    def total(self, spots_per_place: int = 1) -> Tensor:  # noqa: ARG002 - there are no chunks
        inputs, weights = self.inputs.double(), self.weights.double()
        units = [(inputs * weights[:, j : j + 1]).T @ inputs for j in range(weights.shape[1])]
        stacked = inputs.new_zeros(self.shape)
        if units:
            stacked = torch.stack(units)
        return (stacked + stacked.transpose(1, 2)) / 2  # exactly symmetric, however the matrix product rounds
