"""Where rows are kept that were read once: in memory, or with the files that they came from (on the disk: scratch.py).

Each takes blocks of rows in order and is then asked for what became of them: columns, or a store of them.
"""

from __future__ import annotations

import bisect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.extensions.stores import Store
from dpmac.kernels.gathering import Columns
from dpmac.tables.kinds import Array

Block = tuple[Array, ...]


class Keeper(Protocol):
    """Something that rows are put into, block after block."""

    def add(self, block: Sequence[Array]) -> None:
        """The next rows."""

    def finished(self) -> Columns | Store:
        """All rows: what a private table is made of."""


class InMemory:
    """Columns in memory, of ``n`` rows; ``whole`` where all that is made of them fits as well, a store otherwise."""

    def __init__(self, n: int, block: Block, whole: bool) -> None:
        self._columns = [np.empty((n, *column.shape[1:]), column.dtype) for column in block]
        self._filled, self._whole = 0, whole

    def add(self, block: Sequence[Array]) -> None:
        stop = self._filled + len(block[0])
        for column, more in zip(self._columns, block, strict=True):
            column[self._filled : stop] = more
        self._filled = stop

    def finished(self) -> Columns | Store:
        columns = tuple(torch.from_numpy(column) for column in self._columns)
        if self._whole:
            return columns
        return Held(columns)


class Held:
    """A store of rows that are in memory; what a feature map makes of them is computed anew for every sample."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def blank(self) -> Columns:
        return tuple(column[:0] for column in self._columns)

    def fetch(self, rows: Tensor) -> Columns:
        return tuple(column.index_select(0, rows) for column in self._columns)


class Grouped:
    """Rows that stay in their Parquet files: of each sample the row groups are read that it touches, and decoded anew.

    ``starts`` is where every group begins, and where the last one ends; ``read(first, last)`` reads rows and makes
    columns of them. Groups that were decoded last are kept, within ``memory`` bytes.
    """

    def __init__(
        self, starts: list[int], read: Callable[[int, int], Block], block: Block, memory: int, what: str
    ) -> None:
        self._starts, self._read, self._what = starts, read, what
        self._blank = tuple(torch.from_numpy(column[:0].copy()) for column in block)
        row = sum(column[:1].nbytes for column in block)
        longest = max(stop - start for start, stop in pairwise(starts))
        if longest * row > memory:
            fix = (
                f"a row group of it takes {longest * row / 2**20:.0f} MiB, more than the memory that rows may take: "
                "rewrite it with smaller row groups (row_group_size=65536), or give a scratch folder"
            )
            raise ArgumentError("file", what, fix)
        self._room = memory // max(row, 1)  # rows
        self._kept: OrderedDict[int, Columns] = OrderedDict()

    def add(self, block: Sequence[Array]) -> None:
        """Nothing: they have been looked at, and that was all."""

    def finished(self) -> Store:
        return self

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def blank(self) -> Columns:
        return self._blank

    def fetch(self, rows: Tensor) -> Columns:
        found = [blank.new_empty((len(rows), *blank.shape[1:])) for blank in self._blank]
        numbers, at = rows.numpy(), 0
        while at < len(numbers):
            group = bisect.bisect_right(self._starts, int(numbers[at])) - 1
            stop = int(np.searchsorted(numbers, self._starts[group + 1]))
            here = rows[at:stop] - self._starts[group]
            for column, decoded in zip(found, self._group(group), strict=True):
                torch.index_select(decoded, 0, here, out=column[at:stop])
            at = stop
        return tuple(found)

    def _group(self, group: int) -> Columns:
        columns = self._kept.get(group)
        if columns is not None:
            self._kept.move_to_end(group)
            return columns
        rows = self._starts[group + 1] - self._starts[group]
        while self._kept and rows + sum(len(kept[0]) for kept in self._kept.values()) > self._room:
            self._kept.popitem(last=False)
        read: Any = self._read(self._starts[group], self._starts[group + 1])
        columns = self._kept[group] = tuple(torch.from_numpy(column) for column in read)
        return columns
