"""Sums and products with a parameter that is spread over the rows: position tables, learned scales, class tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dpmac.modules.shares import Built, Share
from dpmac.modules.taps import Watch, seen


def add(watch: Watch, func: Any, input: Any, other: Any, **more: Any) -> Any:
    """``input + other``, one of them a parameter."""
    tensor, parameter = _apart(watch, input, other)
    if more or parameter is None:
        return func(input, other, **more)

    def shares(gradient: Tensor) -> dict[str, Share]:
        return {"weight": Built(reduced(gradient, watch.rows, parameter.shape))}

    return watch.run("add", {"weight": parameter}, lambda w: tensor + w, shares)


def mul(watch: Watch, func: Any, input: Any, other: Any, **more: Any) -> Any:
    """``input * other``, one of them a parameter."""
    tensor, parameter = _apart(watch, input, other)
    if more or parameter is None:
        return func(input, other, **more)

    def shares(gradient: Tensor) -> dict[str, Share]:
        return {"weight": Built(reduced(gradient * seen(tensor, gradient), watch.rows, parameter.shape))}

    return watch.run("mul", {"weight": parameter}, lambda w: tensor * w, shares, tensor)


def expand(watch: Watch, func: Any, input: Tensor, *sizes: Any, **more: Any) -> Any:
    """A parameter as it is, once for each row."""
    if more or not watch.knows(input):
        return func(input, *sizes, **more)

    def shares(gradient: Tensor) -> dict[str, Share]:
        return {"weight": Built(reduced(gradient, watch.rows, input.shape))}

    return watch.run("expand", {"weight": input}, lambda w: w.expand(*sizes), shares)


def _apart(watch: Watch, one: Any, other: Any) -> tuple[Tensor, Tensor | None]:
    """The tensor with rows and the parameter; None for the second where it is not one of each."""
    if watch.knows(one) and isinstance(other, Tensor) and not watch.knows(other):
        return other, one
    if watch.knows(other) and isinstance(one, Tensor) and not watch.knows(one):
        return one, other
    return torch.empty(0), None


def reduced(gradient: Tensor, rows: int, shape: torch.Size) -> Tensor:
    """Each row's gradient of a parameter of ``shape`` that was broadcast to the gradient's: (rows, *shape).

    The first dimension of the gradient is rows x k. A parameter of as many dimensions had 1 there, or was k long and
    the same for each row only if k is 1; one of fewer dimensions had none.
    """
    each = gradient.reshape(rows, gradient.shape[0] // rows, *gradient.shape[1:])
    full = (1,) * (gradient.dim() - len(shape)) + tuple(shape)
    dims = tuple(place + 1 for place, size in enumerate(full) if size == 1 and each.shape[place + 1] != 1)
    kept = each if not dims else torch.sum(each, dims, keepdim=True)
    return kept.reshape(rows, *shape)
