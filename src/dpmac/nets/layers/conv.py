"""The convolution: a dense layer that serves every patch of an image. Its slopes in the weights are by unfolding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_input

from dpmac.checks import ArgumentError, integer
from dpmac.kernels.patches import patches
from dpmac.kernels.positions import position_part
from dpmac.nets.layers.base import Layer, Shape, WeightLayer
from dpmac.nets.layers.dense import filled
from dpmac.privacy.parts import Part

Pair = tuple[int, int]


def pair(name: str, value: int | tuple[int, int], low: int = 1) -> Pair:
    """Two whole numbers, from one or two."""
    values = value if isinstance(value, tuple | list) else (value, value)
    fix = f"give a whole number, at least {low}, or one for rows and one for columns"
    if len(values) != 2:
        raise ArgumentError(name, value, fix)
    return integer(name, values[0], fix, low=low), integer(name, values[1], fix, low=low)


def slid(name: str, shape: Shape, kernel: Pair, stride: Pair, padding: Pair) -> tuple[int, int]:
    """Height and width of what a window gives that slides over images (channels, height, width)."""
    if len(shape) != 3:
        fix = "images are (channels, height, width): give input_shape so, or use Unflatten((c, h, w)) before it"
        raise ArgumentError(name, shape, fix)
    sizes = [(n + 2 * p - k) // s + 1 for n, k, s, p in zip(shape[1:], kernel, stride, padding, strict=True)]
    if min(sizes) < 1:
        raise ArgumentError(name, shape, f"a window of {kernel[0]} x {kernel[1]} does not fit: make it smaller")
    return sizes[0], sizes[1]


class Conv2d(WeightLayer):
    """``units`` filters over images of ``channels``; ``stride`` and zero ``padding`` as in ``torch.nn.Conv2d``.

    Its part is a sum over positions (:func:`~dpmac.kernels.positions.position_part`), bounded and summed as any other.
    """

    kind = "conv2d"

    def __init__(
        self,
        channels: int,
        units: int,
        kernel_size: int | Pair,
        *,
        stride: int | Pair = 1,
        padding: int | Pair = 0,
    ) -> None:
        super().__init__()
        channels = integer("channels", channels, "give the number of input channels, at least 1")
        units = integer("units", units, "give the number of filters, at least 1")
        self.kernel_size = pair("kernel_size", kernel_size)
        self.stride, self.padding = pair("stride", stride), pair("padding", padding, low=0)
        self.weight = nn.Parameter(torch.zeros(units, channels, *self.kernel_size))
        self.bias = nn.Parameter(torch.zeros(units))

    def _columns(self, inputs: Tensor) -> Tensor:
        """Every position's patch as a column, with a 1 for the bias below it: (rows, d_in + 1, positions)."""
        (height, width), padded = self.padding, inputs
        if height or width:
            padded = F.pad(inputs, (width, width, height, height))
        return patches(padded, self.kernel_size, self.stride, (1, 1), one=True)

    def forward(self, inputs: Tensor) -> Tensor:
        return F.conv2d(inputs, self.weight, self.bias, self.stride, self.padding)

    def back(self, slopes: Tensor, inputs: Tensor) -> Tensor:
        shape = list(inputs.shape)
        found: Tensor = conv2d_input(shape, self.weight, slopes, self.stride, self.padding)  # type: ignore[no-untyped-call]
        return found

    def part(self, slopes: Tensor, inputs: Tensor) -> Part:
        return position_part(_by_position(slopes), self._columns(inputs).transpose(1, 2))

    @property
    def fan(self) -> tuple[int, int]:
        units, channels, height, width = self.weight.shape
        return channels * height * width, units * height * width

    def shape_after(self, shape: Shape) -> Shape:
        height, width = slid("inputs", shape, self.kernel_size, self.stride, self.padding)
        if shape[0] != self.weight.shape[1]:
            raise ArgumentError("inputs", shape, f"these filters need {self.weight.shape[1]} channels")
        return (len(self.weight), height, width)

    def config(self) -> dict[str, Any]:
        units, channels, *_ = self.weight.shape
        sizes = {name: list(getattr(self, name)) for name in ("kernel_size", "stride", "padding")}
        return {"channels": channels, "units": units, **sizes}

    def plain(self) -> nn.Module:
        units, channels, *_ = self.weight.shape
        return filled(nn.Conv2d(channels, units, self.kernel_size, self.stride, self.padding, device="meta"), self)

    @classmethod
    def sample(cls) -> tuple[Layer, Shape]:
        return cls(2, 3, (3, 2), stride=(2, 1), padding=1), (2, 5, 4)


def _by_position(images: Tensor) -> Tensor:
    """(rows, channels, height, width) to (rows, positions, channels)."""
    return images.flatten(2).transpose(1, 2)
