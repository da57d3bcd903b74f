"""Privacy loss distributions for searches: as dp-accounting makes and composes them, up to rounding, in a third of the
time.

K5 is not owed here, but by :mod:`dpmac.kernels.loss_distributions`, which uses this for searches only: no reported
number, and no check of a calibration, relies on it. A mistake makes a search slow, or its answer refused. The curves
that an audit holds attackers to (:mod:`dpmac.audit.curves`) are computed here too, and tests hold them to
dp-accounting's, to 1e-11 for each release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
TAIL = 1e-15  # the default of dp-accounting: mass that a composition may move to an infinite loss
ORDERS = 20  # of the moments that bound a composition's support, to either side, as dp-accounting's


@dataclass(frozen=True)
class OneWay:
    """The losses (lowest, lowest + 1, ...) * interval with their masses, and the mass of an infinite loss.

    Rounding may leave masses a little below 0.
    """

    interval: float
    lowest: int
    masses: Array
    infinite: float

    def times(self, count: int, tail: float) -> OneWay:
        """Composed ``count`` times, without what lies beyond Chernoff's bounds for ``tail``."""
        from scipy import fft

        size = len(self.masses)
        low, high = self._support(count, tail)
        length = fft.next_fast_len(max(high - low + 1, size), real=True)
        found = fft.irfft(fft.rfft(self.masses, length) ** count, length)
        infinite = tail - math.expm1(count * math.log1p(-self.infinite))
        return OneWay(self.interval, self.lowest * count + low, np.roll(found, -low)[: high - low + 1], infinite)

    def _support(self, count: int, tail: float) -> tuple[int, int]:
        size = len(self.masses)
        low, high = 0, (size - 1) * count
        step = np.exp(np.arange(size) / size)
        above, below = self.masses, self.masses
        for order in range(1, ORDERS + 1):
            above, below = above * step, below / step
            upper, lower = (math.log(max(float(some.sum()), 1e-300)) for some in (above, below))
            cut = math.log(2 / tail)
            high = min(high, math.ceil((count * upper + cut) * size / order))
            low = max(low, math.floor(-(count * lower + cut) * size / order))
        return low, high

    def beside(self, other: OneWay) -> OneWay:
        """Composed with another one, without next to nothing of either tail."""
        from scipy.signal import fftconvolve

        masses = fftconvolve(self.masses, other.masses)
        first = int(np.argmax(np.cumsum(masses) > TAIL / 2))
        last = len(masses) - int(np.argmax(np.cumsum(masses[::-1]) > TAIL / 2))
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        return OneWay(self.interval, self.lowest + other.lowest + first, masses[first:last], infinite)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon with this delta: the losses are counted from the largest to the first that is below."""
        if self.infinite > delta:
            return math.inf
        losses = (self.lowest + np.arange(len(self.masses)))[::-1] * self.interval
        masses = self.masses[::-1]
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            upper = self.infinite + np.concatenate([[0.0], np.cumsum(masses)]) - delta
            lower = np.concatenate([[0.0], np.cumsum(np.exp(-losses) * masses)])
            found = np.log(upper / lower)  # if all losses from here on are at most that
            place = int(np.argmax(np.append((upper[:-1] > 0) & (found[:-1] >= losses), True)))
        if not upper[place] > lower[place]:
            return 0.0
        return float(min(found[place], losses[0]))

    def deltas(self, epsilons: Array) -> Array:
        """The privacy curve: at every epsilon, what the losses above it are expected to exceed it by."""
        losses = (self.lowest + np.arange(len(self.masses))) * self.interval
        places = np.searchsorted(losses, epsilons, side="right")
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            upper, lower = (
                np.append(np.cumsum(some[::-1])[::-1], 0.0) for some in (self.masses, np.exp(-losses) * self.masses)
            )
            found = self.infinite + upper[places] - np.exp(epsilons) * lower[places]
        return np.asarray(np.clip(found, 0.0, 1.0))


@dataclass(frozen=True)
class QuickLosses:
    """What dp-accounting's ``PrivacyLossDistribution`` is: one distribution if a row is removed, one if added."""

    ways: Sequence[OneWay]

    def self_compose(self, count: int, tail_mass_truncation: float = TAIL) -> QuickLosses:
        return QuickLosses([way.times(count, tail_mass_truncation) for way in self.ways])

    def compose(self, other: QuickLosses) -> QuickLosses:
        return QuickLosses([one.beside(another) for one, another in zip(self.ways, other.ways, strict=True)])

    def get_epsilon_for_delta(self, delta: float) -> float:
        return max(way.epsilon(delta) for way in self.ways)

    def get_delta_for_epsilon(self, epsilons: Array) -> Array:
        return np.maximum(*(way.deltas(epsilons) for way in self.ways))


def quick_step(sigma: float, value_discretization_interval: float, sampling_prob: float) -> QuickLosses:
    """What ``from_gaussian_mechanism`` gives, vectorised."""
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    ways = []
    for adjacency in (AdjacencyType.REMOVE, AdjacencyType.ADD):
        ends = GaussianPrivacyLoss(sigma, sampling_prob=sampling_prob, adjacency_type=adjacency).connect_dots_bounds()
        low = math.floor(ends.epsilon_lower / value_discretization_interval)
        high = math.ceil(ends.epsilon_upper / value_discretization_interval)
        epsilons = np.arange(low, high + 1) * value_discretization_interval
        deltas = _deltas(sigma, sampling_prob, epsilons, adjacency == AdjacencyType.REMOVE)
        ways.append(OneWay(value_discretization_interval, low, *_connected(deltas, value_discretization_interval)))
    return QuickLosses(ways)


def _deltas(sigma: float, q: float, epsilons: Array, removal: bool) -> Array:
    """The privacy curve of one sampled Gaussian release."""
    from scipy.special import log_ndtr, ndtr

    sign = 1.0 if removal else -1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        plain = sign * np.log1p(np.maximum(np.expm1(sign * epsilons) / q, -1.0))  # the loss without sampling
        plain = np.where(sign * epsilons > 50, epsilons - sign * math.log(q), plain)
        x = -sign * 0.5 - plain * sigma**2  # outcomes below this point have at least that loss
        mixed = (1 - q) * ndtr(x / sigma) + q * ndtr((x + sign) / sigma)
        if removal:
            deltas = mixed - np.exp(epsilons + log_ndtr(x / sigma))
        else:
            deltas = ndtr(x / sigma) - np.exp(epsilons + np.log(mixed))
    return np.asarray(np.minimum.accumulate(np.clip(np.nan_to_num(deltas, nan=0.0), 0.0, 1.0)))


def _connected(deltas: Array, interval: float) -> tuple[Array, float]:
    """The masses of the distribution whose privacy curve has the chords of ``deltas``, and that of an infinite loss."""
    falls = np.diff(deltas, prepend=1.0, append=deltas[-1:])
    masses = (falls[1:] - math.exp(interval) * falls[:-1]) / math.expm1(interval)
    masses[0] = -falls[0] + falls[1] / math.expm1(interval)
    return np.maximum(masses, 0.0), float(deltas[-1])
