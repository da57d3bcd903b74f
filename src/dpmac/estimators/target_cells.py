"""Cells of a target in a table: errors that name its column, and advice that does not go round in circles.

A column that a model sees may be missing somewhere. A target may not, whatever the schema says of its column: there is
nothing to learn from such a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpmac.cells import is_missing
from dpmac.checks import ArgumentError
from dpmac.tables import Schema
from dpmac.tables.frames import cells
from dpmac.tables.kinds import Array
from dpmac.tables.kinds.shared import CellError

GONE = "the target is missing in this row, and nothing can be learned from it: fill it in, or drop the row"
NUMBER = "the target is a number: correct the cell, or drop the row"


def without_gaps(codes: Array) -> Array:
    """Codes of targets, unless one is missing."""
    gone = np.isnan(codes)
    if gone.any():
        raise CellError(f"y, row {int(np.argmax(gone))}", None, GONE, int(gone.sum()), len(codes))
    return codes


def target_of(schema: Schema, table: Any) -> Array:
    """The column of a table that the schema calls its target, its texts read as the schema says."""
    if schema.target is None:
        raise ArgumentError("y", None, "the schema names no target: give y, or a schema with one")
    return target_cells(schema, cells(table, [schema.target])[schema.target])


def target_cells(schema: Schema, found: Array) -> Array:
    """Cells of the target, texts of which may be numbers in the format of the file; None where one is missing."""
    assert schema.target_column is not None
    read = schema.cells.read(schema.target_column, found)
    gone = [isinstance(cell, str) and is_missing(cell) for cell in read]
    if any(gone):
        read = read.astype(object)
        read[gone] = None
    return read


@contextmanager
def named_as(column: str | None) -> Iterator[None]:
    """Inside, errors of y name the column that it is; None where y was given by itself."""
    try:
        yield
    except ArgumentError as error:
        name, row, number = str(error.name).partition(", row ")
        if column is None or name not in ("y", "column 'y'"):
            raise
        place = f"column {column!r}{row}{number}"
        if isinstance(error, CellError):
            raise error.at(place) from None
        raise ArgumentError(place, error.value, error.fix) from None
