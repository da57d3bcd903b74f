"""The private table: rows go in here, and come out only as samples that can be spent once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.privacy.groups import USUAL, Persons
from dpmac.privacy.mixing import ROWS, check_apart
from dpmac.privacy.origin import PUBLIC, Origin, origin_of
from dpmac.privacy.sampling import MULTIPLE, Batch, Columns, Map, PoissonSampler, block_size, gathered


class PrivateRows:
    """The private table: columns of equal length (inputs, targets). Its rows leave only as batches.

    It has ``n`` places, a public number; a place holds a row or is blank (:meth:`without`). With ``groups``, an id for
    each row, a place is a person's: it holds all rows with that person's id, of which a release takes ``max_rows`` at
    most, and n is the number of persons (:mod:`dpmac.privacy.groups`). The number of rows is then private.
    """

    def __init__(self, *columns: Tensor, groups: Any = None, max_rows: int = USUAL) -> None:
        if not columns:
            raise ArgumentError("columns", columns, "give at least one tensor with a row per example")
        lengths = [len(column) for column in columns]
        if len(set(lengths)) != 1:
            raise ArgumentError("columns", lengths, "every column needs the same number of rows")
        self._columns = columns
        self._rows: Tensor | Persons = torch.arange(lengths[0])  # the row at every place, -1 for none
        self._front: Map | None = None
        self.origin = PUBLIC  # the releases that have shaped a front which the rows are behind
        if groups is not None:
            self._rows = groups if isinstance(groups, Persons) else Persons.of(groups, max_rows)
            if self._rows.rows != lengths[0]:
                raise ArgumentError(
                    "groups", f"{self._rows.rows} ids", f"there are {lengths[0]} rows: give one for each"
                )

    @property
    def n(self) -> int:
        return len(self._rows)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of one row of every column: public."""
        shapes = [tuple(column.shape[1:]) for column in self._columns]
        if self._front is not None:
            with torch.no_grad():
                shapes[0] = tuple(self._front(self._columns[0].new_zeros(MULTIPLE, *shapes[0])).shape[1:])
        return shapes

    def blank(self, count: int) -> Columns:
        """``count`` rows of zeros in every column, of the shapes and kinds that a query gets: public."""
        first, *others = (column.new_zeros(count, *column.shape[1:]) for column in self._columns)
        return (first if self._front is None else self._front(first), *others)

    @property
    def device(self) -> torch.device:
        return self._columns[0].device

    def to(self, device: torch.device) -> PrivateRows:
        """The table on another device."""
        table = self._with(tuple(column.to(device) for column in self._columns), self._rows)
        front, home = self._front, self.device
        if front is not None and home != device:
            table._front = lambda rows: front(rows.to(home)).to(device)
        return table

    def sample(self, sampler: PoissonSampler) -> Batch:
        """A fresh Poisson sample, carrying the sampler's rate."""
        if sampler.n != self.n:
            raise ArgumentError("sampler.n", sampler.n, f"the table has {self.n} places: build the sampler for them")
        drawn = (self._rows, sampler.draw(), sampler.rate, sampler.source.seeded, sampler.overflow)
        return Batch(self._columns, *drawn, self._front, self.origin)

    def everything(self) -> Batch:
        """All rows, unsampled (rate 1): for one-shot releases such as DP-PCA."""
        return Batch(self._columns, self._rows, None, 1.0, seeded=False, front=self._front, origin=self.origin)

    def without(self, place: int) -> PrivateRows:
        """The neighbouring table: the row at ``place``, or all rows of the person there, deleted from every column, and
        the place left blank; n stays."""
        if isinstance(self._rows, Persons):
            others, kept = self._rows.without(place)
            return self._with(_kept(self._columns, kept), others)
        row = int(self._rows[place])
        if row < 0:
            raise ArgumentError("place", place, "it is blank already")
        rows = torch.where(self._rows == row, -1, self._rows - (self._rows > row).long())
        return self._with(_kept(self._columns, torch.arange(len(self._columns[0])) != row), rows)

    @torch.no_grad()
    def behind(self, front: Map) -> PrivateRows:
        """The table with ``front`` of its first column in place of that column, computed once.

        For a front that is dear: the rows go through it in blocks of one public shape, each at its own place, and a
        blank place holds zeros there. So the row that comes or goes finds every other row's numbers as they were,
        bit for bit, exactly as if the front were applied anew in every release. What comes out is as private as what
        went in, and stays inside. Rows of persons have no place of their own, and their number is private: there the
        front is applied to every block of every release, as if it were part of the query. What has shaped the front
        goes with the table: a release into a ledger that does not hold it is refused.
        """
        check_apart("front", front, self.blank(ROWS)[:1])
        if isinstance(self._rows, Persons):
            first, table = self._front, self._with(self._columns, self._rows)
            table._front = front if first is None else lambda rows: front(first(rows))
            table.origin = Origin.together(self.origin, origin_of(front))
            return table
        size = block_size(self.n, None)
        padded = torch.cat([self._rows, torch.full((-self.n % size,), -1)]).unsqueeze(1).to(self.device)
        blocks = [front(gathered(self._columns[:1], at)[0][0]) for at in torch.split(padded, size)]
        inputs = torch.cat(blocks)[: self.n]
        others = gathered(self._columns[1:], padded[: self.n])[0]
        table = self._with((inputs, *others), torch.where(self._rows >= 0, torch.arange(self.n), -1))
        table.origin = Origin.together(self.origin, origin_of(front))
        return table

    def _with(self, columns: Columns, rows: Tensor | Persons) -> PrivateRows:
        table = PrivateRows(*columns)
        table._rows, table._front, table.origin = rows, self._front, self.origin
        return table


def _kept(columns: Columns, kept: Tensor) -> Columns:
    return tuple(column[kept.to(column.device)] for column in columns)
