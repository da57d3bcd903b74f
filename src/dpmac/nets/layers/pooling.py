"""Layers without weights: pooling, flattening, and its inverse. They carry coordinates between weight layers."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.checks import ArgumentError, integer
from dpmac.nets.layers.base import Layer, Shape
from dpmac.nets.layers.conv import Pair, pair, slid


class _Pool(Layer):
    """A window that slides over every channel by itself."""

    def __init__(self, kernel_size: int | Pair, stride: int | Pair | None = None) -> None:
        super().__init__()
        self.kernel_size = pair("kernel_size", kernel_size)
        if stride is None:
            self.stride = self.kernel_size
        else:
            self.stride = pair("stride", stride)

    def shape_after(self, shape: Shape) -> Shape:
        return (*shape[:1], *slid("inputs", shape, self.kernel_size, self.stride, (0, 0)))

    def config(self) -> dict[str, Any]:
        return {"kernel_size": list(self.kernel_size), "stride": list(self.stride)}

    @classmethod
    def sample(cls) -> tuple[Layer, Shape]:
        return cls((2, 3), stride=(1, 2)), (2, 4, 5)


class AvgPool2d(_Pool):
    """The mean of every window."""

    kind = "avgpool2d"

    def forward(self, inputs: Tensor) -> Tensor:
        return F.avg_pool2d(inputs, self.kernel_size, self.stride)

    def back(self, slopes: Tensor, inputs: Tensor) -> Tensor:
        rows, channels, *size = inputs.shape
        count = math.prod(self.kernel_size)
        each = (slopes / count).reshape(rows * channels, 1, math.prod(slopes.shape[2:])).expand(-1, count, -1)
        return F.fold(each, (size[0], size[1]), self.kernel_size, stride=self.stride).reshape(inputs.shape)

    def plain(self) -> nn.Module:
        return nn.AvgPool2d(self.kernel_size, self.stride)


class MaxPool2d(_Pool):
    """The largest of every window; of equal ones torch's choice, by their places in the row's own image."""

    kind = "maxpool2d"

    def forward(self, inputs: Tensor) -> Tensor:
        return F.max_pool2d(inputs, self.kernel_size, self.stride)

    def back(self, slopes: Tensor, inputs: Tensor) -> Tensor:
        _, places = F.max_pool2d(inputs, self.kernel_size, self.stride, return_indices=True)
        flat = inputs.new_zeros(inputs.flatten(2).shape, dtype=slopes.dtype)
        return flat.scatter_add_(2, places.flatten(2), slopes.flatten(2)).reshape(inputs.shape)

    def plain(self) -> nn.Module:
        return nn.MaxPool2d(self.kernel_size, self.stride)


class Flatten(Layer):
    """All numbers of an example in one row, channels first."""

    kind = "flatten"

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.flatten(1)

    def back(self, slopes: Tensor, inputs: Tensor) -> Tensor:
        return slopes.reshape(inputs.shape)

    def shape_after(self, shape: Shape) -> Shape:
        return (math.prod(shape),)

    def config(self) -> dict[str, Any]:
        return {}

    def plain(self) -> nn.Module:
        return nn.Flatten()

    @classmethod
    def sample(cls) -> tuple[Layer, Shape]:
        return cls(), (2, 3, 2)


class Unflatten(Layer):
    """A row of numbers as an image (channels, height, width), or any other shape."""

    kind = "unflatten"

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = tuple(integer("shape", size, "give whole numbers, at least 1") for size in shape)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.reshape(len(inputs), *self.shape)

    def back(self, slopes: Tensor, inputs: Tensor) -> Tensor:
        return slopes.reshape(inputs.shape)

    def shape_after(self, shape: Shape) -> Shape:
        if len(shape) != 1 or shape[0] != math.prod(self.shape):
            raise ArgumentError("inputs", shape, f"it takes rows of {math.prod(self.shape)} numbers")
        return self.shape

    def config(self) -> dict[str, Any]:
        return {"shape": list(self.shape)}

    def plain(self) -> nn.Module:
        return nn.Unflatten(1, self.shape)

    @classmethod
    def sample(cls) -> tuple[Layer, Shape]:
        return cls((2, 3, 1)), (6,)
