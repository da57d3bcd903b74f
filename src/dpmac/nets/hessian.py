"""The square root of a loss's Hessian in the pre-activation, kept as two vectors an example."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class HessianRoot:
    """A = diag(scale) (I - unit unit^T) per example, with A A^T the Hessian. Never built: two vectors."""

    scale: Tensor  # (rows, units)
    unit: Tensor | None = None  # (rows, units), of norm 1; None for 0, where the Hessian is diagonal

    def times(self, w: Tensor) -> Tensor:
        """A w, row by row."""
        if self.unit is not None:
            w = w - self.unit * (self.unit * w).sum(dim=1, keepdim=True)
        return self.scale * w

    def transposed(self, rows: Tensor) -> Tensor:
        """A^T applied to every row of each example's matrix: (rows, m, units) to (rows, m, units)."""
        scaled = rows * self.scale.unsqueeze(1)
        if self.unit is None:
            return scaled
        unit = self.unit.unsqueeze(1)
        return scaled - unit * (scaled * unit).sum(dim=2, keepdim=True)
