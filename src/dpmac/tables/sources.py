"""Where a table's rows lie: Parquet row groups, any other dataset of pyarrow, or a CSV file. pyarrow moves the bytes.

A source knows the names of its columns, counts its rows, and reads some columns of a run of rows batch by batch, in one
order that never changes. Only Parquet has row groups: rows that can be read without those before them.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from dpmac.checks import ArgumentError
from dpmac.tables.files import PARQUET, csv_batches, csv_names

Cells = Mapping[str, Any]  # the cells of a batch by column: an arrow array, or a list
EXPANDED = 2**26  # bytes of a batch's texts; beyond, its rows are given in smaller batches
_CHANGED = "it was written to since it was first read: bring it back as it was"
_INSTALL = "tables in Parquet files need pyarrow: pip install 'dpmac[parquet]', or save the table as CSV"


class Source(Protocol):
    """A table that is not in memory."""

    what: str

    @property
    def names(self) -> list[str]:
        """The columns' names, in order."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def groups(self) -> list[int] | None:
        """Where every row group begins, and where the last one ends; None where rows cannot be addressed."""

    def batches(self, names: Sequence[str], first: int, last: int, size: int) -> Iterator[Cells]:
        """The rows from ``first`` to before ``last`` in batches of at most ``size``, in order."""


class ParquetRows:
    """The row groups of a dataset whose fragments are all Parquet, one after the other."""

    def __init__(self, dataset: Any, what: str, plain: Collection[str] = ()) -> None:
        """``plain`` are the columns that the dataset reads as dictionaries, and that are given as texts."""
        self.what, self._dataset, self._plain = what, dataset, plain
        with reading(what):
            self._pieces = [(part, group) for part in dataset.get_fragments() for group in part.row_groups]
            sizes = [group.num_rows for _, group in self._pieces]
            self._seen = {part.path: _sight(part.path) for part, _ in self._pieces}
        self.groups: list[int] | None = list(accumulate(sizes, initial=0))
        self.names = _names_of(dataset, what)

    @property
    def rows(self) -> int:
        assert self.groups is not None
        return self.groups[-1]

    def batches(self, names: Sequence[str], first: int, last: int, size: int) -> Iterator[Cells]:
        assert self.groups is not None
        for place in range(bisect.bisect_right(self.groups, first) - 1, len(self._pieces)):
            start = self.groups[place]
            if start >= last:
                return
            fragment, group = self._pieces[place]
            there = min(self.groups[place + 1], last) - max(start, first)
            self._check_unchanged(fragment.path)
            with reading(self.what):
                few = fragment.subset(row_group_ids=[group.id])
                found = few.to_batches(schema=self._dataset.schema, columns=list(names), batch_size=size)
                got = 0
                for batch in _within(found, start, first, last):
                    got += batch.num_rows
                    yield from map(partial(_cells, names=names), _narrow(batch, self._plain))
            self._check_unchanged(fragment.path)
            if got != there:
                raise ArgumentError("file", self.what, _CHANGED)

    def _check_unchanged(self, path: str) -> None:
        """Raise if a file is another than when its head was read, by what the disk says of it."""
        if _sight(path) != self._seen[path]:
            raise ArgumentError("file", path, _CHANGED)


class DatasetRows:
    """Any other dataset of pyarrow (CSV, Feather, a filter): read in order, from the first row on."""

    groups: list[int] | None = None

    def __init__(self, dataset: Any, what: str) -> None:
        self.what, self._dataset = what, dataset
        self.names = _names_of(dataset, what)

    @cached_property
    def rows(self) -> int:
        with reading(self.what):
            return int(self._dataset.count_rows())

    def batches(self, names: Sequence[str], first: int, last: int, size: int) -> Iterator[Cells]:
        with reading(self.what):
            found = self._dataset.to_batches(columns=list(names), batch_size=size, batch_readahead=2)
            for batch in _within(found, 0, first, last):
                yield _cells(batch, names)


class CsvRows:
    """A CSV file, read as :func:`dpmac.tables.files.read_table` reads it: every cell a text."""

    groups: list[int] | None = None

    def __init__(self, path: Path) -> None:
        self.what, self._path = str(path), path
        self.names = csv_names(path)

    @cached_property
    def rows(self) -> int:
        return sum(len(next(iter(table.values()))) for table in csv_batches(self._path, 4096))

    def batches(self, names: Sequence[str], first: int, last: int, size: int) -> Iterator[Cells]:
        start = 0
        for table in csv_batches(self._path, size):
            stop = start + len(next(iter(table.values())))
            if start < last and stop > first:
                yield {name: table[name][max(first - start, 0) : last - start] for name in names}
            start = stop
            if start >= last:
                return


