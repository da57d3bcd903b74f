"""Feature maps that scale features by public constants."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.nets.feature_maps.base import FeatureMap, Shape, check_width


class ToRange(FeatureMap):
    """Features from their public range to [-1, 1]; what lies outside is clipped. One range, or one for each feature."""

    kind = "to-range"
    expensive = True  # a pass in double precision over every batch took longer than the products of a small network
    low: Tensor
    high: Tensor

    def __init__(self, low: float | Tensor, high: float | Tensor) -> None:
        super().__init__()
        self.constant("low", low)
        self.constant("high", high)
        if self.low.dim() > 1 or self.high.dim() > 1 or not bool((self.low < self.high).all()):
            raise ArgumentError("low, high", (low, high), "give public, finite bounds with low < high")

    def forward(self, rows: Tensor) -> Tensor:
        return torch.clamp(2 * (rows.double() - self.low) / (self.high - self.low) - 1, -1, 1)

    def shape_after(self, shape: Shape) -> Shape:
        check_width(self, self.low, shape)
        check_width(self, self.high, shape)
        return shape

    def arguments(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        return cls(-1.0, torch.tensor([1.0, 2.0, 3.0])), (3,)


class Affine(FeatureMap):
    """(rows - centre) * scale, with public numbers or one of each for every feature. Nothing is clipped."""

    kind = "affine"
    expensive = True
    centre: Tensor
    scale: Tensor

    def __init__(self, centre: float | Tensor = 0.0, scale: float | Tensor = 1.0) -> None:
        super().__init__()
        self.constant("centre", centre)
        self.constant("scale", scale)
        if self.centre.dim() > 1 or self.scale.dim() > 1:
            raise ArgumentError("centre, scale", (centre, scale), "give a public number, or one for each feature")

    def forward(self, rows: Tensor) -> Tensor:
        return (rows.double() - self.centre) * self.scale

    def inverse(self, inputs: Tensor) -> Tensor:
        """Raw rows from the network's inputs."""
        return inputs / self.scale + self.centre

    def shape_after(self, shape: Shape) -> Shape:
        for numbers in (self.centre, self.scale):
            if numbers.dim():  # one number for all features suits images too
                check_width(self, numbers, shape)
        return shape

    def arguments(self) -> dict[str, Any]:
        return {"centre": self.centre, "scale": self.scale}

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        return cls(torch.tensor([0.5, 0.0]), 3.0), (2,)
