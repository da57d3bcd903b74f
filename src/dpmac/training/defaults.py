"""Defaults from public numbers alone: the number of rows, the kind of task. One rule, and how it was chosen.

It was picked on held-out *training* rows of five real tables (adult, insurance, flchain, diamonds, wages; 5,000 to
34,000 rows) at epsilon 0.5, 2 and 8, by mean score over all of them: 900 random settings, then 16 rules of three seeds
each. What came out: one flat threshold of 1 (normalising every example's part, the default of 0.1, drifts to the
majority class where labels are noisy), a thousand large batches, one small hidden layer, Adam at 0.01 with cosine
decay, averaged weights; below ten thousand rows a linear classifier on the encoded columns with a threshold of 3, and
fewer steps where there are very few rows. Sampling rates from 0.1 to 0.4 made no difference, so the smallest was taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

FEW_ROWS = 10_000


@dataclass(frozen=True)
class Defaults:
    """What an estimator takes where it was told nothing."""

    hidden: tuple[int, ...]
    activation: str
    learning_rate: float
    steps: int
    batch_size: float
    threshold: float
    average: float


def defaults_for(n: int, *, regression: bool) -> Defaults:
    """The rule. ``threshold`` is of a flat clip of the whole gradient, for targets in [-1, 1] or class labels."""
    few = n < FEW_ROWS
    return Defaults(
        hidden=((32,) if regression else ()) if few else (64,),
        activation="relu" if regression else "tanh",
        learning_rate=0.01,
        steps=min(1000, max(100, n // 5)),
        batch_size=float(min(n, max(256, min(8192, n // 10)))),
        threshold=3.0 if few and not regression else 1.0,
        average=0.95,
    )


def safe_delta(n: int) -> float:
    """A power of ten, at most 1e-5 and a tenth of 1/n."""
    return min(1e-5, 10.0 ** math.floor(math.log10(0.1 / n)))
