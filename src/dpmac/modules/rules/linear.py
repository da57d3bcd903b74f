"""Linear layers and matrix products with a parameter: any number of leading dimensions, the rows first."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dpmac.modules.shares import Built, Positions, Share
from dpmac.modules.taps import Watch, seen


def linear(watch: Watch, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: ARG001
    """``input weight^T + bias``: one outer product for each position of a row."""
    if not watch.knows(weight, bias) or input.dim() == 1:
        return F.linear(input, weight, bias)
    flat = input.reshape(-1, input.shape[-1])  # the output is then no view, and its length rows x positions

    def shares(gradient: Tensor) -> dict[str, Share]:
        left = gradient.reshape(watch.rows, -1, gradient.shape[-1])
        right = seen(flat, gradient).reshape(watch.rows, -1, flat.shape[-1])
        return {"weight": Positions(left, right), "bias": Built(left.sum(dim=1))}

    output = watch.run("linear", {"weight": weight, "bias": bias}, lambda w, b: F.linear(flat, w, b), shares, flat)
    return output.reshape(*input.shape[:-1], output.shape[-1])


def matmul(watch: Watch, func: Any, input: Tensor, other: Tensor, **more: Any) -> Tensor:
    """``input other`` where ``other`` is a parameter that is a matrix. Any other product runs as it is."""
    if more or not watch.knows(other) or watch.knows(input) or other.dim() != 2 or input.dim() < 2:
        result: Tensor = func(input, other, **more)
        return result
    flat = input.reshape(-1, input.shape[-1])

    def shares(gradient: Tensor) -> dict[str, Share]:
        right = gradient.reshape(watch.rows, -1, gradient.shape[-1])
        return {"weight": Positions(seen(flat, gradient).reshape(watch.rows, -1, flat.shape[-1]), right)}

    output = watch.run("matmul", {"weight": other}, lambda w: torch.mm(flat, w), shares, flat)
    return output.reshape(*input.shape[:-1], output.shape[-1])
