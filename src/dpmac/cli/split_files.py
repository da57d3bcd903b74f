"""A table in a file, divided into files of its own kind, batch by batch: CSV into CSV, Parquet into Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from dpmac.checks import ArgumentError

if TYPE_CHECKING:
    import numpy as np

    from dpmac.extensions.splits import Splits
    from dpmac.tables import Files

NUMBER = "row"  # the column that numbers rows, where no column has ids
BATCH = 100_000
CSV = (".csv", ".gz", ".txt", ".tsv")
Places: TypeAlias = "np.ndarray[Any, Any]"


def ending_of(file: Path) -> str:
    """How the names of the new files end."""
    from dpmac.tables.files import PARQUET

    if file.is_dir() or file.suffix.lower() in PARQUET:
        return ".parquet"
    if file.suffix.lower() in CSV:
        return ".csv"
    raise ArgumentError("file", str(file), "give a CSV or a Parquet file, or a folder of Parquet files")


def look_over(files: Files, by: str | None) -> None:
    """Read all of it once: what cannot be read, or a row without an id, is an error before anything is kept."""
    from dpmac.cells import is_missing
    from dpmac.tables.coding import cells_of

    rows = 0
    for batch in files.batches(list(files), BATCH):
        cells = next(iter(batch.values()))
        if by is not None:
            for place, one in enumerate(cells_of(batch[by]), start=rows):
                if is_missing(one):
                    fix = "the row has no id: fill it in, or drop the row"
                    raise ArgumentError(f"column {by!r}, row {place}", one, fix)
        rows += len(cells)
    if not rows:
        raise ArgumentError("file", files.what, "it has no rows")


def write_parts(files: Files, known: Splits, by: str | None, paths: Mapping[str, Path]) -> dict[str, int]:
    """Write every row into the file of its split, in order; how many rows each of them has."""
    import numpy as np

    from dpmac.files import whole_file
    from dpmac.tables.coding import cells_of

    counts, done = dict.fromkeys(paths, 0), 0
    with ExitStack() as held:
        parts: list[Part] = []
        for batch in files.batches(list(files), BATCH):
            columns = dict(batch)
            rows = len(next(iter(batch.values())))
            if by is None:
                columns = {NUMBER: _numbers(done, done + rows, next(iter(batch.values()))), **batch}
            if not parts:
                handles = [held.enter_context(whole_file(path, _mode(path))) for path in paths.values()]
                parts = [_part(handle, columns, held) for handle in handles]
            found = known.of(cells_of(columns[by or NUMBER]))
            for place, name in enumerate(paths):
                these = np.flatnonzero(found == place)
                parts[place].add(columns, these)
                counts[name] += len(these)
            done += rows
    return counts


class Part(Protocol):
    """The file of a split."""

    def add(self, columns: Mapping[str, Any], rows: Places) -> None:
        """Write these rows of a batch."""


class CsvPart:
    """Rows of texts."""

    def __init__(self, handle: Any, names: Sequence[str]) -> None:
        from dpmac.tables.files import row_writer

        self._write = row_writer(handle)
        self._write(names)

    def add(self, columns: Mapping[str, Any], rows: Places) -> None:
        cells = list(columns.values())
        for row in rows.tolist():
            self._write([column[row] for column in cells])


class ParquetPart:
    """Rows of arrow's arrays, whose types are kept."""

    def __init__(self, handle: Any, columns: Mapping[str, Any], held: ExitStack) -> None:
        import pyarrow
        from pyarrow import parquet

        self._schema = pyarrow.schema([(name, column.type) for name, column in columns.items()])
        self._writer = held.enter_context(parquet.ParquetWriter(handle, self._schema))

    def add(self, columns: Mapping[str, Any], rows: Places) -> None:
        import pyarrow

        if len(rows):
            batch = pyarrow.record_batch(list(columns.values()), schema=self._schema)
            self._writer.write_batch(batch.take(pyarrow.array(rows)))


def _mode(path: Path) -> Any:
    return "wb" if path.suffix == ".parquet" else "w"


def _part(handle: Any, columns: Mapping[str, Any], held: ExitStack) -> Part:
    if isinstance(next(iter(columns.values())), list):
        return CsvPart(handle, list(columns))
    return ParquetPart(handle, columns, held)


def _numbers(first: int, last: int, like: Any) -> Any:
    """The numbers of rows, as a column of a batch of that kind."""
    if isinstance(like, list):
        return list(map(str, range(first, last)))
    import pyarrow

    return pyarrow.array(range(first, last), pyarrow.int64())
