"""Which noise multipliers to try. Nothing here is an account: every answer is checked by the accountant it is given.

An epsilon falls as the noise grows, nearly as a power of it, so its logarithm is nearly a straight line against that of
the noise: :func:`least` walks down that line, and has its answer after two or three questions if it starts close by.
:func:`limit` says where to start: for many small steps everything is one Gaussian release (the central limit).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpmac.privacy.accounting import Mechanism

FLOOR, CEILING = 1e-3, 1e4  # of the target: an epsilon outside says no more than which way to go
STRIDE = math.log(8.0)  # at most so far in one step
QUESTIONS = 80


class UnreachableError(Exception):
    """No multiplier of the range will do: all cost too much (``above``), or even the lowest costs less."""

    def __init__(self, above: bool) -> None:
        super().__init__(above)
        self.above = above


@dataclass(frozen=True)
class Range:
    """The multipliers that may be tried."""

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

    The s returned was itself asked for. ``cost`` falls as s grows, and may jump; ``slope`` is a guess of
    d log(cost) / d log(s), by which it is told how far off an s is; a first answer is taken on its word only if the
    slope is ``sure``, measured by an earlier search. Raises :class:`UnreachableError` if both ends of
    the range are on one side of the target.
    """
    bottom, top = math.log(within.low), math.log(within.high)
    over = under = last = None  # the highest place that costs too much, the lowest that does not, and the one before
    u, closer = min(max(math.log(start), bottom), top), 0
    for turn in range(QUESTIONS):
        here = _Place(u, math.log(min(max(cost(math.exp(u)) / target, FLOOR), CEILING)))
        if (here.over and u >= top) or (not here.over and u <= bottom):
            raise UnreachableError(above=here.over)
        measured = here.slope_to(last)
        if measured is not None and last is not None:
            slope, sure = measured, here.over == last.over  # a line across the target may go over a jump there
        over, under = (here, under) if here.over else (over, here)
        near = under is not None and under.near(tolerance * slope)
        if under and ((near and sure) or (over and under.u - over.u <= tolerance)):
            return math.exp(under.u), slope
        last = here
        if under and near:  # by a slope that may be wrong: a place within the tolerance below it decides, or one beyond
            u, closer = max(under.u - 0.9 * tolerance * 2.0**closer, bottom), closer + 1
            if over and u <= over.u:
                u = 0.5 * (over.u + under.u)
            continue
        # from the nearer end along the line, to a little inside
        base = min((p for p in (over, under) if p), key=lambda p: abs(p.y))
        move = min(max((0.4 * tolerance * slope - base.y) / slope, -STRIDE), STRIDE)
        if not (over and under):  # where other costs prevail the line is nearly level, and its guess far too short
            ahead = min(tolerance * 2.0**turn, STRIDE)
            move = max(move, ahead) if base.over else min(move, -ahead)
        u = min(max(base.u + move, bottom), top)
        if over and under and (turn % 6 == 5 or (turn > 12 and turn % 2) or not over.u < u < under.u):
            u = 0.5 * (over.u + under.u)
    raise RuntimeError(f"no answer after {QUESTIONS} questions")  # pragma: no cover - halving alone ends before


@dataclass(frozen=True)
class _Place:
    """A multiplier and its cost over the target, both as logarithms."""

    u: float
    y: float

    @property
    def over(self) -> bool:
        return self.y > 0

    @property
    def cut(self) -> bool:
        return not math.log(FLOOR) < self.y < math.log(CEILING)

    def near(self, drop: float) -> bool:
        """Within the target, and less than ``drop`` (below 0) under it."""
        return not self.cut and 0.8 * drop <= self.y

    def slope_to(self, other: _Place | None) -> float | None:
        """The slope of the line through both; None where that would say nothing."""
        if other is None or self.cut or other.cut or abs(self.u - other.u) < 1e-7:
            return None
        slope = (self.y - other.y) / (self.u - other.u)
        return slope if slope < -1e-2 else None


def limit(make: Callable[[float], Sequence[Mechanism]], epsilon: float, delta: float, within: Range) -> float:
    """About the multiplier that (epsilon, delta) asks for, if all were one Gaussian release: where to start."""
    from dp_accounting import gaussian_mechanism

    with np.errstate(divide="ignore"):  # a delta of 0 has a logarithm there
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
    """1 / s^2 of the Gaussian release that ``m`` tends to for many steps; exact if it is plain."""
    if m.sample_rate == 1.0:
        return m.count / m.noise_multiplier**2
    return m.count * m.sample_rate**2 * math.expm1(min(m.noise_multiplier**-2, 600.0))
