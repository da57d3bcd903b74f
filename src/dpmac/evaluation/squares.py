"""The mean of squares from 0 to 1, most of them tiny and a few perhaps not, from noisy sums: with an interval.

Released are the sums of the squares by shells of their size (:mod:`dpmac.methods.residuals`), and the sum of all
squares. The noise in an outer shell stands for large squares. An estimate may leave out shells that do not stand out of
their noise. An interval may not, unless one assumes that errors have a thin tail; those of prices have not. What may be
used is that no shell has less than nothing. So the interval holds every mean m whose nearest shells fit: with s_b and d
what was released, over the rows,

    f(m) = min { sum_b (s_b - t_b)^2 / noise_s^2 : t_b >= 0, sum_b w_b t_b = m } + (d - m)^2 / noise_d^2

is at most 1.96^2 above its least value (the profile likelihood). The nearest shells to a mean are max(0, s_b + k w_b)
for one k, which rises with the mean; so all is found by bisection over k.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmac.evaluation.intervals import Z
from dpmac.methods.residuals import EDGES, mean_square

WEIGHTS = np.array([edge**2 for edge in EDGES])
WITHIN = 2 / 3  # a mean fourth power over its shell's largest square: that of errors that are spread evenly over it
HALVINGS = 120
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Squares:
    """The mean that is likely, and the ends of its interval, which covers noise and sampling."""

    value: float
    low: float
    high: float


def mean_of_squares(shells: Array, noise: float, whole: float, whole_noise: float, n: int) -> Squares:
    """From the noisy sums of the shells and of all squares, over ``n`` rows; what the noise is as well."""
    fit = _Fit(shells, max(noise, 1e-12), whole, max(whole_noise, 1e-12))
    low, middle, high = fit.ends()
    value = min(max(mean_square(shells.tolist(), noise), low), high)
    fourth = WITHIN * float(WEIGHTS @ (WEIGHTS * fit.shells(fit.best)))
    chance = Z * math.sqrt(max(fourth - value**2, value**2) / n)
    return Squares(
        value,
        max(0.0, min(value, middle - math.hypot(middle - low, chance))),
        max(value, middle + math.hypot(high - middle, chance)),
    )


class _Fit:
    """Shells that are at least 0, as near as can be to what was released."""

    def __init__(self, found: Array, noise: float, whole: float, whole_noise: float) -> None:
        self.found, self.noise, self.whole, self.whole_noise = found, noise, whole, whole_noise
        self.least = float((-found / WEIGHTS).min())  # from here downwards there is nothing in any shell
        most = abs(self.whole) + 10.0 * whole_noise + float(WEIGHTS @ np.abs(found)) + 10.0 * noise
        self.most = most + float(np.abs(found).max())  # its mean is far beyond what was released
        slope = (self.noise / self.whole_noise) ** 2
        self.best = _first(lambda k: k >= slope * (self.whole - self.mean(k)), self.least, self.most)

    def shells(self, k: float) -> Array:
        return np.asarray((self.found + k * WEIGHTS).clip(0.0, None))

    def mean(self, k: float) -> float:
        return float(WEIGHTS @ self.shells(k))

    def misfit(self, k: float) -> float:
        shells = self.shells(k)
        off = (self.whole - float(WEIGHTS @ shells)) / self.whole_noise
        return float((((self.found - shells) / self.noise) ** 2).sum()) + off**2

    def ends(self) -> tuple[float, float, float]:
        """The lower end, the likeliest mean, and the upper end; of the noise alone."""
        enough = self.misfit(self.best) + Z**2
        low = _first(lambda k: self.misfit(k) <= enough, self.least, self.best)
        high = _first(lambda k: self.misfit(k) > enough, self.best, self.most)
        return self.mean(low), self.mean(self.best), self.mean(high)


def _first(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where something begins to hold that does not hold below: by bisection."""
    if holds(low):
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
