"""Cells of a table, whoever made it: a column as an array, and which of its cells are missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dpmac.checks import ArgumentError

Array = np.ndarray[Any, Any]
_NOTHING = {"NAType", "NaTType", "MaskedConstant"}  # pandas.NA, pandas.NaT, numpy.ma.masked, without their libraries


def flat(column: Any, name: str = "column", fix: str = "give a list or an array with one cell for each row") -> Array:
    """A column as an array. A list becomes an array of objects: NumPy would turn numbers beside a text into texts."""
    if hasattr(column, "to_numpy"):  # a series in a mapping
        column = column.to_numpy()
    if hasattr(column, "detach"):  # a tensor
        column = column.detach().cpu()
    if isinstance(column, np.ma.MaskedArray):
        whole = np.array(column.data, dtype=object)
        whole[np.ma.getmaskarray(column)] = None
        return whole
    if hasattr(column, "__array__"):
        return np.asarray(column)
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise ArgumentError(name, column, fix)
    kept = list(column)
    array = np.empty(len(kept), dtype=object)
    for row, cell in enumerate(kept):
        array[row] = cell
    return array


def is_missing(cell: Any) -> bool:
    """True of None, whatever differs from itself (NaN and NaT of any kind), pandas' NA, and a text of mere spaces."""
    if isinstance(cell, str):
        return not cell or cell.isspace()
    if cell is None or type(cell).__name__ in _NOTHING:
        return True
    try:
        return bool(cell != cell)
    except (ArithmeticError, TypeError, ValueError):  # a signalling NaN, an array: no value, and no gap either
        return False
