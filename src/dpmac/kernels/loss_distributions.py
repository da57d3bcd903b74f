"""The privacy loss distribution of a list of mechanisms, by dp-accounting, on a grid that stays small.

K5: the computed epsilon is not below the true one, because dp-accounting rounds pessimistically. This excepts the
rounding of doubles, for which :data:`dpmac.privacy.accounting.ROUNDOFF` is set aside (measured, not proved).

Three things keep it fast, and each of them keeps the result an upper bound:

- *Plain Gaussian releases are merged into one.* Releases of multipliers s_1, s_2, ... on all rows are jointly exactly
  as private as one of multiplier (sum 1 / s_i^2)^(-1/2). If nothing else was released, dp-accounting has the privacy
  curve in closed form.
- *The grid's interval depends on the mechanisms.* dp-accounting's default of 1e-4 is used wherever it is cheap and fine
  enough. Otherwise the interval is an integer multiple or an integer fraction of it; or, if none would be fine enough,
  the finest that is affordable. A loss between two grid points is split between them so that the privacy curve becomes
  its chord, which lies above it: every interval gives an upper bound, and a multiple of the default interval gives one
  that is never below the default's.
- *Many steps are composed in two stages*, the sqrt(T)-fold of the sqrt(T)-fold. The library's bounds on the support of
  a composed loss are far too wide for a million very small losses at once. Each stage is the library's own composition,
  which counts the tail that it cuts off as an infinite loss: so each stage, and the second of the first, gives an upper
  bound.
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

from dpmac.kernels.quick_losses import TAIL
from dpmac.kernels.quick_losses import quick_step as _quick_step

if TYPE_CHECKING:
    from dpmac.privacy.accounting import Mechanism

DEFAULT_INTERVAL = 1e-4  # the default of dp-accounting
FAR = 10.0  # standard deviations: dp-accounting truncates the tails of a Gaussian just before
KEEP = 3.0  # the default interval is kept if it takes at most this many times the intended points
MANY = 10_000  # above this number of steps, a composition of compositions


@dataclass(frozen=True)
class Effort:
    """How fine a grid may be: points for one step's loss and for the composed loss, and the allowed excess variance.

    Splitting a loss between the ends of an interval h adds at most h^2 / 4 to its variance, and h^2 / 6 if it is
    uniform in between. ``excess`` is the variance that all steps may add, relative to the variance of the losses; the
    relative change of epsilon is about half of it. If ten times that would be added, up to ``more`` times the points
    are spent on one step, and twice as many on the composition.
    """

    single: int
    composed: int
    excess: float
    more: float = 1.0
    quick: bool = False


FULL = Effort(16_000, 120_000, 5e-4, more=4.0)  # for reported numbers: a tenth of a second, half a second in hard cases
QUICK = replace(FULL, quick=True)  # the same grids, for a search
MEDIUM = Effort(16_000, 60_000, 1e-3, quick=True)  # to find where to search
ROUGH = Effort(4_000, 30_000, 2e-3, quick=True)  # to find where to start that


def one_gaussian(mechanisms: Sequence[Mechanism], unsampled: bool = False) -> float:
    """The multiplier of the one Gaussian release that is equivalent to all unsampled ones; infinity if there are none.

    With ``unsampled``, sampled releases are treated as unsampled too, which never costs less (the hockey-stick
    divergence is convex, so that of two mixtures is at most the mixture of the divergences).
    """
    plain = [m for m in mechanisms if m.count and (unsampled or m.sample_rate == 1.0)]
    if not plain:
        return math.inf
    if len(plain) == 1 and plain[0].count == 1:
        return plain[0].noise_multiplier
    # slightly less noise than the sum gives, so that its rounding is on the safe side
    return (1.0 - 1e-15) / math.sqrt(math.fsum(m.count / m.noise_multiplier**2 for m in plain))


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """The epsilon of one plain Gaussian release, by dp-accounting's closed form, plus the error of its search."""
    from dp_accounting import gaussian_mechanism

    with np.errstate(divide="ignore"):  # a delta of 0 has a logarithm there
        epsilon = float(gaussian_mechanism.get_epsilon_gaussian(sigma, delta))
    if epsilon == 0.0:
        return 0.0
    return epsilon + 4e-12 + 1e-12 * epsilon


