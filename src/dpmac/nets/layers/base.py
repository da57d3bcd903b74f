"""What a layer is: a map of one example, its way back, and, if it has weights, its part of a release.

Z-steps, expansions, bounds, DP-SGD and export speak of layers in these words alone, so a new kind of layer is one file
and one line in this package's ``__init__``; the contract tests pick it up. Everything here works row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError
from dpmac.extensions.provenance import Shaped
from dpmac.privacy.parts import Part
from dpmac.randomness import NoiseSource

Shape = tuple[int, ...]  # of one example, without the rows


class Layer(Shaped):
    """A map of one example to another shape. Layers without weights carry coordinates between those that have them.

    ``kind`` is its name in files; :meth:`config` gives the constructor's arguments, in plain values. ``origin`` is that
    of the network it was trained in, so that a layer which is taken out of it knows.
    """

    kind: ClassVar[str]

    def forward(self, inputs: Tensor) -> Tensor:
        """The outputs of a block of rows; for a weight layer its pre-activation."""
        raise NotImplementedError

    def back(self, slopes: Tensor, inputs: Tensor) -> Tensor:
        """Slopes in the outputs carried back to the inputs: row by row J^T slope, with J taken at ``inputs``."""
        raise NotImplementedError

    def shape_after(self, shape: Shape) -> Shape:
        """The shape of one output, for an input of that shape; :class:`ArgumentError` if such inputs do not fit."""
        raise NotImplementedError

    def config(self) -> dict[str, Any]:
        raise NotImplementedError

    def plain(self) -> nn.Module:
        """A torch module that computes the same, with the same ``state_dict`` and nothing of this package in it."""
        raise NotImplementedError

    @classmethod
    def sample(cls) -> tuple[Layer, Shape]:
        """A small layer of this kind and the shape of its inputs: what the contract tests try."""
        raise NotImplementedError


class WeightLayer(Layer):
    """A layer with ``weight`` (units first) and ``bias``: linear in both, seen as one matrix (units, d_in + 1)."""

    weight: nn.Parameter
    bias: nn.Parameter

    def part(self, slopes: Tensor, inputs: Tensor) -> Part:
        """Each example's slope in the weights, given its slope in the pre-activation: a share of the matrix's shape."""
        raise NotImplementedError

    def curvature_part(self, bends: Tensor, inputs: Tensor) -> Part:  # noqa: ARG002
        """Each example's curvature in every unit's weights, given d2g/du^2 (or one column, shared by all units)."""
        fix = f"a {self.kind} layer has no second order here: use FirstOrder(), or dense layers"
        raise ArgumentError("expansion", "order 2", fix)

    @property
    def fan(self) -> tuple[int, int]:
        """Numbers that meet in one unit, and units that one number reaches: what initial weights are scaled by."""
        raise NotImplementedError

    @property
    def matrix_shape(self) -> tuple[int, int]:
        return len(self.weight), math.prod(self.weight.shape[1:]) + 1

    def matrix(self) -> Tensor:
        """Weights and bias as one matrix in double precision, the bias in the last column."""
        matrix = torch.empty(self.matrix_shape, dtype=torch.float64, device=self.weight.device)
        matrix[:, :-1] = self.weight.detach().flatten(1)
        matrix[:, -1] = self.bias.detach()
        return matrix

    def matrix_now(self) -> Callable[[], Tensor]:
        """:meth:`matrix` as it is now, made when it is asked for; an error if the weights have moved by then."""
        versions = self.weight._version, self.bias._version

        def made() -> Tensor:
            if (self.weight._version, self.bias._version) != versions:
                raise RuntimeError("the weights have moved since: ask for the matrix before they do")
            return self.matrix()

        return made

    @torch.no_grad()
    def write(self, matrix: Tensor) -> None:
        """Set weights and bias from a matrix as :meth:`matrix` gives it."""
        self.weight.copy_(matrix[:, :-1].reshape(self.weight.shape))
        self.bias.copy_(matrix[:, -1])

    def write_gradient(self, matrix: Tensor) -> None:
        """Set the gradients from such a matrix, for a torch optimiser."""
        self.weight.grad = torch.empty_like(self.weight).copy_(matrix[:, :-1].reshape(self.weight.shape))
        self.bias.grad = torch.empty_like(self.bias).copy_(matrix[:, -1])

    @torch.no_grad()
    def draw(self, source: NoiseSource) -> None:
        """Initial weights from N(0, 2 / (fan in + fan out)), biases 0."""
        deviation = math.sqrt(2.0 / sum(self.fan))
        self.weight.copy_(deviation * source.normal(self.weight.shape))
        self.bias.zero_()


def with_one(rows: Tensor) -> Tensor:
    """[x; 1]: inputs (..., d) with the constant that the bias multiplies."""
    return torch.cat([rows, torch.ones_like(rows[..., :1])], dim=-1)
