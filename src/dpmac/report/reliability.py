"""What predicted probabilities are worth: of the rows given 30 %, do 30 % turn out so?

The rows must be public, or the answer is outside any guarantee: these are plain sums over rows, without noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmac.checks import ArgumentError, integer


@dataclass(frozen=True)
class Bin:
    """The ``rows`` with a probability from ``low`` to ``high``: the mean of it, and the part that turned out so."""

    low: float
    high: float
    rows: int
    predicted: float
    observed: float

    @property
    def chance(self) -> float:
        """The standard deviation of ``observed`` if the predictions were right."""
        return math.sqrt(self.predicted * (1 - self.predicted) / self.rows)


@dataclass(frozen=True)
class Reliability:
    """Bins of equal width from the lowest to the highest; those without rows are left out."""

    bins: tuple[Bin, ...]

    @property
    def error(self) -> float:
        """The calibration error: how far observed is from predicted, the mean over rows."""
        return self._mean([abs(b.observed - b.predicted) for b in self.bins])

    @property
    def error_by_chance(self) -> float:
        """The calibration error to expect of predictions that are right, since rows are few: sqrt(2 / pi) deviations.

        An approximation: the expected size of a normal deviation in each bin.
        """
        return math.sqrt(2 / math.pi) * self._mean([b.chance for b in self.bins])

    def _mean(self, values: list[float]) -> float:
        rows = [b.rows for b in self.bins]
        return sum(n * value for n, value in zip(rows, values, strict=True)) / sum(rows)


def reliability(happened: Any, probabilities: Any, bins: int = 10) -> Reliability:
    """Predicted against observed, for one yes-or-no outcome of each row; ``happened`` is true where it came about.

    A probability on the border of two bins counts to the upper one, 1 to the last.
    """
    integer("bins", bins, "give a number of bins from 1 to 1000", high=1000)
    came = np.asarray(happened)
    p = np.asarray(probabilities, dtype=np.float64)
    if came.ndim != 1 or p.shape != came.shape or not len(p):
        raise ArgumentError("probabilities", f"shape {p.shape}", f"give one for each of {came.shape} outcomes")
    if not ((p >= 0) & (p <= 1)).all():
        raise ArgumentError("probabilities", "outside 0 to 1", "give probabilities of the outcome")
    came = came.astype(bool)
    edges = np.linspace(0, 1, bins + 1)
    place = np.searchsorted(edges[1:-1], p, side="right")
    found = [(k, place == k) for k in range(bins)]
    return Reliability(
        tuple(
            Bin(float(edges[k]), float(edges[k + 1]), int(rows.sum()), float(p[rows].mean()), float(came[rows].mean()))
            for k, rows in found
            if rows.any()
        )
    )
