"""The dense layer: u = W x + b."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.checks import ArgumentError, integer
from dpmac.extensions.provenance import PUBLIC, mark
from dpmac.kernels.gram import GramPart
from dpmac.kernels.outer import OuterPart
from dpmac.nets.layers.base import Layer, Shape, WeightLayer, with_one


class Dense(WeightLayer):
    """``units`` weighted sums of ``inputs`` numbers. Its part is of rank one: two vectors an example."""

    kind = "dense"

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        fix = "every layer needs a whole number of units, at least 1"
        inputs, units = integer("inputs", inputs, fix), integer("units", units, fix)
        self.weight = nn.Parameter(torch.zeros(units, inputs))
        self.bias = nn.Parameter(torch.zeros(units))

    @property
    def in_features(self) -> int:
        return self.weight.shape[1]

    @property
    def out_features(self) -> int:
        return self.weight.shape[0]

    def forward(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs, self.weight, self.bias)

    def back(self, slopes: Tensor, inputs: Tensor) -> Tensor:  # noqa: ARG002 - linear
        return slopes @ self.weight

    def part(self, slopes: Tensor, inputs: Tensor) -> OuterPart:
        return OuterPart(slopes, inputs, one=True)

    def curvature_part(self, bends: Tensor, inputs: Tensor) -> GramPart:
        return GramPart(bends, with_one(inputs))

    @property
    def fan(self) -> tuple[int, int]:
        return self.in_features, self.out_features

    def shape_after(self, shape: Shape) -> Shape:
        if shape != (self.in_features,):
            fix = f"a dense layer of {self.in_features} inputs needs rows of that many numbers: use Flatten() before it"
            raise ArgumentError("inputs", shape, fix)
        return (self.out_features,)

    def config(self) -> dict[str, Any]:
        return {"inputs": self.in_features, "units": self.out_features}

    def plain(self) -> nn.Module:
        return filled(nn.Linear(self.in_features, self.out_features, device="meta"), self)

    @classmethod
    def sample(cls) -> tuple[Layer, Shape]:
        return cls(3, 4), (3,)


def filled(module: nn.Module, layer: Layer, weights: dict[str, Tensor] | None = None) -> nn.Module:
    """A module made on the device "meta" (torch's own initial draw is skipped) with a copy of the layer's weights, or
    with other ``weights`` that follow from them, and with the layer's origin."""
    if weights is None:
        weights = layer.state_dict()
    copies = {name: value.detach().to("cpu", copy=True) for name, value in weights.items()}
    module.load_state_dict(copies, assign=True)  # not into memory like that of "meta": torch computes it with sympy
    if layer.origin != PUBLIC:
        mark(module, layer.origin)
    return module
