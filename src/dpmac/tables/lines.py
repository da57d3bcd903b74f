"""Lines of a CSV file, as an editor counts them: where an error that names a row finds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpmac.checks import ArgumentError
from dpmac.tables.files import PARQUET, csv_starts
from dpmac.tables.kinds.shared import CellError

_ROW = ", row "


@contextmanager
def at_lines(file: str | Path) -> Iterator[None]:
    """Inside, an error of rows that were read from this file names the file and, of a CSV file, the line.

    Only where every row of the file is read, in its order.
    """
    try:
        yield
    except ArgumentError as error:
        found = located(error, file)
        if found is error:
            raise
        raise found from None


def located(error: ArgumentError, file: str | Path) -> ArgumentError:
    """The error with the line of its row; the same one if it names no row of a CSV file."""
    path = Path(file)
    where, row, number = str(error.name).rpartition(_ROW)
    if not row or not number.isdecimal() or path.is_dir() or path.suffix.lower() in PARQUET:
        return error
    line = line_of(path, int(number))
    if line is None:
        return error
    place = f"{path.name}, line {line}, {where}"
    if isinstance(error, CellError):
        return error.at(place)
    return ArgumentError(place, error.value, error.fix)


def line_of(path: Path, row: int) -> int | None:
    """The line on which a row begins, both as they are in the file: the first line is 1, the first row is 0."""
    try:
        for place, line in enumerate(csv_starts(path)):
            if place == row:
                return line
    except (OSError, ArgumentError):  # it was there when it was read, and an error is on its way
        return None
    return None
