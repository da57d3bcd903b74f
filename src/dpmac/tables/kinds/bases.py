"""The points of a column by which an additive model's term is known: knots on a line, values of a list.

A term is a function of one column. Between the knots of a number it is linear, so its values at the knots say all of
it; of a category its values are all there is. A :class:`Basis` gives every cell its weights over the points, zero or
more and 1 in sum where the cell is there; the term is the weighted sum of the points' values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Basis(ABC):
    """Points of a column: what they are called, and ``at``, the column's own inputs there (points, inputs).

    Several bases of one column (a date's days and months) have the column's inputs between them, in order; their sum is
    the term. ``name`` is "" but for further ones.
    """

    labels: tuple[str, ...]
    at: Tensor
    name: str = field(default="", kw_only=True)

    @abstractmethod
    def weights(self, value: Tensor, there: Tensor) -> Tensor:
        """The weights (n, points) of codes (n, code_width), zeros where ``there`` is False. Torch alone, exportable."""

    @property
    def places(self) -> Tensor | None:
        """The codes of the points on a line; None of points that lie on none."""
        return None

    @property
    def listed(self) -> int:
        """The first so many points are public values; behind them is "other"."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Knots(Basis):
    """Knots on a line, ascending: weights are those of linear interpolation, and of the end beyond an end."""

    knots: Tensor

    def weights(self, value: Tensor, there: Tensor) -> Tensor:
        knots = self.knots.to(value.device)
        if len(knots) == 1:
            return there.to(value.dtype)
        part = ((value.clamp(knots[0], knots[-1]) - knots[:-1]) / (knots[1:] - knots[:-1])).clamp(0.0, 1.0)
        one, nothing = torch.ones_like(value), torch.zeros_like(value)
        risen, begun = torch.cat([one, part], dim=1), torch.cat([part, nothing], dim=1)
        return torch.where(there, risen - begun, torch.zeros_like(risen))

    @property
    def places(self) -> Tensor:
        return self.knots


@dataclass(frozen=True, eq=False)
class Levels(Basis):
    """Values of a list: a cell has weight 1 at its own. ``place`` finds it by the code; what is none is the last."""

    place: Callable[[Tensor], Tensor]
    others: int = 0  # 1 if the last point is for any other value

    def weights(self, value: Tensor, there: Tensor) -> Tensor:
        points = torch.arange(len(self.labels), dtype=value.dtype, device=value.device)
        return ((self.place(value) == points) & there).to(value.dtype)

    @property
    def listed(self) -> int:
        return len(self.labels) - self.others


@dataclass(frozen=True, eq=False)
class Own(Basis):
    """A column's own inputs, of which no points tell all: the term is linear in them. ``encoded`` makes them."""

    encoded: Callable[[Tensor, Tensor], Tensor]

    def weights(self, value: Tensor, there: Tensor) -> Tensor:
        return self.encoded(value, there)

    @property
    def listed(self) -> int:
        return 0


def eye(points: int) -> Tensor:
    """The inputs of values that are one-hot codes."""
    return torch.eye(points, dtype=torch.float64)
