"""Functions that draw random numbers of torch's own: refused."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.modules.taps import Watch


def dropout(
    watch: Watch,  # noqa: ARG001
    func: Any,
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    *more: Any,  # noqa: ARG001
    **options: Any,  # noqa: ARG001
) -> Any:
    """Dropout, unless it does nothing: its draws could not be made again when a training is resumed."""
    if p > 0 and training:
        fix = "a private training draws from its own source alone: use p=0, or put dropout layers into eval()"
        raise ArgumentError(getattr(func, "__name__", "dropout"), p, fix)
    return input
