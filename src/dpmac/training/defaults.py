"""Defaults from public numbers only (the number of rows, the budget, the kind of task): one rule, and its basis.

The rule depends on the signal-to-noise ratio, :func:`clarity`: the whole run measures an average over rows, and this is
the clipping threshold divided by the standard deviation of the noise on that average, about n epsilon / 4. The lower it
is, the smaller the network, the steps and (in regression) the threshold must be: Adam moves as far on pure noise as on
signal, so a learning rate that suits much data ruins a model of few rows.

The rule was chosen on held-out *training* rows of thirteen real tables and checked on four others, by 254,268 simulated
private trainings (``benchmarks/search``, docs/results/tables.md). Sampling rates from 0.05 to 0.4 and 300 to 1000 steps
made little difference; more steps were better on average, larger batches were not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpmac.planning.plan import Plan

MIN_CLARITY_CLASSES = 5_000.0  # a classifier gets a hidden layer from here on: below, linear models are as good
MIN_CLARITY_NUMBERS = 1_000.0  # the same for a regressor
MIN_ROWS_CLASSES, MIN_ROWS_NUMBERS = 10_000, 2_000  # and at least this many rows; with fewer it would memorise them
STEPS = 1_000


@dataclass(frozen=True)
class Schedule:
    """The batches of a run over n rows."""

    batch_size: float
    steps: int


@dataclass(frozen=True)
class Defaults:
    """Hyper-parameters that the user did not give. ``threshold`` is for flat clipping of the whole gradient."""

    hidden: tuple[int, ...]
    activation: str
    learning_rate: float
    threshold: float
    average: float


def schedule_for(n: int) -> Schedule:
    """A thousand batches of a tenth of the rows (a twentieth of many rows); fewer steps for few rows."""
    batch = min(n / 10, max(2000.0, n / 20), 8192.0)
    return Schedule(float(min(n, max(256, round(batch)))), min(STEPS, max(200, n // 3)))


def clarity(plan: Plan) -> float:
    """The threshold divided by the deviation of the noise on the average of all releases; infinite without noise."""
    if plan.noise_multiplier == 0:
        return math.inf
    return plan.batch_size * math.sqrt(plan.steps) / plan.noise_multiplier


def defaults_for(plan: Plan, *, regression: bool, hidden: tuple[int, ...] | None = None) -> Defaults:
    """The rule, for targets in [-1, 1] or class labels; given ``hidden`` layers are kept."""
    clear = clarity(plan)
    if hidden is None:
        hidden = _hidden_for(plan.n, clear, regression)
    if regression:
        rate, threshold = _numbers(clear / 3000, bool(hidden))
    else:
        rate, threshold = _classes(clear / 2000, bool(hidden))
    length = math.sqrt(STEPS / min(plan.steps, STEPS))  # on pure noise, weights move by about rate times sqrt(steps)
    return Defaults(hidden, "relu", rate * min(length, 3.0), threshold, 0.95)


def _hidden_for(n: int, clear: float, regression: bool) -> tuple[int, ...]:
    enough, min_rows = MIN_CLARITY_CLASSES, MIN_ROWS_CLASSES
    if regression:
        enough, min_rows = MIN_CLARITY_NUMBERS, MIN_ROWS_NUMBERS
    if clear >= enough and n >= min_rows:
        return (64,)
    return ()


def _classes(clear: float, network: bool) -> tuple[float, float]:
    if network:
        return 0.008, min(6.0, max(0.5, 6.0 * (clear / 2.5) ** 0.9))
    return min(0.012, 0.01 * clear**0.4), 3.0


def _numbers(clear: float, network: bool) -> tuple[float, float]:
    if network:
        return min(0.008, 0.0047 * clear**0.27), min(3.0, max(0.05, 0.4 * clear**0.5))
    return min(0.016, 0.006 * clear**0.45), min(3.0, max(0.05, 0.55 * clear**0.96))


def calibration_for(n: int, epsilon: float) -> tuple[float, int] | None:
    """The share of a classifier's budget for recalibrating its logits, and the rounds; None if that would be noise."""
    if n * epsilon < 500:
        return None
    if n >= 1000:
        return 0.05, 6
    return 0.1, 3


def safe_delta(n: int) -> float:
    """A power of ten, at most 1e-5 and at most a tenth of 1/n."""
    return min(1e-5, 10.0 ** math.floor(math.log10(0.1 / n)))
