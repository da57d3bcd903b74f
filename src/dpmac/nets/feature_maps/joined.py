"""Feature maps side by side."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError
from dpmac.nets.feature_maps.base import FeatureMap, Shape
from dpmac.nets.feature_maps.chain import fewest
from dpmac.nets.feature_maps.scaling import Affine, ToRange


class Joined(FeatureMap):
    """The features of all ``feature_maps``, each applied to the raw rows, flat and one behind the other."""

    kind = "joined"

    def __init__(self, feature_maps: tuple[FeatureMap, ...]) -> None:
        super().__init__()
        if not feature_maps or not all(isinstance(feature_map, FeatureMap) for feature_map in feature_maps):
            raise ArgumentError("feature_maps", feature_maps, "give at least one feature map")
        self.feature_maps = nn.ModuleList(feature_maps)

    @property
    def expensive(self) -> bool:  # type: ignore[override]
        return any(bool(feature_map.expensive) for feature_map in self.feature_maps)

    @property
    def few(self) -> int | None:  # type: ignore[override]
        return fewest(self.feature_maps)

    def forward(self, rows: Tensor) -> Tensor:
        return torch.cat([feature_map(rows).flatten(1) for feature_map in self.feature_maps], dim=1)

    def shape_after(self, shape: Shape) -> Shape:
        width = 0
        for feature_map in self.feature_maps:
            assert isinstance(feature_map, FeatureMap)
            width += math.prod(feature_map.shape_after(shape))
        return (width,)

    def arguments(self) -> dict[str, Any]:
        return {"feature_maps": tuple(self.feature_maps)}

    def notes(self) -> tuple[str, ...]:
        return tuple(note for feature_map in self.feature_maps for note in feature_map.notes())  # type: ignore[operator]

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        return cls((Affine(torch.tensor([0.5, 0.0]), 3.0), ToRange(-1.0, 2.0))), (2,)
