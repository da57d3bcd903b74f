"""Tables in files: CSV with the standard library alone, Parquet through pyarrow where it is installed.

A table comes back as a mapping of columns, every cell as it stands in the file: a CSV's cells are texts, so that "007"
stays what it is. Which texts stand for a missing cell, and how numbers are written, is the schema's to say
(:mod:`dpmac.tables.cell_format`). What cannot be read is an error that names the file and the line, never the cells
beside it.
"""

from __future__ import annotations

import csv
import gzip
import io
import numbers
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from dpmac.cells import is_missing
from dpmac.checks import ArgumentError
from dpmac.tables.kinds import KINDS
from dpmac.tables.schema import Schema
from dpmac.tables.texts import did_you_mean

Table = dict[str, list[Any]]
PARQUET = (".parquet", ".pq")
_DELIMITERS = (",", ";", "\t")
_FORMULA = re.compile(r"'*\s*[=+\-@\uff1d\uff0b\uff0d\uff20\t\r]")  # also as wide as Chinese letters
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
csv.field_size_limit(2**24)  # a cell of 16 MB is a damaged file; the usual limit of 128 KB is not


def read_table(path: str | Path, schema: Schema | None = None) -> Table:
    """The columns of a file by name, in its order; with a ``schema`` its numeric columns as numbers where they can be.

    ``.csv``, ``.tsv`` and ``.txt`` (also ``.gz``) need a first line with the columns' names; commas, semicolons or tabs
    stand between them. ``.parquet`` and ``.pq``, and folders of them, need pyarrow. All of it is then in memory:
    :func:`dpmac.tables.stored.open_table` is for tables that need not fit there.
    """
    where = Path(path)
    if not where.exists():
        raise ArgumentError("file", str(path), "there is no such file")
    if where.is_dir():
        from dpmac.tables.stored import Files

        return dict(Files(where))
    if where.suffix.lower() in PARQUET:
        table = _parquet(where)
    else:
        table = _csv(where)
    if schema is None:
        return table
    return typed(table, schema)


def typed(table: Table, schema: Schema) -> Table:
    """The table with the schema's columns in their own types, where all of a column's texts can be: numbers."""
    if not schema.cells.plain:  # texts are read by whoever knows the format
        return table
    known = schema.columns
    return {name: known[name].typed(cells) if name in known else cells for name, cells in table.items()}


def rows_in(table: Mapping[str, Sequence[Any]]) -> int:
    """The number of rows; a table in files knows it."""
    known: int | None = getattr(table, "n", None)
    if known is None:
        return len(next(iter(table.values()), ()))
    return known


