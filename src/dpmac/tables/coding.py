"""Cells of a batch as codes, many at a time: exactly what :meth:`ColumnKind.coded` makes of each, and quicker.

A column of few different values is coded value by value, and the codes are handed out by place. What a cell becomes
depends on that cell alone, so this is the same. Whatever is out of the ordinary goes through the column's own reader,
cell by cell, which says what is wrong; rows are counted from the table's first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpmac.cells import flat
from dpmac.checks import ArgumentError
from dpmac.tables.cell_format import PLAIN, CellFormat
from dpmac.tables.kinds import Array, ColumnKind
from dpmac.tables.kinds.shared import CellError, allowed

Targets = Callable[[Any], Array]  # the target's cells of a batch -> float32 (rows, outputs)


@dataclass(frozen=True, eq=False)
class Reader:
    """What is read of every batch: the ``columns`` as codes and, with a ``target``, that column by ``targets``."""

    columns: Mapping[str, ColumnKind]
    target: str | None = None
    targets: Targets | None = None
    form: CellFormat = PLAIN
    _lenient: dict[str, ColumnKind] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        every = {name: column.with_missing() for name, column in self.columns.items()}
        object.__setattr__(self, "_lenient", every)

    @property
    def names(self) -> list[str]:
        """The columns of the table that it needs."""
        if self.target is None:
            return [*self.columns]
        return [*self.columns, self.target]

    def read(self, batch: Mapping[str, Any], first: int) -> tuple[Array, ...]:
        """Codes, float64 (rows, columns), and targets, of the rows from the table's number ``first`` on."""
        codes = [self.codes(name, batch[name], first) for name in self.columns]
        block = side_by_side(codes)
        if self.target is None or self.targets is None:
            return (block,)
        with counted_from(first):
            return block, np.ascontiguousarray(self.targets(batch[self.target]))

    def codes(self, name: str, cells: Any, first: int) -> Array:
        """The codes of one column's cells."""
        with counted_from(first):
            codes = _coded(self._lenient[name], name, cells, self.form)
            allowed(name, codes.reshape(len(codes), self.columns[name].code_width)[:, 0], self.columns[name].missing)
        return codes


def side_by_side(codes: Sequence[Array]) -> Array:
    """Codes of columns as rows, float64 (n, all their numbers)."""
    if all(one.ndim == 1 for one in codes):
        return np.stack(codes, axis=1)
    return np.concatenate([one.reshape(len(one), -1) for one in codes], axis=1)


class counted_from:  # noqa: N801 - used as a statement
    """Errors that name a row of a batch name the table's, whose row ``first`` is the batch's first."""

    def __init__(self, first: int) -> None:
        self.first = first

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ArgumentError) and isinstance(error.name, str):
            where, row, number = error.name.rpartition(", row ")
            if row and number.isdecimal():
                place = f"{where}{row}{int(number) + self.first}"
                if isinstance(error, CellError):
                    raise error.at(place) from None
                raise ArgumentError(place, error.value, error.fix) from None


def unreadable(reader: Reader, batches: Iterable[Mapping[str, Any]], first: int = 0) -> list[ArgumentError]:
    """What is wrong with each column that cannot be read: its first cell that is in the way, and how many there are."""
    wrong, counts, rows = dict[str, ArgumentError](), dict[str, int](), 0
    for batch in batches:
        for name in reader.columns:
            try:
                reader.codes(name, batch[name], first + rows)
            except ArgumentError as error:
                wrong.setdefault(name, error)
                counts[name] = counts.get(name, 0) + getattr(error, "count", 1)
        rows += len(next(iter(batch.values())))
    return [_in_all(wrong[name], counts[name], rows) for name in reader.columns if name in wrong]


def _in_all(error: ArgumentError, count: int, rows: int) -> ArgumentError:
    if isinstance(error, CellError):
        return error.counted(count, rows)
    return error


def distinct(cells: Any) -> tuple[list[Any], Array]:
    """The different values among cells, None the last, and the place of every cell's among them.

    Of an arrow array; values that cannot be told apart by arrow, and lists, come back one for each cell.
    """
    if not isinstance(cells, list):
        import pyarrow as pa

        try:
            found = cells
            if not isinstance(found, pa.DictionaryArray):
                found = found.dictionary_encode()
            values = [*cells_of(found.dictionary), None]
            places = found.indices.cast(pa.int64()).fill_null(len(values) - 1)
            return values, places.to_numpy(zero_copy_only=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, AttributeError):
            pass
    values = cells_of(cells)
    return [*values, None], np.arange(len(values))


def cells_of(cells: Any) -> list[Any]:
    """The cells of a batch one by one, as :func:`dpmac.tables.files.read_table` has them."""
    try:
        if isinstance(cells, list):
            return cells
        return list(cells.to_pylist())
    except UnicodeDecodeError as error:
        fix = f"the file is damaged, or whatever wrote it broke the format ({error.reason}): write it anew"
        raise ArgumentError("table", "a text that is not UTF-8", fix) from None


def _coded(column: ColumnKind, name: str, cells: Any, form: CellFormat) -> Array:
    if isinstance(cells, list):
        return column.coded(name, form.read(column, flat(cells)))
    codes = column.coded_at_once(cells)
    if codes is not None:
        return codes
    values, places = distinct(cells)
    try:
        return column.coded(name, form.read(column, flat(values)))[places]
    except ArgumentError:  # of a value that no row may have; if one has, what follows says which
        return column.coded(name, form.read(column, flat(cells_of(cells))))
