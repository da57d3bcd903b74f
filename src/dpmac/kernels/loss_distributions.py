"""The loss distribution of a list of mechanisms, by dp-accounting, on a grid that stays small.

K5: an account is never below the true cost.

Three things keep it quick, and each leaves an upper bound:

- *Plain Gaussian releases are one.* Those of multipliers s_1, s_2, ... on all rows are together exactly as private as
  one of multiplier (sum 1 / s_i^2)^(-1/2). Where nothing else was released, dp-accounting has the curve in
  closed form.
- *The grid's interval follows the mechanisms.* dp-accounting's default of 1e-4 stands wherever it is cheap and fine
  enough. Elsewhere the interval is a whole multiple of it, or a whole part; or the finest that is within reach, where
  none would be fine enough. A loss between two grid points is split between them so that the curve becomes its chord,
  which lies above it: every interval gives an upper bound, and a multiple one that is never below the default's.
- *Many steps are composed twice over*, the sqrt(T)-fold of the sqrt(T)-fold. The library's bounds on where a composed
  loss can lie are far too wide for a million of very small ones at once.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dpmac.privacy.accounting import Mechanism

DEFAULT_INTERVAL = 1e-4  # dp-accounting's own
FAR = 10.0  # standard deviations: dp-accounting cuts a Gaussian's tails off just before
TAIL = 1e-15  # dp-accounting's: the mass that a composition may move to an infinite loss
KEEP = 3.0  # the default interval stands, where it takes no more than so many times the points that are meant
MANY = 10_000  # above so many steps, a composition of compositions


@dataclass(frozen=True)
class Effort:
    """How fine a grid may be: points of one step's loss, points of the composed loss, and what coarseness may add.

    Splitting a loss between the ends of an interval h adds at most h^2 / 4 to its variance, and h^2 / 6 if it is
    anywhere in between; ``excess`` is what all steps together may add, relative to the variance that is there. The
    relative change of epsilon is about half of that. Where ten times that would be added, up to ``more`` times the
    points are spent on one step, and twice as many on all.
    """

    single: int
    composed: int
    excess: float
    more: float = 1.0
    quick: bool = False


FULL = Effort(16_000, 120_000, 5e-4, more=4.0)  # for figures: a tenth of a second, half of one where it takes more
QUICK = replace(FULL, quick=True)  # the same grids, for a search
MEDIUM = Effort(16_000, 60_000, 1e-3, quick=True)  # to find where to search
ROUGH = Effort(4_000, 30_000, 2e-3, quick=True)  # and where to search for that


def one_gaussian(mechanisms: Sequence[Mechanism], unsampled: bool = False) -> float:
    """The multiplier of the single Gaussian release that equals all plain ones together; infinity if there are none.

    ``unsampled`` takes the sampled ones for plain as well, which they cost less than (a hockey-stick divergence is
    convex, so one of mixtures is at most the mixture of them).
    """
    plain = [m for m in mechanisms if m.count and (unsampled or m.sample_rate == 1.0)]
    if not plain:
        return math.inf
    if len(plain) == 1 and plain[0].count == 1:
        return plain[0].noise_multiplier
    # a hair less noise than the sum says, so that its rounding is on the safe side
    return (1.0 - 1e-15) / math.sqrt(math.fsum(m.count / m.noise_multiplier**2 for m in plain))


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """The epsilon of one plain Gaussian release, by dp-accounting's closed form; its search's error is added on top."""
    from dp_accounting import gaussian_mechanism

    with np.errstate(divide="ignore"):  # a delta of 0 has a logarithm there
        epsilon = float(gaussian_mechanism.get_epsilon_gaussian(sigma, delta))
    return epsilon + 4e-12 + 1e-12 * epsilon if epsilon else 0.0


def composed(mechanisms: Sequence[Mechanism], effort: Effort = FULL) -> Any:
    """dp-accounting's privacy loss distribution of all ``mechanisms`` (each with noise), rounded upwards.

    The last ones are kept, for whoever asks for the epsilon at many deltas.
    """
    return _composed(tuple(mechanisms), effort)


@functools.lru_cache(maxsize=4)
def _composed(mechanisms: tuple[Mechanism, ...], effort: Effort) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as library

    h = interval(mechanisms, effort)
    whole = library.identity(value_discretization_interval=h)
    plain = one_gaussian(mechanisms)
    if math.isfinite(plain):
        whole = whole.compose(library.from_gaussian_mechanism(plain, value_discretization_interval=h))
    one_step = _quick_step if effort.quick else _full_step
    for m in mechanisms:
        if m.sample_rate < 1.0 and m.count:
            step = one_step(m.noise_multiplier, value_discretization_interval=h, sampling_prob=m.sample_rate)
            one = _Step.of(m.noise_multiplier, m.sample_rate)
            # the library first raises the number of points to that of steps, if there are few (a thousand) points
            twice = one.twice(m.count) or (m.count > MANY and one.width < 1500 * h)
            whole = whole.compose(_times(step, m.count, twice))
    return whole


@functools.lru_cache(maxsize=8)
def _full_step(sigma: float, value_discretization_interval: float, sampling_prob: float) -> Any:
    """dp-accounting's own ``from_gaussian_mechanism``, whose last answers are kept.

    A report asks for the epsilon after 1, 2, 3, ... equal steps. The step is the same each time, and making it takes
    longer than composing it. Composing a distribution makes a new one and leaves it as it was.
    """
    from dp_accounting.pld import privacy_loss_distribution as library

    return library.from_gaussian_mechanism(
        sigma, value_discretization_interval=value_discretization_interval, sampling_prob=sampling_prob
    )


def _quick_step(sigma: float, value_discretization_interval: float, sampling_prob: float) -> Any:
    """What ``from_gaussian_mechanism`` gives, but for rounding, in a tenth of the time: that goes point by point.

    For searches only. No figure that is reported, and no check of a calibration, rests on it.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution, privacy_loss_mechanism
    from scipy.special import log_ndtr, ndtr

    h, q = value_discretization_interval, sampling_prob

    def one_way(adjacency: Any) -> Any:
        goes = adjacency == privacy_loss_mechanism.AdjacencyType.REMOVE
        ends = privacy_loss_mechanism.GaussianPrivacyLoss(
            sigma, sampling_prob=q, adjacency_type=adjacency
        ).connect_dots_bounds()
        low, high = math.floor(ends.epsilon_lower / h), math.ceil(ends.epsilon_upper / h)
        epsilons = np.arange(low, high + 1) * h
        sign = 1.0 if goes else -1.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            plain = sign * np.log1p(np.maximum(np.expm1(sign * epsilons) / q, -1.0))  # the loss if all were sampled
            plain = np.where(sign * epsilons > 50, epsilons - sign * math.log(q), plain)
            x = -sign * 0.5 - plain * sigma**2  # the outcomes of that loss, and of any higher one, end here
            mixed = (1 - q) * ndtr(x / sigma) + q * ndtr((x + sign) / sigma)
            alone = ndtr(x / sigma)
            lower = log_ndtr(x / sigma) if goes else np.log(mixed)
            deltas = (mixed if goes else alone) - np.exp(epsilons + lower)
        deltas = np.minimum.accumulate(np.clip(np.nan_to_num(deltas, nan=0.0), 0.0, 1.0))
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(h, low, high, deltas)

    ways = privacy_loss_mechanism.AdjacencyType
    return privacy_loss_distribution.PrivacyLossDistribution(one_way(ways.REMOVE), one_way(ways.ADD))