def need_columns(file: str | Path, table: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise unless the table of ``file`` has all these columns; the error lists every one that is not there."""
    gone = [name for name in names if name not in table]
    if gone:
        listed = ", ".join(map(repr, gone))
        hint = did_you_mean(gone[0], table)
        has = ", ".join(map(repr, list(table)[:20]))
        if len(table) > 20:
            has += " ..."
        raise ArgumentError("file", str(file), f"it has no column {listed}; its columns are {has}{hint}")


def guessed_kind(cells: Iterable[Any]) -> str:
    """The kind of a column by looking at the rows: whole numbers of which there are few are taken for codes."""
    return str(guessed_template(cells)["kind"])


def guessed_template(cells: Iterable[Any]) -> dict[str, Any]:
    """A column of that kind for a template: its kind, its other keys open but for what a guess fills in."""
    guesses = [(name, guess) for name, kind in KINDS.items() if (guess := kind.guess()) is not None]
    for cell in cells:
        if not is_missing(cell):
            guesses = [(name, guess) for name, guess in guesses if guess.see(cell)]
            if not guesses:
                break
    for name, guess in guesses:
        found = guess.template()
        if found is not None:
            return open_column(name) | found
    return open_column(next(name for name, kind in KINDS.items() if kind.guess() is None))


def open_column(kind: str | None) -> dict[str, Any]:
    """A column of a template with nothing filled in; if even the kind is open, with the keys of every kind."""
    needed = [key for name, one in KINDS.items() if kind in (None, name) for key in one.needed]
    return {"kind": kind, **dict.fromkeys(needed), "missing": True}


# --- reading ----------------------------------------------------------------------------------------------------------


def csv_names(path: Path) -> list[str]:
    """The columns that the first line of a CSV file names."""
    with _opened(path) as (names, _):
        return names


def csv_batches(path: Path, size: int) -> Iterator[Table]:
    """The columns of a CSV file, ``size`` rows at a time at most; nothing of a file without rows."""
    with _opened(path) as (names, rows):
        while few := list(islice(rows, size)):
            yield dict(zip(names, map(list, zip(*few, strict=True)), strict=True))


def csv_starts(path: Path) -> Iterator[int]:
    """The lines on which the rows begin, as an editor counts them."""
    with _opened(path) as (_, rows):
        for _row in rows:
            yield rows.start


def _csv(path: Path) -> Table:
    with _opened(path) as (names, rows):
        every = list(rows)
    if every:
        return dict(zip(names, map(list, zip(*every, strict=True)), strict=True))
    return {name: [] for name in names}


@contextmanager
def _opened(path: Path) -> Iterator[tuple[list[str], _Rows]]:
    """The names of the columns, and the rows."""
    opened: Any = open
    if path.suffix.lower() == ".gz":
        opened = gzip.open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as handle:
            yield _lines(path, handle)
    except UnicodeDecodeError as error:
        raise ArgumentError("file", str(path), f"it is not UTF-8 text ({error.reason}): save it as UTF-8") from None
    except (csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ArgumentError("file", str(path), f"it cannot be read as CSV ({error})") from None


def _lines(path: Path, handle: IO[str]) -> tuple[list[str], _Rows]:
    first = handle.readline()
    handle.seek(0)
    delimiter = max(_DELIMITERS, key=first.count)  # the comma, if none of them is there
    reader = csv.reader(handle, delimiter=delimiter, strict=True)
    names = [name.strip() for name in next(reader, [])]
    if not any(names):
        raise ArgumentError("file", str(path), "it is empty: give a CSV file whose first line names the columns")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError("file", str(path), f"the column {twice[0]!r} is there more than once: rename or drop one")

    return names, _Rows(path, reader, len(names))


class _Rows:
    """The rows of a CSV file; ``start`` is the line on which the last one began."""

    def __init__(self, path: Path, reader: Any, columns: int) -> None:
        self._path, self._reader, self._columns = path, reader, columns
        self.start = 1

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        row: list[str] = []
        while not row:  # an empty line
            self.start = self._reader.line_num + 1
            row = next(self._reader)
        if len(row) != self._columns:
            fix = f"line {self.start} has {len(row)} cells, the first line names {self._columns} columns: correct it"
            raise ArgumentError("file", str(self._path), fix)
        return row


def _parquet(path: Path) -> Table:
    try:
        from pyarrow import parquet
    except ImportError:
        fix = "Parquet files need pyarrow: pip install 'dpmac[parquet]', or save the table as CSV"
        raise ArgumentError("file", str(path), fix) from None
    try:
        names = [column.name for column in parquet.read_schema(path) if column.type == "string"]
        found = parquet.read_table(path, read_dictionary=names)
    except (ValueError, OSError) as error:  # pyarrow's errors are both
        raise ArgumentError("file", str(path), f"it cannot be read as Parquet ({str(error).splitlines()[0]})") from None
    return {str(name): _listed(found.column(name), name in names) for name in found.column_names}


def _listed(column: Any, coded: bool) -> list[Any]:
    """A column's cells; of a text that stands in many of them there is one copy, as in the file."""
    if not coded:
        return column.to_pylist()  # type: ignore[no-any-return]
    cells = list[Any]()
    for chunk in column.chunks:
        texts = chunk.dictionary.to_pylist()
        cells += [None if code is None else texts[code] for code in chunk.indices.to_pylist()]
    return cells


# --- writing ----------------------------------------------------------------------------------------------------------


def csv_text(columns: Mapping[str, Sequence[Any]]) -> str:
    """A table as CSV; numbers with all their digits, and nothing where a cell is missing."""
    out = io.StringIO()
    write = row_writer(out)
    for row in (list(columns), *zip(*columns.values(), strict=True)):
        write([_written(cell) for cell in row])
    return out.getvalue()


def row_writer(out: IO[str]) -> Callable[[Sequence[Any]], None]:
    """What writes one row after the other as CSV, such that it is read back as it was.

    Rows with a carriage return are quoted whole: the csv module leaves one as it is, and readers end a line there.
    """
    plain, quoted = csv.writer(out, lineterminator="\n"), csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def write(row: Sequence[Any]) -> None:
        writer = plain
        if any(isinstance(cell, str) and "\r" in cell for cell in row):
            writer = quoted
        writer.writerow(row)

    return write


def _written(cell: Any) -> Any:
    """A cell for the csv module: nothing where it is missing, and a NumPy scalar as Python's."""
    if is_missing(cell):
        return ""
    if hasattr(cell, "item"):
        return cell.item()
    return cell


def for_spreadsheets(columns: Mapping[str, Sequence[Any]]) -> Table:
    """The table with an apostrophe before every text that a spreadsheet would take for a formula, names included.

    Those begin with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return. Numbers stay as they are, also those that
    are written as texts ("-1"). A text that has apostrophes before such a sign gets another one, so that no two texts
    become the same: whoever takes one away has what was there.
    """
    return {str(_harmless(name)): [_harmless(cell) for cell in cells] for name, cells in columns.items()}


def _harmless(cell: Any) -> Any:
    text = str(cell)
    if isinstance(cell, numbers.Number) or _NUMBER.fullmatch(text) or not _FORMULA.match(text):
        return cell
    return f"'{text}"
