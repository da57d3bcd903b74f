"""Losses over classes: a class that there is not makes its row's loss NaN, so that the row counts as blank.

torch stops at such a target, and one row must not stop a run.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from dpmac.modules.taps import Watch


def classes(watch: Watch, func: Any, input: Tensor, target: Tensor, *more: Any, **options: Any) -> Any:  # noqa: ARG001
    """``func(input, target, ...)``, of which the second dimension of ``input`` (or its only one) counts the classes."""
    count = input.shape[1 if input.dim() > 1 else 0]
    ignored = options.get("ignore_index", more[2] if len(more) > 2 else -100)
    if target.dtype.is_floating_point or options.get("reduction", "mean") != "none":
        return func(input, target, *more, **options)
    outside = ((target < 0) | (target >= count)) & (target != ignored)
    losses = func(input, target.masked_fill(outside, 0), *more, **options)
    return losses.masked_fill(outside, math.nan)