def _times(step: Any, count: int, twice: bool) -> Any:
    """``step`` composed ``count`` times; if ``twice`` over, a part's tails are cut further out, as there are many."""
    if not twice:
        return step.self_compose(count)
    size = math.isqrt(count)
    parts, rest = divmod(count, size)
    many = step.self_compose(size, tail_mass_truncation=1e-3 * TAIL / parts).self_compose(parts)
    return many.compose(step.self_compose(rest)) if rest else many


# --- the interval ---------------------------------------------------------------------------------------------------


def interval(mechanisms: Sequence[Mechanism], effort: Effort = FULL) -> float:
    """The grid's interval: the default or finer where coarseness would show, and as coarse as ``effort`` demands."""
    plain = one_gaussian(mechanisms)
    widest = total = 0.0
    variance, splits = 0.0, 0
    if math.isfinite(plain):
        widest = total = 2 * FAR / plain + 1 / plain**2
        variance, splits = 1 / plain**2, 1
    for m in mechanisms:
        if m.sample_rate < 1.0 and m.count:
            one = _Step.of(m.noise_multiplier, m.sample_rate)
            widest = max(widest, one.width)
            total += one.composed_width(m.count)
            variance += m.count * one.variance
            splits += m.count
    fine = math.sqrt(6 * effort.excess * variance / splits)
    cheap = max(widest / effort.single, total / effort.composed)
    reach = max(widest / effort.single / effort.more, total / effort.composed / 2)
    if not effort.more > 1.0:
        return max(fine, cheap)
    if cheap / KEEP <= DEFAULT_INTERVAL <= fine:
        return DEFAULT_INTERVAL
    shows = math.sqrt(10.0) * fine
    if cheap > shows:
        return max(shows, reach)
    return min(_commensurate(max(min(fine, DEFAULT_INTERVAL), cheap)), shows)


