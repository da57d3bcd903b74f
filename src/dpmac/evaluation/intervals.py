"""Intervals for what was computed from noisy counts: they cover the noise of the release and the chance of sampling.

The parametric bootstrap: tables of n rows are drawn with about the shares that were found, released with the same noise
and scored in the same way, all of it from public numbers. A figure is off by as much here as it is there. The figures
of unbiased counts are close to unbiased themselves, so the interval is symmetric about what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from dpmac.randomness import NoiseSource, SeededNoise

Array = np.ndarray[Any, Any]
DRAWS = 400
LEVEL = 0.95
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)


@dataclass(frozen=True)
class Figure:
    """A score with its interval of 95 %."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


def of_rates(found: float, simulated: Array) -> Figure:
    """A rate from 0 to 1, given the same of simulated releases."""
    known = simulated[np.isfinite(simulated)]
    return of_mean(found, float(np.std(known, ddof=1)))


def of_mean(mean: float, deviation: float, low: float = 0.0, high: float = 1.0) -> Figure:
    """A mean with a normal error, which is known to lie from ``low`` to ``high``."""
    ends = (mean, mean - Z * deviation, mean + Z * deviation)
    value, below, above = (float(min(max(one, low), high)) for one in ends)
    return Figure(value, below, above)


def simulated(shares: Array, n: int, again: Callable[[Array, NoiseSource], Array]) -> Array:
    """What ``again`` releases of the exact cells of tables of ``n`` rows that are drawn with these shares.

    The counts are normal, with the variances and covariances of a multinomial distribution. The draws are seeded: they
    only decide the last digits, and whoever reads the release sees the same interval.
    """
    source = SeededNoise(0, "/intervals")
    p = shares.reshape(-1) / shares.sum()
    drawn = np.sqrt(p) * source.normal((DRAWS, p.size)).numpy()
    tables = n * p + math.sqrt(n) * (drawn - p * drawn.sum(axis=1, keepdims=True))
    return again(tables.reshape(DRAWS, *shares.shape), source)
