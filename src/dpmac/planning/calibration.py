"""The least noise that meets a budget. The accountant checks the result: a wrong search finds too much, or nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from dpmac.checks import ArgumentError, number
from dpmac.kernels.loss_distributions import MEDIUM, QUICK, ROUGH, Effort
from dpmac.planning.search import Range, UnreachableError, least, limit
from dpmac.privacy.accounting import MIN_MULTIPLIER, Mechanism, cost_of, epsilon_of

MULTIPLIERS = Range(2 * MIN_MULTIPLIER, 1e7)  # the possible results of a calibration


def _trial(make: Callable[[float], Sequence[Mechanism]], delta: float, effort: Effort, s: float) -> float:
    """The epsilon of make(s) for a search, on a grid of ``effort``."""
    return cost_of(tuple(make(s)), delta, "pld", effort)[0]


def calibrate(
    make: Callable[[float], Sequence[Mechanism]], epsilon: float, delta: float, tolerance: float = 2e-4
) -> float:
    """The smallest noise multiplier s (within a relative ``tolerance``, from above) with epsilon(make(s)) <= epsilon.

    A search with faster approximations finds where to call :func:`epsilon_of`, usually once, which decides. The
    returned value has itself been checked to meet the budget: there is never too little noise.
    """
    epsilon = number("epsilon", epsilon, "give a number above 0", low=0.0, high=1e6, strict=True)
    delta = float(delta)
    start, slope = limit(make, epsilon, delta, MULTIPLIERS), -1.3
    for effort, within in ((ROUGH, 5 * tolerance), (MEDIUM, 5 * tolerance), (QUICK, tolerance)):
        try:
            cost = functools.partial(_trial, make, delta, effort)
            found = least(cost, epsilon, start, slope, within, MULTIPLIERS, sure=effort is not ROUGH)
        except UnreachableError as end:  # by this approximation; the next one decides
            found = end.nearest(MULTIPLIERS), slope
        start, slope = found
    try:
        start, _ = least(lambda s: epsilon_of(make(s), delta), epsilon, start, slope, tolerance, MULTIPLIERS, sure=True)
    except UnreachableError as end:
        if end.above:
            fix = f"no noise meets this at delta={delta:g}: raise epsilon, or take fewer or smaller steps"
        else:
            fix = "so large a budget asks for almost no noise: lower epsilon, or give inf for no privacy at all"
        raise ArgumentError("epsilon", epsilon, fix) from None
    if epsilon_of(make(start), delta) > epsilon:  # the search has computed exactly this, so it is in the cache
        raise RuntimeError(f"the search for a noise multiplier answered {start!r}, which does not meet the budget")
    return start
