"""torch's optimisers, by their quickest kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

ONE_PASS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
_OWN_CHOICE = {"fused", "foreach", "differentiable", "capturable"}


def optimizer_for(
    kind: Callable[..., torch.optim.Optimizer], parameters: Iterable[Tensor], **options: Any
) -> torch.optim.Optimizer:
    """``kind(parameters, **options)``, in one pass over the numbers where torch can ("fused").

    The formula is the same and so are the numbers, but for rounding; options that choose a kernel are kept.
    """
    numbers = list(parameters)
    if kind in ONE_PASS and not _OWN_CHOICE & options.keys() and all(p.device.type in ("cpu", "cuda") for p in numbers):
        options["fused"] = True
    return kind(numbers, **options)
