"""Which noise multipliers to try. Nothing here computes a cost: every result is checked by the given accountant.

Epsilon decreases as the noise grows, nearly as a power of it, so log epsilon is nearly a linear function of the log of
the noise. :func:`least` follows that line, and finds the answer after two or three evaluations if it starts close by.
:func:`limit` provides the start: many small steps are approximately one Gaussian release (the central limit theorem).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpmac.privacy.accounting import Mechanism

FLOOR, CEILING = 1e-3, 1e4  # relative to the target: an epsilon outside only gives the direction
STRIDE = math.log(8.0)  # longest move in one turn
QUESTIONS = 80


class UnreachableError(Exception):
    """No multiplier in the range meets the target: all cost too much (``above``), or even the lowest costs less."""

    def __init__(self, above: bool) -> None:
        super().__init__(above)
        self.above = above

    def nearest(self, within: Range) -> float:
        """The end of the range that is nearest to meeting the target."""
        if self.above:
            return within.high
        return within.low


@dataclass(frozen=True)
class Range:
    """The range of multipliers to try."""

    low: float
    high: float


def least(
    cost: Callable[[float], float],
    target: float,
    start: float,
    slope: float,
    tolerance: float,
    within: Range,
    *,
    sure: bool = False,
) -> tuple[float, float]:
    """The smallest s with ``cost(s) <= target``, from above, within a relative ``tolerance``; and the slope there.

    ``cost`` was evaluated at the returned s. It decreases as s grows, and may jump; ``slope`` is a guess of
    d log(cost) / d log(s), which is used to estimate the distance to the target. A first answer is accepted on that
    estimate only if the slope is ``sure``, that is, measured by an earlier search. Raises :class:`UnreachableError` if
    both ends of the range are on the same side of the target.
    """
    bottom, top = math.log(within.low), math.log(within.high)
    over = under = last = None  # the highest place above the target, the lowest not above, the previous
    u, closer = min(max(math.log(start), bottom), top), 0
    for turn in range(QUESTIONS):
        here = _Place(u, math.log(min(max(cost(math.exp(u)) / target, FLOOR), CEILING)))
        if (here.over and u >= top) or (not here.over and u <= bottom):
            raise UnreachableError(above=here.over)
        measured = here.slope_to(last)
        if measured is not None and last is not None:
            slope, sure = measured, here.over == last.over  # a line across the target may cross a jump
        if here.over:
            over = here
        else:
            under = here
        near = under is not None and under.near(tolerance * slope)
        if under and ((near and sure) or (over and under.u - over.u <= tolerance)):
            return math.exp(under.u), slope
        last = here
        if under and near:  # if the slope is right: a place within the tolerance below decides
            u, closer = max(under.u - 0.9 * tolerance * 2.0**closer, bottom), closer + 1
            if over and u <= over.u:
                u = 0.5 * (over.u + under.u)
            continue
        # from the nearer end along the line, to slightly inside the target
        base = min((p for p in (over, under) if p), key=lambda p: abs(p.y))
        move = min(max((0.4 * tolerance * slope - base.y) / slope, -STRIDE), STRIDE)
        if not (over and under):  # if other costs dominate, the line is nearly flat, and its guess far too short
            ahead = min(tolerance * 2.0**turn, STRIDE)
            move = max(move, ahead) if base.over else min(move, -ahead)
        u = min(max(base.u + move, bottom), top)
        if over and under and (turn % 6 == 5 or (turn > 12 and turn % 2) or not over.u < u < under.u):
            u = 0.5 * (over.u + under.u)
    raise RuntimeError(f"no answer after {QUESTIONS} questions")  # pragma: no cover - bisection ends earlier


@dataclass(frozen=True)
class _Place:
    """The logarithms of a multiplier and of its cost divided by the target."""

    u: float
    y: float

    @property
    def over(self) -> bool:
        return self.y > 0

    @property
    def cut(self) -> bool:
        return not math.log(FLOOR) < self.y < math.log(CEILING)

    def near(self, drop: float) -> bool:
        """Whether the cost is within the target, by less than ``drop`` (which is negative)."""
        return not self.cut and 0.8 * drop <= self.y

    def slope_to(self, other: _Place | None) -> float | None:
        """The slope of the line through both; None if that is not informative."""
        if other is None or self.cut or other.cut or abs(self.u - other.u) < 1e-7:
            return None
        slope = (self.y - other.y) / (self.u - other.u)
        if slope < -1e-2:
            return slope
        return None


def limit(make: Callable[[float], Sequence[Mechanism]], epsilon: float, delta: float, within: Range) -> float:
    """The approximate multiplier for (epsilon, delta), as if all were one Gaussian release: where to start."""
    from dp_accounting import gaussian_mechanism

    with np.errstate(divide="ignore"):  # dp-accounting takes the logarithm of a delta of 0
        goal = 1.0 / float(gaussian_mechanism.get_sigma_gaussian(epsilon, delta)) ** 2
    low, high = math.log(within.low), math.log(within.high)
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        if sum(_signal(m) for m in make(math.exp(middle))) > goal:
            low = middle
        else:
            high = middle
    return math.exp(high)


def _signal(m: Mechanism) -> float:
    """1 / s^2 of the Gaussian release that ``m`` converges to for many steps; exact without sampling."""
    if m.sample_rate == 1.0:
        return m.count / m.noise_multiplier**2
    return m.count * m.sample_rate**2 * math.expm1(min(m.noise_multiplier**-2, 600.0))