def source_of(given: Any) -> Source:
    """The source of a path, or of a dataset of pyarrow."""
    if isinstance(given, str | Path):
        path = Path(given)
        if not path.exists():
            raise ArgumentError("file", str(path), "there is no such file or folder")
        if path.is_file() and path.suffix.lower() not in PARQUET:
            return CsvRows(path)
        return _parquet_at(path)
    if not is_dataset(given):
        fix = "give the path of a Parquet file, of a folder of them or of a CSV file, or a pyarrow Dataset"
        raise ArgumentError("source", type(given).__name__, fix)
    what = f"pyarrow {type(given).__name__}"
    filtered = bool(getattr(given, "_scan_options", None))  # what its row groups hold is then not what it holds
    with reading(what):
        parquet = not filtered and all(hasattr(part, "row_groups") for part in given.get_fragments())
    if parquet:
        return ParquetRows(given, what)
    return DatasetRows(given, what)


def is_dataset(given: Any) -> bool:
    """Whether this is a ``pyarrow.dataset.Dataset``; pyarrow is not imported for it."""
    kinds = type(given).__mro__
    return any(kind.__name__ == "Dataset" and kind.__module__.startswith("pyarrow") for kind in kinds)


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files below a folder by path, without those (or those in folders) that begin with ``.`` or ``_``."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in PARQUET and path.is_file())
    seen = (path for path in found if not any(part[0] in "._" for part in path.relative_to(folder).parts))
    return sorted(seen, key=lambda path: path.relative_to(folder).as_posix())


@contextmanager
def reading(what: str) -> Iterator[None]:
    """What pyarrow cannot read is an error that names the file."""
    try:
        yield
    except ArgumentError:
        raise
    except (ValueError, OSError, NotImplementedError, KeyError) as error:  # pyarrow's errors are among these
        said = (str(error).splitlines() or [""])[0]
        raise ArgumentError("file", what, f"it cannot be read ({said})") from None


def _parquet_at(path: Path) -> ParquetRows:
    """A Parquet file or a folder of them; folders called ``name=value`` are columns, as pyarrow has it.

    Texts are read as dictionaries. A file of 1 KB can hold one text of a megabyte for each of 60,000 rows: it stands
    there once, and so it stands in memory.
    """
    try:
        from pyarrow import dataset, fs
    except ImportError:
        raise ArgumentError("file", str(path), _INSTALL) from None
    if path.is_dir():
        base, files = path, parquet_files(path)
    else:
        base, files = path.parent, [path]
    if not files:
        raise ArgumentError("file", str(path), "there is no Parquet file in this folder (.parquet or .pq)")
    with reading(str(path)):
        choices = dataset.FileSystemFactoryOptions(
            partition_base_dir=base.absolute().as_posix(), partitioning=dataset.HivePartitioning.discover()
        )
        paths = [file.absolute().as_posix() for file in files]

        def read(**how: Any) -> Any:
            form = dataset.ParquetFileFormat(default_fragment_scan_options=dataset.ParquetFragmentScanOptions(), **how)
            return dataset.FileSystemDatasetFactory(fs.LocalFileSystem(), paths, form, choices).finish()

        heads = [part.physical_schema for part in read().get_fragments()]
        texts = {  # in every file: arrow does not cast other types to dictionaries
            str(column.name)
            for column in heads[0]
            if all(one.get_all_field_indices(column.name) and one.field(column.name).type == "string" for one in heads)
        }
        return ParquetRows(read(dictionary_columns=texts), str(path), texts)


def _names_of(dataset: Any, what: str) -> list[str]:
    names = [str(name) for name in dataset.schema.names]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError("file", what, f"the column {name!r} is there more than once: rename or drop one")
    return names


def _sight(path: str) -> tuple[int, int, int] | None:
    """What identifies the content of a file on this machine, as far as the disk knows; None for a file elsewhere."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _within(batches: Iterator[Any], start: int, first: int, last: int) -> Iterator[Any]:
    """Of batches of rows from ``start`` on, what lies from ``first`` to before ``last``."""
    for batch in batches:
        stop = start + batch.num_rows
        if start < last and stop > first:
            skipped = max(first - start, 0)
            yield batch.slice(skipped, min(stop, last) - start - skipped)
        start = stop
        if start >= last:
            return


def _narrow(batch: Any, plain: Collection[str]) -> Iterator[Any]:
    """The batch with texts in place of these dictionaries, in pieces whose texts take no more than EXPANDED bytes.

    A row whose own texts are longer is a piece by itself.
    """
    from pyarrow import compute, types

    texts = [
        name for name in batch.schema.names if name in plain and types.is_dictionary(batch.schema.field(name).type)
    ]
    size = 0
    for name in texts:
        codes = batch.column(name)
        size += compute.sum(compute.binary_length(codes.dictionary).cast("int64").take(codes.indices)).as_py() or 0
    if size > EXPANDED and batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from _narrow(batch.slice(0, half), plain)
        yield from _narrow(batch.slice(half), plain)
        return
    for name in texts:
        codes = batch.column(name)
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, name, codes.dictionary_decode())
    yield batch


def _cells(batch: Any, names: Sequence[str]) -> Cells:
    return {name: batch.column(place) for place, name in enumerate(names)}
