"""A table in files, which need not fit into memory: Parquet, a folder of it, CSV, or any dataset of pyarrow."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dpmac.checks import ArgumentError, integer
from dpmac.extensions.stores import Store
from dpmac.kernels.gathering import Columns
from dpmac.tables.coding import Reader, cells_of, distinct, unreadable
from dpmac.tables.files import PARQUET, Table, read_table
from dpmac.tables.ids import Ids
from dpmac.tables.keeping import Block, Grouped, InMemory, Keeper
from dpmac.tables.kinds import Array
from dpmac.tables.kinds.shared import CellError
from dpmac.tables.schema import Schema
from dpmac.tables.scratch import Scratch
from dpmac.tables.sources import Cells, is_dataset, source_of
from dpmac.tables.texts import did_you_mean

MEMORY = 2**30
ROWS = 65536  # of a batch
LARGE = 64 * 2**20  # bytes of a CSV file that is read whole; beyond, batch by batch
OnRows = Callable[[int, int], None]  # rows read, rows in all


class Files(Mapping[str, list[Any]]):
    """The columns of a table in files by name; ``n`` is the number of its rows, which never change.

    ``source`` is the path of a Parquet file, of a folder of them (all below it, by path; folders called ``name=value``
    are columns) or of a CSV file, or a ``pyarrow.dataset.Dataset``. Nothing but their heads is read here.

    An estimator reads all rows once, and checks them. Then it keeps them in memory, if they take no more than
    ``memory`` bytes there (None: 1 GiB); else in a file without a name in the folder ``scratch`` ("auto": the system's
    temporary one), which is gone when the fit ends. With ``scratch=None`` nothing is written: of every sample the row
    groups that it touches are read again, which takes Parquet files, and time. What is learned is the same, bit for
    bit. ``progress`` is whether a bar is shown while all rows are read, "auto" on a terminal. What is left at its
    default is as the :class:`dpmac.Machine` of the estimator says.

    As a mapping it reads a whole column into memory, as :func:`dpmac.tables.files.read_table` has it.
    """

    def __init__(
        self,
        source: Any,
        *,
        memory: int | None = None,
        scratch: str | Path | Literal["auto"] | None = "auto",
        progress: bool | Literal["auto"] | None = None,
    ) -> None:
        if memory is not None:
            integer("memory", memory, "give the bytes that rows may take in memory, from 1 on")
        self.memory, self.scratch, self.progress = memory, scratch, progress
        self._source = source_of(source)
        self._names = self._source.names
        self._window: tuple[int, int] | None = None
        self._check_scratch()

    def _check_scratch(self) -> None:
        if self.scratch is None and self._source.groups is None:
            fix = "its rows cannot be read by number: rewrite it as Parquet with row groups, or give a scratch folder"
            raise ArgumentError("scratch", None, f"{self._source.what}: {fix}")

    @property
    def what(self) -> str:
        """The path, or what else it is: for errors."""
        return self._source.what

    @property
    def n(self) -> int:
        """The number of rows."""
        first, last = self._bounds()
        return last - first

    def part(self, rank: int, size: int) -> Files:
        """The rows n rank / size to before n (rank + 1) / size, for one of ``size`` processes."""
        integer("size", size, "give the number of parts, at least 1")
        integer("rank", rank, f"give the number of a part, from 0 to {size - 1}", low=0, high=size - 1)
        first, n = self._bounds()[0], self.n
        piece = copy.copy(self)
        piece._window = (first + n * rank // size, first + n * (rank + 1) // size)
        return piece

    def only(self, names: Sequence[str]) -> Files:
        """The same rows with these columns alone."""
        self.need(names)
        fewer = copy.copy(self)
        fewer._names = list(names)
        return fewer

    def within(self, memory: int, scratch: str | Path | None) -> Files:
        """The same table, with this memory and this scratch folder where none was chosen."""
        same = copy.copy(self)
        if same.memory is None:
            same.memory = memory
        if same.scratch == "auto":
            same.scratch = scratch
        same._check_scratch()
        return same

    def batches(self, names: Sequence[str], rows: int = ROWS) -> Iterator[Cells]:
        """The cells of these columns, at most ``rows`` rows at a time, in order: arrow arrays, or lists."""
        self.need(names)
        return self._source.batches(names, *self._bounds(), rows)

    def need(self, names: Sequence[str]) -> None:
        """Raise unless all these columns are there."""
        known = self._names
        for name in names:
            if name not in known:
                shown = ", ".join(known[:12])
                if len(known) > 12:
                    shown += f" and {len(known) - 12} more"
                fix = f"the table has no such column, but {shown}{did_you_mean(name, known)}"
                raise ArgumentError("column", name, fix)

    def _bounds(self) -> tuple[int, int]:
        if self._window is None:
            return 0, self._source.rows
        return self._window

    # --- as a mapping -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        """The number of columns, as of any mapping."""
        return len(self._names)

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._names:
            raise KeyError(name)
        return [cell for batch in self.batches([name]) for cell in cells_of(batch[name])]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __repr__(self) -> str:
        return f"Files({self.what!r}, columns={self._names})"

    def different(self, name: str) -> Iterator[Any]:
        """The values of a column, batch by batch, each once in a batch where they can be told apart; then None."""
        for batch in self.batches([name]):
            cells = batch[name]
            if isinstance(cells, list):
                yield from dict.fromkeys(cells)
            else:
                yield from distinct(cells)[0]

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(
        self,
        reader: Reader,
        *,
        ids: str | None = None,
        beside: int = 0,
        on_rows: OnRows | None = None,
        seen: Callable[[Array], None] | None = None,
    ) -> Read:
        """All rows, read once and checked, and then kept as this table's ``memory`` and ``scratch`` say.

        ``beside`` are the bytes that will be made of every row if they are in memory. ``ids`` is the column that says
        whose a row is. ``seen`` is shown the codes of every batch. A cell that cannot be read is an error that names
        it by the row's number, and nothing is kept.
        """
        self.need(reader.names)
        whose, names = None, list(dict.fromkeys(reader.names))
        if ids is not None:
            whose = Ids(ids)
            if ids not in names:
                names.append(ids)
        kept: Keeper | None = None
        done, n, before = 0, self.n, self._bounds()[0]  # rows are told by their number in the whole table
        for batch in self.batches(names):
            block = self._block(reader, batch, before + done)
            if kept is None:
                kept = self._keeper(reader, block, beside)
            kept.add(block)
            if seen is not None:
                seen(block[0])
            if whose is not None:
                whose.add(batch[whose.name], before + done)
            done += len(block[0])
            if on_rows is not None:
                on_rows(done, n)
        if n == 0:
            raise ArgumentError("file", self.what, "it has no rows: give some")
        if done != n or kept is None:
            raise ArgumentError("file", self.what, "it was written to while it was read: bring it back as it was")
        return Read(kept.finished(), None if whose is None else whose.codes())

    def _block(self, reader: Reader, batch: Cells, first: int) -> Block:
        """What is read of a batch; an error of a column counts its bad cells in the whole table."""
        try:
            return reader.read(batch, first)
        except CellError:
            start = self._bounds()[0]
            for wrong in unreadable(reader, self.batches(list(reader.columns)), start):
                raise wrong from None
            raise  # of the target

    def _keeper(self, reader: Reader, block: Block, beside: int) -> Keeper:
        row = sum(column[:1].nbytes for column in block)
        memory = self.memory
        if memory is None:
            memory = MEMORY
        if self.n * row <= memory:
            return InMemory(self.n, block, whole=self.n * (row + beside) <= memory)
        if self.scratch is not None:
            folder = self.scratch
            if folder == "auto":
                folder = tempfile.gettempdir()
            return Scratch(self.n, block, Path(folder))
        first, last = self._bounds()
        source = self._source
        every = source.groups
        assert every is not None
        starts = [first, *(start for start in every if first < start < last), last]

        def rows(start: int, stop: int) -> Block:
            found = source.batches(reader.names, first + start, first + stop, ROWS)
            blocks = [reader.read(batch, first + start) for batch in found]
            return tuple(np.concatenate(columns) for columns in zip(*blocks, strict=True))

        return Grouped([start - first for start in starts], rows, block, memory, self.what)


@dataclass(frozen=True, eq=False)
class Read:
    """All rows of a table in files: columns in memory, or a store; and a number for each row that says whose it is."""

    rows: Columns | Store
    ids: Array | None = None

    @property
    def columns(self) -> tuple[Any, ...]:
        """What a private table is made of."""
        if isinstance(self.rows, tuple):
            return self.rows
        return (self.rows,)


def files_of(table: Any) -> Files | None:
    """A table in files: given as such, by its path, or as a dataset of pyarrow; None of anything else."""
    if isinstance(table, Files):
        return table
    if isinstance(table, str | Path) or is_dataset(table):
        return Files(table)
    return None


def open_table(path: str | Path, schema: Schema | None = None, **how: Any) -> Table | Files:
    """A small CSV file as :func:`read_table` has it, in memory; any other table as :class:`Files`."""
    where = Path(path)
    most = LARGE
    if where.suffix.lower() == ".gz":
        most = LARGE // 8
    small = where.is_file() and where.stat().st_size < most
    if not where.exists() or (small and where.suffix.lower() not in PARQUET):
        return read_table(path, schema)
    return Files(path, **how)
