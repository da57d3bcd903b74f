"""What a forward pass leaves behind in a module: nothing of its rows may stay there, since the module is published.

A module that keeps its last attention weights, or its inputs, in an attribute would carry raw private rows in the model
that comes out of a fit. Buffers are compared in :mod:`dpmac.modules.trying`; here are attributes, and what lies in
lists, dictionaries and the like within them. What a pass computes from shapes alone (a mask, positions) may be kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError
from dpmac.kernels.gathering import Columns

_TORCHS = frozenset(vars(nn.Module()))  # parameters, buffers, modules, hooks
_DEPTH = 4  # of containers within each other
KEEPS = (
    "a forward pass keeps something of its rows in it, which would leave with the model, without noise: keep nothing"
)


def check_keeps_nothing(module: nn.Module, run: Callable[..., Any], first: Columns, second: Columns) -> None:
    """Raise :class:`ArgumentError`, naming the attribute, if ``run`` keeps something of its rows in ``module``.

    ``run`` is a forward pass; ``first`` and ``second`` are blocks of as many made-up rows, with other numbers in them.
    """
    run(*first)
    before = {name: _copied(values) for name, values in _kept(module)}
    run(*second)
    for name, values in _kept(module):
        there = before.get(name, [])
        if len(values) != len(there) or not all(map(same, values, there)):
            raise ArgumentError(name, f"an attribute of {type(module).__name__}", KEEPS)


def _kept(module: nn.Module) -> Iterator[tuple[str, list[Tensor]]]:
    """The attributes of all modules in it that hold tensors or arrays, with these."""
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name not in _TORCHS:
                found = list(_tensors(value, _DEPTH))
                if found:
                    yield f"{path}.{name}".lstrip("."), found


def _tensors(value: Any, depth: int) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value.detach()
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        yield torch.from_numpy(value)
    elif depth and isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset | deque):
        for item in value:
            yield from _tensors(item, depth - 1)


def _copied(values: list[Tensor]) -> list[Tensor]:
    return [value.clone() for value in values]


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers; NaN equals NaN."""
    if one.shape != other.shape:
        return False
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())
