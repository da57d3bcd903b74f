"""Defaults from public numbers only (the number of rows, the budget, the kind of task): one rule, and its basis.

The rule depends on the signal-to-noise ratio, :func:`clarity`: the whole run measures an average over rows, and this is
the clipping threshold divided by the standard deviation of the noise on that average, about n epsilon / 4. The lower it
is, the smaller the network, the steps and (in regression) the threshold must be: Adam moves as far on pure noise as on
signal, so a learning rate that suits much data ruins a model of few rows.

The rule for arrays was chosen on held-out *training* rows of thirteen real tables and checked on four others, by
254,268 simulated private trainings (``benchmarks/search``, docs/results/tables.md). Sampling rates from 0.05 to 0.4 and
300 to 1000 steps made little difference; more steps were better on average, larger batches were not.

Classifiers of tables with a schema are whitened by rows drawn from it (:mod:`dpmac.priors`), and have a rule of their
own from 20,000 rows on, chosen in the same way on held-out training rows of real tables: half as many steps, finer
codes, and hidden units beside the linear model in place of it. With fewer rows whitening did not pay; nor did it serve
regressors below some 30,000 rows, where smooth functions of a column are the better guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpmac.planning.plan import Plan

MIN_CLARITY_CLASSES = 5_000.0  # a classifier gets a hidden layer from here on: below, linear models are as good
MIN_CLARITY_NUMBERS = 1_000.0  # the same for a regressor
MIN_ROWS_CLASSES, MIN_ROWS_NUMBERS = 10_000, 2_000  # and at least this many rows; with fewer it would memorise them
STEPS = 1_000
STEPS_WHITENED = 500  # one learning rate suits all directions, so fewer steps reach as far
POWER = 0.25  # of the whitening: variances become their own square roots
MIN_ROWS_WHITE_CLASSES = 20_000  # a classifier is whitened, and has finer codes, from here on
MOST_ROWS = 100_000  # a network in place of a linear model with units beside it
MIN_CLARITY_FINE, MIN_CLARITY_WHITE = 40_000.0, 100_000.0  # the finest codes; the strongest whitening
MIN_CLARITY_DEEP = 40_000.0  # a second hidden layer of a whitened regressor
MIN_ROWS_WHITE_NUMBERS = 30_000  # a regressor is whitened from here on
MIN_CALIBRATION, MIN_ROWS_CALIBRATION = 500.0, 1_000  # rows times epsilon, and rows, for a slope beside base rates
MIN_RESIDUALS = 500.0  # rows (persons) times epsilon, for a residual's scale
PENALTY_CLASSES, PENALTY_NUMBERS = 0.1, 0.01  # without privacy


@dataclass(frozen=True)
class Schedule:
    """The batches of a run over n rows."""

    batch_size: float
    steps: int


@dataclass(frozen=True)
class Defaults:
    """Hyper-parameters that the user did not give. ``threshold`` is for flat clipping of the whole gradient.

    ``bins`` are the pieces of a number's code, ``whitening`` the power of it or None, and ``wide`` says whether the
    hidden units stand beside a linear model (:class:`dpmac.nets.WideNetwork`). ``penalty`` is the W-step's.
    """

    hidden: tuple[int, ...]
    activation: str
    learning_rate: float
    threshold: float
    average: float
    bins: int = 12
    whitening: float | None = None
    wide: bool = False
    penalty: float = 0.0


def schedule_for(n: int, whitened: bool = False) -> Schedule:
    """A thousand batches of a tenth of the rows (a twentieth of many rows); fewer steps for few rows.

    A ``whitened`` classifier takes half as many.
    """
    batch = min(n / 10, max(2000.0, n / 20), 8192.0)
    most = STEPS
    if whitened:
        most = STEPS_WHITENED
    return Schedule(float(min(n, max(256, round(batch)))), min(most, max(200, n // 3)))


def clarity(plan: Plan) -> float:
    """The threshold divided by the deviation of the noise on the average of all releases; infinite without noise."""
    if plan.noise_multiplier == 0:
        return math.inf
    return plan.batch_size * math.sqrt(plan.steps) / plan.noise_multiplier


def whitens(n: int, *, regression: bool) -> bool:
    """Whether a table of n rows is whitened by rows drawn from its schema."""
    if regression:
        return n >= MIN_ROWS_WHITE_NUMBERS
    return n >= MIN_ROWS_WHITE_CLASSES


def defaults_for(
    plan: Plan, *, regression: bool, hidden: tuple[int, ...] | None = None, drawn: bool = False
) -> Defaults:
    """The rule, for targets in [-1, 1] or class labels; given ``hidden`` layers are kept.

    ``drawn`` says that the rows are a table's, and that a prior can be drawn from its schema.
    """
    clear = clarity(plan)
    free = hidden is None
    if hidden is None:
        hidden = _hidden_for(plan.n, clear, regression)
    found = _plain(plan.n, clear, hidden, regression)
    if drawn and whitens(plan.n, regression=regression):
        found = _whitened(found, plan.n, clear, free, regression)
    length = math.sqrt(STEPS / min(plan.steps, STEPS))  # on pure noise, weights move by about rate times sqrt(steps)
    return replace(found, learning_rate=found.learning_rate * min(length, 3.0))


def _plain(n: int, clear: float, hidden: tuple[int, ...], regression: bool) -> Defaults:
    """The rule without a prior, for STEPS steps."""
    if not regression:
        rate, threshold = _classes(clear / 2000, bool(hidden))
    else:
        rate, threshold = _numbers(clear / 3000, bool(hidden))
        if n >= MIN_ROWS_CLASSES:  # of heavy tails, outliers must count; with so many rows they can
            threshold = min(3.0, 2.2 * threshold)
    return Defaults(hidden, "relu", rate, threshold, 0.95)


def _whitened(found: Defaults, n: int, clear: float, free: bool, regression: bool) -> Defaults:
    """The rule for whitened inputs: a network for numbers or very many rows, else units beside a linear model."""
    if regression:
        rate = min(0.008, 0.0047 * (clear / 3000) ** 0.27)
        found = replace(found, whitening=POWER, threshold=min(found.threshold, 0.2), learning_rate=rate)
        if free and clear >= MIN_CLARITY_DEEP:
            return replace(found, hidden=(64, 64))
        return found
    bins, power = 24, POWER
    if clear >= MIN_CLARITY_FINE:
        bins = 48
    if n >= MOST_ROWS and clear >= MIN_CLARITY_WHITE:
        power = 0.5
    found = replace(found, bins=bins, whitening=power)
    if not found.hidden:
        return found
    if not free or n >= MOST_ROWS:
        return replace(found, learning_rate=0.01, threshold=3.0)
    return replace(found, hidden=(32,), wide=True, learning_rate=0.008, threshold=6.0)


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


def penalty_for(n: int, *, regression: bool) -> float:
    """Of the squared weights of a table's model, where nothing else regularises it: without noise and without a bound.

    It makes the result the most likely one under a normal prior of variance 1 / PENALTY_CLASSES (PENALTY_NUMBERS) over
    the inputs of a weight's unit. Both were chosen on held-out training rows of seventeen tables, of 1,000 to 12,000
    rows, by ``benchmarks/search/penalty.py``.
    """
    if regression:
        return PENALTY_NUMBERS / n
    return PENALTY_CLASSES / n


def calibration_for(n: int, epsilon: float) -> tuple[float, int]:
    """The share of a classifier's budget for recalibrating its logits, and the rounds.

    No rounds: with so few rows, or so little budget, it is the base rates alone that can be told.
    """
    if n * epsilon < MIN_CALIBRATION:
        return 0.2, 0
    if n < MIN_ROWS_CALIBRATION:
        return 0.1, 0
    return 0.05, 6


def residuals_for(n: int, epsilon: float) -> float | None:
    """The share of a regressor's budget for its residual's scale; None if that could not be told within a fifth."""
    if n * epsilon < MIN_RESIDUALS or math.isinf(epsilon):
        return None
    if n * epsilon < 1000:
        return 0.2
    if n * epsilon < 2000:
        return 0.1
    if n * epsilon < 5000:
        return 0.05
    return 0.02


def safe_delta(n: int) -> float:
    """A power of ten, at most 1e-5 and at most a tenth of 1/n."""
    return min(1e-5, 10.0 ** math.floor(math.log10(0.1 / n)))
