"""Defaults of classifiers of pictures, from public numbers: a linear layer behind whitened public features.

Many steps of small batches learn more than few of large ones, at the same noise in all; a rate that falls with the
root of their number keeps how far they go. More rows or a larger epsilon tell more directions apart from the noise.
Chosen on held-out *training* rows of MNIST, Fashion-MNIST and the digits (docs/images.md).
"""

from __future__ import annotations

import math

from dpmac.planning.plan import Plan
from dpmac.priors.directions import most_worth_it
from dpmac.training.defaults import Defaults, Schedule, penalty_for

LENGTH = 8.0  # of a drawn picture's features, on average
FEWEST_DIRECTIONS, MOST_DIRECTIONS = 1_000, 4_000
AT_REFERENCE, REFERENCE = 2_000, 30_000.0  # directions at so many rows times epsilon
PER_DOUBLING = 500  # more of them for each doubling of that
LARGEST_BATCH, SMALL_BATCH = 16_384, 1_024
BATCHES = 30  # into which the rows would go
MOST_STEPS = 800
PASSES = 200.0  # over few rows: their batches are larger shares
RATE, RATE_STEPS = 0.02, 200  # Adam's rate, for so many steps
HIGHEST_RATE = 0.03
THRESHOLD = 0.1 * LENGTH
LARGEST_EPSILON = 16.0  # from here on nothing changes


def picture_schedule(n: int, epsilon: float) -> Schedule:
    """800 batches of a thirtieth of the rows, of more for an epsilon above 2; half of few rows, and fewer steps."""
    growth = math.sqrt(max(1.0, min(epsilon, LARGEST_EPSILON) / 2.0))
    batch = max(growth * n / BATCHES, min(n / 2, SMALL_BATCH))
    batch = max(1, math.floor(min(batch, LARGEST_BATCH)))
    return Schedule(float(batch), min(MOST_STEPS, max(1, round(PASSES * n / batch))))


def picture_directions(n: int, epsilon: float, features: int) -> int:
    """How many whitened directions are kept: 500 more for each doubling of the rows times epsilon.

    Beyond 1,000 not more than are found quickly among so many ``features``.
    """
    doublings = math.log2(max(n * min(epsilon, LARGEST_EPSILON), 1.0) / REFERENCE)
    wanted = 100 * round((AT_REFERENCE + PER_DOUBLING * doublings) / 100)
    most = min(MOST_DIRECTIONS, most_worth_it(features))
    return max(FEWEST_DIRECTIONS, min(wanted, most))


def picture_defaults(own: Plan, hidden: tuple[int, ...] | None) -> Defaults:
    """A linear layer unless ``hidden`` layers are given."""
    penalty = 0.0
    if not own.noise_multiplier:
        penalty = penalty_for(own.n, regression=False)
    rate = min(HIGHEST_RATE, RATE * math.sqrt(RATE_STEPS / own.steps))
    return Defaults(hidden or (), "relu", rate, THRESHOLD, 0.95, whitening=0.5, penalty=penalty)
