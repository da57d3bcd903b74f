"""Inputs of a module as columns of numbers: what is taken, in which precision, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.methods.tables import check_finite

Kind = tuple[str | None, tuple[int, ...], str]
"""Of one input, all public: its name, the shape of a row, and "float", "bool" or a type of whole numbers."""

_WHOLE = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_ONE_SHAPE = "give rows of one shape: pad or cut them to a public length"


def column_of(name: str, values: Any) -> Tensor:
    """``values``, one for each row, as a tensor: whole numbers and truth values as they are, others in float32.

    Raises :class:`ArgumentError` for what is not numbers of one shape; values that are not finite are let through.
    """
    if isinstance(values, Tensor):
        found = values.detach().cpu()
    else:
        found = _tensor_of(name, values).detach().cpu()
    if found.dtype.is_complex:
        raise ArgumentError(name, found.dtype, "Complex data not supported: give real numbers")
    if found.dtype.is_floating_point:
        return found.float().contiguous()
    if found.dtype != torch.bool and found.dtype not in _WHOLE:
        return found.long().contiguous()
    return found.contiguous()


def _tensor_of(name: str, values: Any) -> Tensor:
    if isinstance(values, Sequence) and values and isinstance(values[0], Tensor):
        shapes = {tuple(one.shape) for one in values}
        if len(shapes) > 1:
            raise ArgumentError(name, f"rows of shapes {sorted(shapes)[:3]}", _ONE_SHAPE)
        return torch.stack(list(values))
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        raise ArgumentError(name, type(values).__name__, _ONE_SHAPE) from None
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise ArgumentError(name, "rows of several shapes or kinds", _ONE_SHAPE) from None
    if array.dtype.kind not in "biufc":
        fix = "give numbers: texts become tokens by a public tokeniser first"
        raise ArgumentError(name, array.dtype, fix)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    with np.errstate(over="ignore"):  # a number too large for float32 is infinite, and refused as such
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def check_column(name: str, column: Tensor) -> None:
    """Raise unless every number is finite."""
    if column.dtype.is_floating_point:
        check_finite(name, column.reshape(len(column), -1))


def check_tokens(name: str, column: Tensor, limit: int) -> None:
    """Raise for a token that is not in a table of ``limit``."""
    outside = ((column < 0) | (column >= limit)).reshape(len(column), -1).any(dim=1)
    if bool(outside.any()):
        row = int(outside.long().argmax())
        worst = column[row].reshape(-1)
        token = int(worst[(worst < 0) | (worst >= limit)][0])
        fix = f"the module's embedding has {limit} tokens, 0 to {limit - 1}: make its table longer, or map the others"
        raise ArgumentError(f"{name}, row {row}", token, fix)


def kind_of(name: str | None, column: Tensor) -> Kind:
    """What is public of a column."""
    dtype = str(column.dtype).removeprefix("torch.")
    if column.dtype.is_floating_point:
        dtype = "float"
    return name, tuple(column.shape[1:]), dtype


def like_kind(column: Tensor, kind: Kind) -> Tensor:
    """A column of rows to predict, as the fit had it; raises where it is another input."""
    name, shape, dtype = kind
    what = name or "X"
    if tuple(column.shape[1:]) != shape:
        fix = f"the model was fitted on rows of shape {shape}"
        raise ArgumentError(what, f"rows of shape {tuple(column.shape[1:])}", fix)
    if dtype == "float":
        return column.float()
    if column.dtype.is_floating_point:
        raise ArgumentError(what, column.dtype, f"the model was fitted on {dtype}: give whole numbers")
    return column.to(getattr(torch, dtype))


def blank_of(kinds: Sequence[Kind], rows: int = 0) -> tuple[Tensor, ...]:
    """So many rows of zeros."""
    made = []
    for _, shape, dtype in kinds:
        wanted = torch.float32
        if dtype != "float":
            wanted = getattr(torch, dtype)
        made.append(torch.zeros(rows, *shape, dtype=wanted))
    return tuple(made)
