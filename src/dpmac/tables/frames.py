"""Columns of cells by name, from whatever holds a table; no table library is imported here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpmac.cells import flat
from dpmac.checks import ArgumentError
from dpmac.tables.kinds import Array
from dpmac.tables.texts import did_you_mean

_FIX = "give a pandas, polars or pyarrow table, a mapping of columns, or rows in the schema's order"
_Reader = Callable[[str], Any]
_FLOATS = ("float", "double")  # with NaN for a gap, which is missing as well
_WHOLE = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))


def cells(table: Any, names: Sequence[str]) -> dict[str, Array]:
    """The columns ``names`` of a table, each a flat array of its cells; other columns are left alone.

    Columns with names (pandas, polars, pyarrow, mappings, structured arrays) are found by name. A NumPy array or a list
    of rows has no names: it must have exactly these columns, in this order. What a cell is is kept: nothing is turned
    into text, and a missing cell stays what it was (None, NaN, pandas.NA).
    """
    named = _by_name(table)
    if named is None:
        found = dict(zip(names, _by_place(table, names), strict=True))
    else:
        known, read = named
        for name in names:
            if name not in known:
                fix = f"the table has no such column, but {_listed(known)}{did_you_mean(name, known)}"
                raise ArgumentError("column", name, fix)
            if known.count(name) > 1:
                raise ArgumentError("column", name, "the table has this column more than once: rename or drop one")
        found = {name: flat(read(name)) for name in names}
    lengths = {name: len(column) for name, column in found.items()}
    for name, column in found.items():
        if column.ndim != 1:
            raise ArgumentError(f"column {name!r}", f"shape {column.shape}", "give one cell for each row")
    if len(set(lengths.values())) > 1:
        raise ArgumentError("table", f"rows by column {lengths}", "every column needs the same number of rows")
    return found


def has_names(table: Any) -> bool:
    """Whether a table's columns have names."""
    return _by_name(table) is not None


def names_of(table: Any) -> list[str]:
    """The names of a table's columns, in order; an error if it has none."""
    named = _by_name(table)
    if named is None:
        raise ArgumentError("table", type(table).__name__, "its columns have no names: give a mapping or a data frame")
    return named[0]


def _by_name(table: Any) -> tuple[list[str], _Reader] | None:
    """The names of the columns and a way to read one; None if the table has no names."""
    if isinstance(table, Mapping):
        return list(table), lambda name: table[name]
    if isinstance(table, np.ndarray):
        if table.dtype.names is None:
            return None
        return list(table.dtype.names), lambda name: table[name]
    if hasattr(table, "column_names") and hasattr(table, "column"):  # pyarrow
        return list(table.column_names), lambda name: _arrow(table.column(name))
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        if hasattr(table, "iloc"):  # pandas, whose nullable columns come with pandas.NA
            return list(table.columns), lambda name: table[name].to_numpy()
        return list(table.columns), lambda name: table[name].to_list()  # polars: None where a cell is missing
    return None


def _arrow(column: Any) -> Any:
    """A column of pyarrow: numbers as an array, where that says the same as cell by cell; else a list."""
    kind = str(getattr(column, "type", ""))
    plain = kind in _FLOATS or (kind in _WHOLE and not column.null_count)
    if plain:
        return column.to_numpy()
    return column.to_pylist()


def _by_place(table: Any, names: Sequence[str]) -> Iterable[Array]:
    """The columns of an array or of a list of rows."""
    wanted = f"give {len(names)} columns in the schema's order: {_listed(names)}"
    if isinstance(table, list | tuple):
        for place, row in enumerate(table):
            if isinstance(row, str | bytes | Mapping) or not hasattr(row, "__len__"):
                raise ArgumentError(f"row {place}", f"a {type(row).__name__}", _FIX)
            if len(row) != len(names):
                raise ArgumentError(f"row {place}", f"{len(row)} cells", wanted)
        return [flat([row[place] for row in table]) for place in range(len(names))]
    if not hasattr(table, "__array__") or hasattr(table, "to_frame"):  # a pandas Series is one column, not a table
        raise ArgumentError("table", type(table).__name__, _FIX)
    array = table
    if not isinstance(array, np.ndarray):
        array = np.asarray(array)
    if array.ndim != 2:
        raise ArgumentError("table", f"shape {array.shape}", _FIX)
    if array.shape[1] != len(names):
        raise ArgumentError("table", f"{array.shape[1]} columns", wanted)
    return [flat(array[:, place]) for place in range(len(names))]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(str, names[:12]))
    if len(names) <= 12:
        return shown
    return f"{shown} and {len(names) - 12} more"