def _commensurate(h: float) -> float:
    """The next whole multiple of the default interval, or whole part of it, from ``h`` upwards."""
    if h > DEFAULT_INTERVAL:
        return DEFAULT_INTERVAL * math.ceil(h / DEFAULT_INTERVAL)
    return DEFAULT_INTERVAL / math.floor(DEFAULT_INTERVAL / h)


@dataclass(frozen=True)
class _Step:
    """One sampled step's loss, both ways (the row goes, the row comes): how wide, how variable, and its cumulants."""

    width: float
    variance: float
    cumulant: Callable[[float], float]

    @classmethod
    @functools.lru_cache(maxsize=64)
    def of(cls, sigma: float, q: float) -> _Step:
        """By adding up over a grid of outcomes; this only chooses an interval, so a few digits are enough."""
        x = np.linspace(-FAR * sigma, 1 + FAR * sigma, 2001)
        loss = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * sigma**2))
        without = -((x / sigma) ** 2) / 2  # the log-density of an outcome if the row is not there, but for a constant
        without = without - _log_sum(without)
        there = loss + without
        there = there - _log_sum(there)

        def variance(logs: np.ndarray[Any, Any]) -> float:
            weights = np.exp(logs)
            return float(weights @ (loss - weights @ loss) ** 2)

        def cumulant(order: float) -> float:
            return max(_log_sum(there + order * loss), _log_sum(without - order * loss))

        return cls(float(loss[-1] - loss[0]), min(variance(there), variance(without)), cumulant)

    def twice(self, count: int) -> bool:
        """Whether to compose twice over: if there are many, and it halves the grid at least."""
        return count > MANY and self._chernoff(count, self.width) > 2 * self._chernoff_twice(count)

    def composed_width(self, count: int) -> float:
        """How far the library will let the sum of ``count`` losses spread: its Chernoff bounds, estimated."""
        return self._chernoff_twice(count) if self.twice(count) else self._chernoff(count, self.width)

    def _chernoff_twice(self, count: int) -> float:
        return self._chernoff(count, self._chernoff(math.isqrt(count), self.width))

    def _chernoff(self, count: int, scale: float) -> float:
        orders = [j / scale for j in range(1, 21)]
        cut = math.log(2 / TAIL)
        above = min((count * self.cumulant(o) + cut) / o for o in orders)
        below = min((count * self.cumulant(-o) + cut) / o for o in orders)
        return min(max(above + below, self.width), count * self.width)


def _log_sum(logs: np.ndarray[Any, Any]) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


@contextmanager
def quiet_absl() -> Iterator[None]:
    """RDP logs a warning for each moment it leaves out; leaving one out only raises its epsilon, so say nothing."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
