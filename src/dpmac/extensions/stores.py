"""Rows that are not in memory: fetched by number when a sample needs them, and in advance where possible.

A :class:`Store` takes the place of a table's columns. The results are the same as for rows in memory, bit for bit: a
store moves numbers and does not change them. It runs inside the release, and its running time, the files it touches and
the amount it reads are as private as the rows (docs/threat-model.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import torch
from torch import Tensor

from dpmac.kernels.gathering import Columns


class Store(Protocol):
    """Columns of equal length outside memory. Rows never change."""

    def __len__(self) -> int:
        """The number of rows."""

    @property
    def blank(self) -> Columns:
        """Every column with no rows, on the CPU: the public shapes and dtypes."""

    def fetch(self, rows: Tensor) -> Columns:
        """The rows with these numbers, which are ascending and distinct, of every column, on the CPU; thread-safe."""


class BackgroundFetcher:
    """Fetches rows in the background, in the order of the requests."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="dpmac-rows")

    def fetch(self, rows: Tensor) -> Future[Fetched]:
        """A future for the rows ``rows`` (-1 for none, in any order)."""
        wanted = torch.unique(rows[rows >= 0])
        return self._pool.submit(lambda: Fetched(wanted, self._checked(wanted)))

    def prefetched(self, rows: Tensor) -> Prefetched:
        """A fetcher for these rows only, which starts to fetch them now."""
        return Prefetched(self.fetch(rows))

    def _checked(self, rows: Tensor) -> Columns:
        """The store's rows, checked to have the promised dtypes and shapes, which must not depend on the rows."""
        found, blank = self.store.fetch(rows), self.store.blank
        forms = [(len(column), column.dtype, column.shape[1:], column.device.type) for column in found]
        if forms != [(len(rows), kind.dtype, kind.shape[1:], "cpu") for kind in blank]:
            raise TypeError(f"the store {type(self.store).__name__} gave columns of another kind than it has said")
        return found

    def each(self, blocks: Iterator[Tensor]) -> Iterator[tuple[Columns, Tensor]]:
        """For each block of row numbers: columns, and the row numbers within these; the next block is prefetched."""
        waiting: tuple[Tensor, Future[Fetched]] | None = None
        for block in blocks:
            coming = block, self.fetch(block)
            if waiting is not None:
                yield waiting[1].result().at(waiting[0])
            waiting = coming
        if waiting is not None:
            yield waiting[1].result().at(waiting[0])


class Prefetched:
    """Some rows of a store that are being fetched."""

    def __init__(self, coming: Future[Fetched]) -> None:
        self._coming = coming

    def prefetched(self, rows: Tensor) -> Prefetched:  # noqa: ARG002 - already being fetched
        return self

    def each(self, blocks: Iterator[Tensor]) -> Iterator[tuple[Columns, Tensor]]:
        there = self._coming.result()
        return (there.at(block) for block in blocks)


class Fetched:
    """Some rows of a store, in memory."""

    def __init__(self, rows: Tensor, columns: Columns) -> None:
        self._rows, self._columns = rows, columns

    def at(self, rows: Tensor) -> tuple[Columns, Tensor]:
        """The columns, and the positions in them of the rows with these numbers; -1 stays -1."""
        place = torch.searchsorted(self._rows, rows.clamp(min=0).contiguous())
        return self._columns, torch.where(rows >= 0, place, -1)
