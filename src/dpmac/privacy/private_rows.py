"""The private table: rows go in here, and come out only as samples that can be spent once."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.privacy.gathering import gathered
from dpmac.privacy.groups import ROW, USUAL, Persons
from dpmac.privacy.mixing import ROWS, check_apart
from dpmac.privacy.origin import PUBLIC, Origin, origin_of
from dpmac.privacy.sampling import MULTIPLE, Batch, Map, PoissonSampler, block_size
from dpmac.privacy.store import Ahead, Columns, Store
from dpmac.privacy.world import ALONE, World


class PrivateRows:
    """The private table: columns of equal length (inputs, targets). Its rows leave only as batches.

    It has ``n`` places, a public number; a place holds a row or is blank (:meth:`without`). With ``groups``, an id for
    each row, a place is a person's: it holds all rows with that person's id, of which a release takes ``max_rows`` at
    most, and n is the number of persons (:mod:`dpmac.privacy.groups`). The number of rows is then private.

    In place of columns there may be one :class:`~dpmac.privacy.store.Store`, of rows that are not in memory. With a
    ``world`` of several processes the rows are this one's part of the table, and n counts the places of all; a person's
    rows must then all be in one part.
    """

    def __init__(
        self, *columns: Tensor | Store, groups: Any = None, max_rows: int = USUAL, world: World = ALONE
    ) -> None:
        if not columns:
            raise ArgumentError("columns", columns, "give at least one tensor with a row per example")
        lengths = [len(column) for column in columns]
        if len(set(lengths)) != 1:
            raise ArgumentError("columns", lengths, "every column needs the same number of rows")
        tensors = tuple(column for column in columns if isinstance(column, Tensor))
        if len(tensors) < len(columns) and len(columns) > 1:
            raise ArgumentError("columns", columns, "a store has all columns: give it alone")
        self._columns: Columns | Ahead = tensors or Ahead(columns[0])  # type: ignore[arg-type]
        self._kinds = tensors[:] if tensors else columns[0].blank  # type: ignore[union-attr]
        self._device: torch.device = self._kinds[0].device
        self._rows: Tensor | Persons = torch.arange(lengths[0])  # the row at every place, -1 for none
        self._front: Map | None = None
        self.origin = PUBLIC  # the releases that have shaped a front which the rows are behind
        if groups is not None:
            given = isinstance(groups, Persons)
            persons: Persons = groups if given else Persons.of(groups, max_rows).whole_in(world, groups)
            if persons.world is not world:
                fix = "whether others have rows of these persons was not asked: persons.whole_in(world, ids)"
                raise ArgumentError("groups", persons, fix)
            if persons.rows != lengths[0]:
                raise ArgumentError("groups", f"{persons.rows} ids", f"there are {lengths[0]} rows: give one for each")
            self._rows = persons
        self.world = world
        whose = (self._rows.unit, self._rows.max_rows) if isinstance(self._rows, Persons) else (ROW, 1)
        world.agree("the unit of privacy, and rows of one in a step,", whose)
        self._shards = tuple(world.everyone(len(self._rows)))  # places in every process

    @property
    def n(self) -> int:
        return sum(self._shards)

    @property
    def stored(self) -> bool:
        """Whether the rows are fetched from somewhere, rather than in memory."""
        return isinstance(self._columns, Ahead)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of one row of every column: public."""
        shapes = [tuple(column.shape[1:]) for column in self._kinds]
        if self._front is not None:
            with torch.no_grad():
                shapes[0] = tuple(self._front(self._zeros(MULTIPLE)[0]).shape[1:])
        return shapes

    def blank(self, count: int) -> Columns:
        """``count`` rows of zeros in every column, of the shapes and kinds that a query gets: public."""
        first, *others = self._zeros(count)
        return (first if self._front is None else self._front(first), *others)

    def _zeros(self, count: int) -> list[Tensor]:
        return [torch.zeros(count, *kind.shape[1:], dtype=kind.dtype, device=self._device) for kind in self._kinds]

    @property
    def device(self) -> torch.device:
        return self._device

    def to(self, device: torch.device) -> PrivateRows:
        """The table on another device. Rows that are fetched will be put there block by block."""
        columns = self._columns
        table = self._with(tuple(c.to(device) for c in columns) if isinstance(columns, tuple) else columns, self._rows)
        table._device = device
        front, home = self._front, self.device
        if front is not None and home != device:
            table._front = lambda rows: front(rows.to(home)).to(device)
        return table

    def sample(self, sampler: PoissonSampler) -> Batch:
        """A fresh Poisson sample, carrying the sampler's rate."""
        if sampler.n != self.n:
            raise ArgumentError("sampler.n", sampler.n, f"the table has {self.n} places: build the sampler for them")
        places = sampler.draw(sum(self._shards[: self.world.rank]), self._shards[self.world.rank])
        return self._batch(places, sampler.rate, sampler.source.seeded, sampler.overflow)

    def everything(self) -> Batch:
        """All rows, unsampled (rate 1): for one-shot releases such as DP-PCA."""
        return self._batch(None, 1.0, seeded=False)

    def _batch(self, places: Tensor | None, rate: float, seeded: bool, overflow: float = 0.0) -> Batch:
        drawn = self._columns, self._rows, places, rate, seeded, overflow
        return Batch(*drawn, self._front, self.origin, self._device, self.world, self._shards)

    def without(self, place: int) -> PrivateRows:
        """The neighbouring table: the row at ``place``, or all rows of the person there, deleted from every column, and
        the place left blank; n stays."""
        if not isinstance(self._columns, tuple):
            raise TypeError("rows of a store stay where they are: build the neighbour's store")
        if isinstance(self._rows, Persons):
            others, kept = self._rows.without(place)
            return self._with(_kept(self._columns, kept), others)
        row = int(self._rows[place])
        if row < 0:
            raise ArgumentError("place", place, "it is blank already")
        rows = torch.where(self._rows == row, -1, self._rows - (self._rows > row).long())
        return self._with(_kept(self._columns, torch.arange(len(self._columns[0])) != row), rows)

    @torch.no_grad()
    def behind(self, front: Map, room: int = 0) -> PrivateRows:
        """The table with ``front`` of its first column in place of that column, computed once.

        For a front that is dear: the rows go through it in blocks of one public shape, each at its own place, and a
        blank place holds zeros there. So the row that comes or goes finds every other row's numbers as they were,
        bit for bit, exactly as if the front were applied anew in every release. What comes out is as private as what
        went in, and stays inside. Rows of persons have no place of their own, and their number is private, and rows of
        a store are not in memory: there the front is applied to every block of every release, as if it were part of the
        query. Only if all columns, the first behind the front, take no more than ``room`` bytes are a store's rows put
        through it once, as rows in memory are, and are in memory from there on. What has shaped the front goes with the
        table: a release into a ledger that does not hold it is refused.
        """
        check_apart("front", front, self.blank(ROWS)[:1])
        origin = Origin.together(self.origin, origin_of(front, name="front"))
        once = isinstance(self._columns, tuple) or self._bytes(front) <= room
        if isinstance(self._rows, Persons) or not once:
            first, table = self._front, self._with(self._columns, self._rows)
            table._front = front if first is None else lambda rows: front(first(rows))
            table.origin = origin
            return table
        places, done = len(self._rows), 0
        whole: list[Tensor] = []
        for columns, at in self._found(_in_blocks(self._rows)):
            (rows, *others), _ = gathered(columns, at.to(self._device))
            block = (front(rows if self._front is None else self._front(rows)), *others)
            whole = whole or [column.new_empty((places, *column.shape[1:])) for column in block]
            for column, more in zip(whole, block, strict=True):
                column[done : done + len(at)] = more[: places - done]
            done += len(at)
        table = self._with(tuple(whole), _at_their_places(self._rows))
        table._front, table.origin = None, origin
        return table

    def _found(self, blocks: Sequence[Tensor]) -> Iterator[tuple[Columns, Tensor]]:
        """Every block of row numbers with the columns, on this table's device, that they are rows of."""
        if isinstance(self._columns, tuple):
            yield from ((self._columns, block) for block in blocks)
            return
        for columns, block in self._columns.each(iter(blocks)):
            yield tuple(column.to(self._device) for column in columns), block

    def _bytes(self, front: Map) -> int:
        """What all columns take behind a front: public."""
        first, *others = self.blank(MULTIPLE)
        rows = -(-len(self._rows) // MULTIPLE)
        return rows * sum(column.numel() * column.element_size() for column in (front(first), *others))

    def _with(self, columns: Columns | Ahead, rows: Tensor | Persons) -> PrivateRows:
        table = copy.copy(self)
        table._columns, table._rows = columns, rows
        if isinstance(columns, tuple):
            table._kinds, table._device = columns, columns[0].device
        return table


def _in_blocks(rows: Tensor) -> tuple[Tensor, ...]:
    """The rows of all places in blocks of one public size, (size, 1); -1 beyond the last place."""
    places = len(rows)
    size = block_size(places, None)
    return torch.split(torch.cat([rows, torch.full((-places % size,), -1)]).unsqueeze(1), size)


def _at_their_places(rows: Tensor) -> Tensor:
    """Where rows are that have been put at their places' numbers: there, and -1 where a place is blank."""
    return torch.where(rows >= 0, torch.arange(len(rows)), -1)


def _kept(columns: Columns, kept: Tensor) -> Columns:
    return tuple(column[kept.to(column.device)] for column in columns)
