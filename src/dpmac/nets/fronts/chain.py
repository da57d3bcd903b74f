"""Fronts one behind the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError
from dpmac.nets.fronts.base import Front, Shape
from dpmac.nets.fronts.scaling import Affine, ToRange


class Chain(Front):
    """``fronts`` applied in order: the first to the raw rows."""

    kind = "chain"

    def __init__(self, fronts: tuple[Front, ...]) -> None:
        super().__init__()
        if not fronts or not all(isinstance(front, Front) for front in fronts):
            raise ArgumentError("fronts", fronts, "give at least one front")
        self.fronts = nn.ModuleList(fronts)

    @property
    def expensive(self) -> bool:  # type: ignore[override]
        return any(bool(front.expensive) for front in self.fronts)

    def forward(self, rows: Tensor) -> Tensor:
        for front in self.fronts:
            rows = front(rows)
        return rows

    def shape_after(self, shape: Shape) -> Shape:
        for front in self.fronts:
            assert isinstance(front, Front)
            shape = front.shape_after(shape)
        return shape

    def arguments(self) -> dict[str, Any]:
        return {"fronts": tuple(self.fronts)}

    @classmethod
    def sample(cls) -> tuple[Front, Shape]:
        return cls((Affine(torch.tensor([0.5, 0.0]), 3.0), ToRange(-1.0, 2.0))), (2,)
