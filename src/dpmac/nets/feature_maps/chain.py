"""Feature maps one behind the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError
from dpmac.nets.feature_maps.base import FeatureMap, Shape
from dpmac.nets.feature_maps.scaling import Affine, ToRange


class Chain(FeatureMap):
    """``feature_maps`` applied in order: the first to the raw rows."""

    kind = "chain"

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
        """A few rows at a time, where a feature map asks for it; an exported program takes any number at once."""
        if self.few is None or torch.compiler.is_compiling():
            return self._mapped(rows)
        return torch.cat([self._mapped(some) for some in torch.split(rows, self.few)])

    def _mapped(self, rows: Tensor) -> Tensor:
        for feature_map in self.feature_maps:
            rows = feature_map(rows)
        return rows

    def shape_after(self, shape: Shape) -> Shape:
        for feature_map in self.feature_maps:
            assert isinstance(feature_map, FeatureMap)
            shape = feature_map.shape_after(shape)
        return shape

    def arguments(self) -> dict[str, Any]:
        return {"feature_maps": tuple(self.feature_maps)}

    def notes(self) -> tuple[str, ...]:
        return tuple(note for feature_map in self.feature_maps for note in feature_map.notes())  # type: ignore[operator]

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        return cls((Affine(torch.tensor([0.5, 0.0]), 3.0), ToRange(-1.0, 2.0))), (2,)


def fewest(feature_maps: Iterable[nn.Module]) -> int | None:
    """The rows that all of these feature maps are content to map at a time; None if none of them asks."""
    asked = [few for feature_map in feature_maps if (few := getattr(feature_map, "few", None)) is not None]
    return min(asked, default=None)


def first_of(feature_map: FeatureMap | None) -> FeatureMap | None:
    """The feature map that sees the raw rows: the first of a chain, or the feature map itself."""
    while isinstance(feature_map, Chain):
        first = feature_map.feature_maps[0]
        assert isinstance(first, FeatureMap)
        feature_map = first
    return feature_map
