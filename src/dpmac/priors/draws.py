"""Numbers that a prior draws: the same on every machine, from a public seed. They are never used for privacy.

Whole numbers come from the Philox generator and are added up as whole numbers, so that nothing depends on how a
machine rounds. What goes through a logarithm or a power, which machines do round differently, is put on a grid of
2**-30 afterwards (:func:`dpmac.tables.kinds.shared.on_grid`).
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

from dpmac.checks import integer

Array = np.ndarray[Any, Any]
_SUMMED = 12  # uniform numbers whose sum has variance 1


class Draws:
    """A stream of numbers that follows from ``seed`` and ``purpose`` alone."""

    def __init__(self, seed: int, purpose: str) -> None:
        self.seed = integer("seed", seed, "give a whole number from 0 to 2**63 - 1", low=0, high=2**63 - 1)
        digest = hashlib.sha256(f"dpmac prior {purpose}:{self.seed}".encode()).digest()
        self._bits = np.random.Philox(key=int.from_bytes(digest[:16], "big"))

    def uniform(self, *shape: int) -> Array:
        """Independent numbers in [0, 1), multiples of 2**-53."""
        words = self._bits.random_raw(math.prod(shape)) >> np.uint64(11)
        found: Array = words.astype(np.float64).reshape(shape) * 2.0**-53
        return found

    def normal(self, *shape: int) -> Array:
        """Independent numbers, nearly normal (mean 0, variance 1): sums of twelve uniform ones, within 6."""
        count = math.prod(shape)
        words = self._bits.random_raw(count * _SUMMED).reshape(_SUMMED, count) >> np.uint64(32)
        total = words.sum(axis=0).astype(np.int64) - _SUMMED * 2**31
        found: Array = total.astype(np.float64).reshape(shape) * 2.0**-32
        return found

    def order(self, count: int) -> Array:
        """The numbers 0 .. count - 1 in random order."""
        return np.argsort(self._bits.random_raw(count), kind="stable")


def ranks(values: Array) -> Array:
    """Each value's place among all, within (0, 1): (rank + 1/2) / count."""
    place = np.empty(len(values))
    place[np.argsort(values, kind="stable")] = np.arange(len(values))
    return (place + 0.5) / len(values)
