"""A hidden layer beside its own inputs: the layer above sees both, so that a network has a linear model in it.

What a table's columns say one by one is learnt by the linear path, which needs little signal; what they say together by
the hidden units. The pair is a stack like any other: ``Beside(d, h), ReLUBeyond(d, h), Dense(d + h, outputs)``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.checks import ArgumentError, integer
from dpmac.kernels.outer import OuterPart
from dpmac.nets.layers.base import Layer, Shape, WeightLayer
from dpmac.nets.layers.dense import filled

_FIX = "give whole numbers of inputs and units, each at least 1"


class Beside(WeightLayer):
    """The inputs as they are, then ``units`` weighted sums of them: [x; W x + b]. Only the sums have weights."""

    kind = "beside"

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        inputs, units = integer("inputs", inputs, _FIX), integer("units", units, _FIX)
        self.weight = nn.Parameter(torch.zeros(units, inputs))
        self.bias = nn.Parameter(torch.zeros(units))

    @property
    def inputs(self) -> int:
        return self.weight.shape[1]

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat([inputs, F.linear(inputs, self.weight, self.bias)], dim=1)

    def back(self, slopes: Tensor, inputs: Tensor) -> Tensor:  # noqa: ARG002 - linear
        return slopes[:, : self.inputs] + slopes[:, self.inputs :] @ self.weight

    def part(self, slopes: Tensor, inputs: Tensor) -> OuterPart:
        """Slopes in the sums alone will do: no weight reaches the inputs."""
        return OuterPart(slopes[:, -len(self.weight) :].contiguous(), inputs, one=True)

    def rectified(self, inputs: Tensor) -> Tensor:
        """What :class:`ReLUBeyond` makes of the outputs, which are not made: [x; relu(W x + b)], bit for bit."""
        return torch.cat([inputs, F.linear(inputs, self.weight, self.bias).relu_()], dim=1)

    @property
    def fan(self) -> tuple[int, int]:
        return self.inputs, len(self.weight)

    def shape_after(self, shape: Shape) -> Shape:
        if shape != (self.inputs,):
            fix = f"a hidden layer beside {self.inputs} inputs needs rows of that many numbers"
            raise ArgumentError("inputs", shape, fix)
        return (self.inputs + len(self.weight),)

    def config(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "units": len(self.weight)}

    def plain(self) -> nn.Module:
        """One linear layer, whose first rows are those of the identity."""
        made = nn.Linear(self.inputs, self.inputs + len(self.weight), device="meta")
        same = torch.eye(self.inputs, dtype=self.weight.dtype, device=self.weight.device)
        weight = torch.cat([same, self.weight.detach()])
        bias = torch.cat([self.bias.new_zeros(self.inputs), self.bias.detach()])
        return filled(made, self, {"weight": weight, "bias": bias})

    @classmethod
    def sample(cls) -> tuple[Layer, Shape]:
        return cls(3, 2), (3,)


class ReLUBeyond(Layer):
    """The first ``inputs`` numbers as they are, and the positive part of the ``units`` behind them."""

    kind = "relu-beyond"
    weight: Tensor

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.inputs, self.units = integer("inputs", inputs, _FIX), integer("units", units, _FIX)
        # the slopes below 0, under the name that torch's PReLU has for them
        self.register_buffer("weight", torch.cat([torch.ones(self.inputs), torch.zeros(self.units)]))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat([inputs[:, : self.inputs], torch.relu(inputs[:, self.inputs :])], dim=1)

    def back(self, slopes: Tensor, inputs: Tensor) -> Tensor:
        active = (inputs[:, self.inputs :] > 0).to(slopes.dtype)
        return torch.cat([slopes[:, : self.inputs], slopes[:, self.inputs :] * active], dim=1)

    def shape_after(self, shape: Shape) -> Shape:
        if shape != (self.inputs + self.units,):
            fix = f"it stands behind Beside({self.inputs}, {self.units})"
            raise ArgumentError("inputs", shape, fix)
        return shape

    def config(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "units": self.units}

    def plain(self) -> nn.Module:
        return filled(nn.PReLU(self.inputs + self.units, device="meta"), self)

    @classmethod
    def sample(cls) -> tuple[Layer, Shape]:
        return cls(3, 2), (5,)
