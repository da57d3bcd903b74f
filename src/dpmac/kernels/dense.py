"""Shares as they are: counts, indicators, scalars.

K1: norms are computed in double precision: at least (1 - (d + 32) u) times the true one, for d numbers. K2: sums in
double precision: for m rows off by at most m (m + 2) u scales, which ``parts.SLACK`` covers for two neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from dpmac.kernels.norms import row_norms, times


@dataclass(frozen=True)
class DensePart:
    """Share n is ``values[n]`` itself: counts, indicators, scalars."""

    values: Tensor  # (rows, ...)

    @property
    def rows(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape[1:])

    def norms(self) -> Tensor:
        return row_norms(self.values.double().reshape(self.rows, math.prod(self.shape)))

    single = False

    def doubled(self) -> DensePart:
        return self

    def scaled(self, factors: Tensor) -> DensePart:
        return DensePart(times(self.values, factors))

    def explicit(self) -> Tensor:
        return self.values.double()

    def total(self, spots_per_place: int = 1) -> Tensor:  # noqa: ARG002 - not in chunks
        return self.values.double().sum(dim=0)
