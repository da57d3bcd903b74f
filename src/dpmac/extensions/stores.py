"""Rows that are not in memory: fetched by their numbers when a sample needs them, and ahead of that where it can be.

A :class:`Store` stands where a table's columns would. What is computed from fetched rows is what would be computed from
rows in memory, bit for bit: a store moves numbers, and does nothing to them. It runs inside the door, and how long it
takes, which of its files it touches and how much it reads are as private as the rows (docs/threat-model.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import torch
from torch import Tensor

from dpmac.kernels.gathering import Columns


class Store(Protocol):
    """Columns of equal length, somewhere. Rows never change."""

    def __len__(self) -> int:
        """The number of rows."""

    @property
    def blank(self) -> Columns:
        """No rows of every column, on the CPU: their shapes and kinds, public."""

    def fetch(self, rows: Tensor) -> Columns:
        """The rows of these numbers, ascending and each once, of every column, on the CPU; from any thread."""


class Ahead:
    """Fetches in the background, one after the other: what is asked first is there first."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="dpmac-rows")

    def fetch(self, rows: Tensor) -> Future[Fetched]:
        """The rows ``rows`` (-1 for none, in any order), as soon as they are there."""
        wanted = torch.unique(rows[rows >= 0])
        return self._pool.submit(lambda: Fetched(wanted, self._checked(wanted)))

    def prefetched(self, rows: Tensor) -> Prefetched:
        """Those rows alone, fetched from now on."""
        return Prefetched(self.fetch(rows))

    def _checked(self, rows: Tensor) -> Columns:
        """What the store gives, of the kinds that it promised: none may follow from the rows that came along."""
        found, blank = self.store.fetch(rows), self.store.blank
        forms = [(len(column), column.dtype, column.shape[1:], column.device.type) for column in found]
        if forms != [(len(rows), kind.dtype, kind.shape[1:], "cpu") for kind in blank]:
            raise TypeError(f"the store {type(self.store).__name__} gave columns of another kind than it has said")
        return found

    def each(self, blocks: Iterator[Tensor]) -> Iterator[tuple[Columns, Tensor]]:
        """Block after block of row numbers, as columns and places in them; the next one is fetched meanwhile."""
        waiting: tuple[Tensor, Future[Fetched]] | None = None
        for block in blocks:
            coming = block, self.fetch(block)
            if waiting is not None:
                yield waiting[1].result().at(waiting[0])
            waiting = coming
        if waiting is not None:
            yield waiting[1].result().at(waiting[0])


class Prefetched:
    """Some rows of a store, on their way."""

    def __init__(self, coming: Future[Fetched]) -> None:
        self._coming = coming

    def prefetched(self, rows: Tensor) -> Prefetched:  # noqa: ARG002 - they are
        return self

    def each(self, blocks: Iterator[Tensor]) -> Iterator[tuple[Columns, Tensor]]:
        there = self._coming.result()
        return (there.at(block) for block in blocks)


class Fetched:
    """Some rows of a store, in memory."""

    def __init__(self, rows: Tensor, columns: Columns) -> None:
        self._rows, self._columns = rows, columns

    def at(self, rows: Tensor) -> tuple[Columns, Tensor]:
        """The columns, and where in them the rows of these numbers are; -1 stays -1."""
        place = torch.searchsorted(self._rows, rows.clamp(min=0).contiguous())
        return self._columns, torch.where(rows >= 0, place, -1)
