"""Whose a row is, of a column too long for Python's memory: ids as numbers, in the order in which they first appear."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dpmac.cells import is_missing
from dpmac.checks import ArgumentError
from dpmac.tables.coding import distinct
from dpmac.tables.kinds import Array

_GONE = "the row has no id, and whose it is cannot be guessed: fill it in, or drop the row"


class Ids:
    """Takes a column of ids batch by batch; equal ids are one person's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[Any, int] = {}  # of texts that came as such
        self._numbers: list[Array] = []
        self._arrays: list[Any] = []

    def add(self, cells: Any, first: int) -> None:
        """The next ids, of the rows from the table's number ``first`` on. One that is missing is an error."""
        if isinstance(cells, list):
            for row, one in enumerate(cells):
                if is_missing(one):
                    raise ArgumentError(f"groups, row {first + row}", one, _GONE)
            known = self._known
            self._numbers.append(np.array([known.setdefault(one, len(known)) for one in cells], dtype=np.int64))
            return
        import pyarrow as pa

        plain = cells
        if isinstance(plain, pa.DictionaryArray):
            plain = plain.dictionary_decode()
        gone = _missing(plain)
        if gone.any():
            row = int(np.argmax(gone))
            raise ArgumentError(f"groups, row {first + row}", plain[row].as_py(), _GONE)
        if pa.types.is_floating(plain.type):
            plain = pa.compute.add(plain, pa.scalar(0.0, plain.type))  # -0.0 and 0.0 are one id
        self._arrays.append(plain)

    def codes(self) -> Array:
        """A number for each row, the same for the same person."""
        if not self._arrays:
            return np.concatenate([np.zeros(0, dtype=np.int64), *self._numbers])
        import pyarrow as pa

        try:
            whole = pa.chunked_array(self._arrays).dictionary_encode()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            fix = "ids of this type cannot be told apart: write them as whole numbers or texts"
            raise ArgumentError("groups", str(self._arrays[0].type), fix) from None
        self._arrays = []
        return np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in whole.chunks])


def persons_in(batches: Iterable[Mapping[str, Any]], name: str) -> int:
    """How many persons the column ``name`` tells apart; a row that is nobody's is an error that names it."""
    ids, done = Ids(name), 0
    for batch in batches:
        ids.add(batch[name], done)
        done += len(batch[name])
    return int(ids.codes().max(initial=-1)) + 1


def differing(batches: Iterable[Mapping[str, Any]], name: str, enough: int) -> int:
    """How many different values a column has; or, as soon as two of its cells are the same, at least ``enough`` + 1.

    Numbers in place of the values are kept, of 64 bits: that two of them are the same by chance is out of the question
    for a warning, which is what this is for.
    """
    every: list[Array] = []
    for batch in batches:
        values, places = distinct(batch[name])
        used = np.unique(places)
        every.append(np.fromiter((hash(values[place]) for place in used), dtype=np.int64, count=len(used)))
        if len(used) < len(places) and len(used) > enough:
            return len(used)
    if every:
        return len(np.unique(np.concatenate(every)))
    return 0


def _missing(cells: Any) -> Array:
    """Where there is no id: nulls, NaN and texts of mere spaces."""
    import pyarrow as pa
    from pyarrow import compute, types

    gone = compute.is_null(cells, nan_is_null=True)
    if types.is_string(cells.type) or types.is_large_string(cells.type):
        blank = compute.equal(compute.utf8_trim_whitespace(cells), pa.scalar("", cells.type))
        gone = compute.or_(gone, compute.fill_null(blank, True))
    found: Array = gone.to_numpy(zero_copy_only=False)
    return found