def composed(mechanisms: Sequence[Mechanism], effort: Effort = FULL, coarsest: float = 0.0) -> Any:
    """dp-accounting's privacy loss distribution of all ``mechanisms`` (each with noise), rounded upwards.

    The last few are cached, for epsilons at many deltas. ``coarsest`` is the least interval of the grid.
    """
    return _composed(tuple(mechanisms), effort, coarsest)


@functools.lru_cache(maxsize=4)
def _composed(mechanisms: tuple[Mechanism, ...], effort: Effort, coarsest: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as library

    if any(m.search is not None for m in mechanisms):
        from dpmac.kernels.selection import with_searches  # which composes the runs by this module

        return with_searches(mechanisms, effort)
    h = max(interval(mechanisms, effort), coarsest)
    one_step: Callable[..., Any] = _full_step
    parts = [library.identity(value_discretization_interval=h)]
    if effort.quick:
        one_step, parts = _quick_step, []
    plain = one_gaussian(mechanisms)
    if math.isfinite(plain):
        parts.append(one_step(plain, value_discretization_interval=h, sampling_prob=1.0))
    for m in mechanisms:
        if m.sample_rate < 1.0 and m.count:
            step = one_step(m.noise_multiplier, value_discretization_interval=h, sampling_prob=m.sample_rate)
            one = _Step.of(m.noise_multiplier, m.sample_rate)
            # if there are few points (a thousand), the library first raises their number to that of the steps
            twice = one.twice(m.count) or (m.count > MANY and one.width < 1500 * h)
            parts.append(_times(step, m.count, twice))
    return functools.reduce(lambda whole, part: whole.compose(part), parts)


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


def _times(step: Any, count: int, twice: bool) -> Any:
    """``step`` composed ``count`` times; if ``twice``, in two stages, whose first truncates tails further out."""
    if not twice:
        return step.self_compose(count)
    size = math.isqrt(count)
    parts, rest = divmod(count, size)
    many = step.self_compose(size, tail_mass_truncation=1e-3 * TAIL / parts).self_compose(parts)
    if rest:
        many = many.compose(step.self_compose(rest))
    return many


# --- the interval ---------------------------------------------------------------------------------------------------


def interval(mechanisms: Sequence[Mechanism], effort: Effort = FULL) -> float:
    """The grid's interval: the default, or finer if that would be too coarse; as coarse as ``effort`` requires."""
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
    """The smallest integer multiple or integer fraction of the default interval that is at least ``h``."""
    if h > DEFAULT_INTERVAL:
        return DEFAULT_INTERVAL * math.ceil(h / DEFAULT_INTERVAL)
    return DEFAULT_INTERVAL / math.floor(DEFAULT_INTERVAL / h)


@dataclass(frozen=True)
class _Step:
    """The privacy loss of one sampled step, for both adjacencies: its width, its variance and its cumulants."""

    width: float
    variance: float
    cumulant: Callable[[float], float]

    @classmethod
    @functools.lru_cache(maxsize=64)
    def of(cls, sigma: float, q: float) -> _Step:
        """Computed on a grid of outcomes; this only chooses an interval, so a few digits are enough."""
        x = np.linspace(-FAR * sigma, 1 + FAR * sigma, 2001)
        loss = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * sigma**2))
        without = -((x / sigma) ** 2) / 2  # log-density of an outcome without the row, up to a constant
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
        """Whether to compose in two stages: if there are many steps, and it at least halves the grid."""
        return count > MANY and self._chernoff(count, self.width) > 2 * self._chernoff_twice(count)

    def composed_width(self, count: int) -> float:
        """An estimate of the library's Chernoff bounds on the support of the sum of ``count`` losses."""
        if self.twice(count):
            return self._chernoff_twice(count)
        return self._chernoff(count, self.width)

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
    """Silence RDP's warnings about moments that it leaves out: leaving one out only raises its epsilon."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
