"""Defaults of classifiers of pictures, from public numbers: a linear layer behind whitened public features.

Noise and bound are those of any classifier; batches are large and steps few, since one learning rate suits all
directions of whitened features. Chosen on held-out *training* rows of MNIST, Fashion-MNIST and the digits
(docs/images.md).
"""

from __future__ import annotations

import math

from dpmac.planning.plan import Plan
from dpmac.training.defaults import Defaults, Schedule, penalty_for

LENGTH = 8.0  # of a drawn picture's features, on average
DIRECTIONS = 1_000
LARGEST_BATCH = 16_384
FEWEST_STEPS, MOST_STEPS = 200, 1_000
PASSES = 28.0  # over the rows, times the root of epsilon
RATE = 0.02
THRESHOLD = 0.15 * LENGTH


def picture_schedule(n: int, epsilon: float) -> Schedule:
    """Batches of at most 16,384 rows; 200 steps, or more of them for many rows or a large epsilon."""
    batch = min(n, LARGEST_BATCH)
    passes = PASSES * math.sqrt(min(epsilon, 16.0))
    return Schedule(float(batch), min(MOST_STEPS, max(FEWEST_STEPS, round(passes * n / batch))))


def picture_defaults(own: Plan, hidden: tuple[int, ...] | None) -> Defaults:
    """A linear layer unless ``hidden`` layers are given."""
    penalty = 0.0
    if not own.noise_multiplier:
        penalty = penalty_for(own.n, regression=False)
    return Defaults(hidden or (), "relu", RATE, THRESHOLD, 0.95, whitening=0.5, penalty=penalty)
