"""Defaults from public numbers alone: the number of rows, the budget, the kind of task. One rule, and where it is from.

What decides is how clearly the rows will be heard, :func:`clarity`: the whole run measures an average over rows, and
this is its threshold over the deviation of the noise on it, about n epsilon / 4. The less clear, the smaller the
network, the steps and (for numbers) the threshold must be: Adam walks as far on noise alone as on signal, so a rate
that suits much data shakes a model of few rows to pieces.

The rule was chosen on held-out *training* rows of thirteen real tables and looked at on four others, by 254,268
simulated private trainings (``benchmarks/search``, docs/results/tables.md). Sampling rates from 0.05 to 0.4 and 300 to
1000 steps made little difference; more steps were better in the mean, larger batches were not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpmac.planning.plan import Plan

HEARD = 5_000.0  # a classifier gets a hidden layer from this clarity on: below, a linear model is as good or better
NUMBERS = 1_000.0  # a regressor, from this one on
FEW_ROWS, FEW_NUMBERS = 10_000, 2_000  # and never below so many rows, where it would learn them by heart
STEPS = 1_000


@dataclass(frozen=True)
class Schedule:
    """How a run of n rows is cut up."""

    batch_size: float
    steps: int


@dataclass(frozen=True)
class Defaults:
    """What an estimator takes where it was told nothing. ``threshold`` is of a flat clip of the whole gradient."""

    hidden: tuple[int, ...]
    activation: str
    learning_rate: float
    threshold: float
    average: float


def schedule_for(n: int) -> Schedule:
    """A thousand batches of a tenth of the rows, a twentieth of many; fewer steps where there are few rows."""
    batch = min(n / 10, max(2000.0, n / 20), 8192.0)
    return Schedule(float(min(n, max(256, round(batch)))), min(STEPS, max(200, n // 3)))


def clarity(plan: Plan) -> float:
    """The threshold over the noise's deviation on the average of all that a run releases; infinite without noise."""
    if plan.noise_multiplier == 0:
        return math.inf
    return plan.batch_size * math.sqrt(plan.steps) / plan.noise_multiplier


def defaults_for(plan: Plan, *, regression: bool, hidden: tuple[int, ...] | None = None) -> Defaults:
    """The rule, for targets in [-1, 1] or class labels; ``hidden`` layers that were asked for are kept."""
    clear = clarity(plan)
    if hidden is None:
        enough = (NUMBERS, FEW_NUMBERS) if regression else (HEARD, FEW_ROWS)
        hidden = (64,) if clear >= enough[0] and plan.n >= enough[1] else ()
    if regression:
        rate, threshold = _numbers(clear / 3000, bool(hidden))
    else:
        rate, threshold = _classes(clear / 2000, bool(hidden))
    length = math.sqrt(STEPS / min(plan.steps, STEPS))  # on noise, weights walk as far as rate times sqrt(steps)
    return Defaults(hidden, "relu", rate * min(length, 3.0), threshold, 0.95)


def _classes(clear: float, network: bool) -> tuple[float, float]:
    if network:
        return 0.008, min(6.0, max(0.5, 6.0 * (clear / 2.5) ** 0.9))
    return min(0.012, 0.01 * clear**0.4), 3.0


def _numbers(clear: float, network: bool) -> tuple[float, float]:
    if network:
        return min(0.008, 0.0047 * clear**0.27), min(3.0, max(0.05, 0.4 * clear**0.5))
    return min(0.016, 0.006 * clear**0.45), min(3.0, max(0.05, 0.55 * clear**0.96))


def calibration_for(n: int, epsilon: float) -> tuple[float, int] | None:
    """The share of a classifier's budget for recalibrating its logits, and the rounds; None where it would be noise."""
    if n * epsilon < 500:
        return None
    return (0.05, 6) if n >= 1000 else (0.1, 3)


def safe_delta(n: int) -> float:
    """A power of ten, at most 1e-5 and a tenth of 1/n."""
    return min(1e-5, 10.0 ** math.floor(math.log10(0.1 / n)))
