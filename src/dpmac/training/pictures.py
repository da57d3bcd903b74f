"""Defaults of classifiers of pictures, from public numbers: a linear layer behind whitened public features.

Noise and bound are those of any classifier; batches are large and steps few, since one learning rate suits all
directions of whitened features. Chosen on held-out *training* rows (docs/images.md).
"""

from __future__ import annotations

import math

from dpmac.planning.plan import Plan
from dpmac.training.defaults import Defaults, Schedule, penalty_for

LENGTH = 8.0  # of a drawn picture's features, on average
DIRECTIONS = 1_000
LARGEST_BATCH = 16_384
RATE = 0.03
THRESHOLD = 0.15 * LENGTH


def picture_schedule(n: int, epsilon: float) -> Schedule:
    """Batches of at most 16,384 rows, and 20, 40, 80 passes over the rows at epsilon 0.5, 2, 8."""
    batch = min(n, LARGEST_BATCH)
    passes = 28.0 * math.sqrt(min(max(epsilon, 0.1), 16.0))
    return Schedule(float(batch), max(60, round(passes * n / batch)))


def picture_defaults(own: Plan, hidden: tuple[int, ...] | None) -> Defaults:
    """A linear layer unless ``hidden`` layers are given."""
    penalty = 0.0
    if not own.noise_multiplier:
        penalty = penalty_for(own.n, regression=False)
    return Defaults(hidden or (), "relu", RATE, THRESHOLD, 0.95, whitening=0.5, penalty=penalty)


def directions_for(n: int, epsilon: float) -> int:
    """How many whitened directions are kept."""
    del n, epsilon
    return DIRECTIONS
