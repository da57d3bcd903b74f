"""The private table: rows enter here, and leave only as samples that can be spent once."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.kernels.gathering import Columns
from dpmac.kernels.padding import MULTIPLE
from dpmac.privacy.sampling import Batch, Fetcher, Map, OneRowEach, Places, PoissonSampler

if TYPE_CHECKING:
    from dpmac.extensions.provenance import Origin
    from dpmac.extensions.stores import Store
    from dpmac.extensions.world import World


class PrivateRows:
    """The private table: columns of equal length (inputs, targets). Its rows leave only as batches.

    It has ``n`` places, a public number; a place holds a row or is blank (:meth:`without`). With ``groups``, an id for
    each row, a place belongs to a person and holds all rows with that person's id, of which a release uses at most
    ``max_rows``. Then n is the number of persons (:mod:`dpmac.extensions.persons`), and the number of rows is private.

    Instead of columns, give one :class:`~dpmac.extensions.stores.Store` for rows that are not in memory. With a
    ``world`` of several processes, the rows are this process's shard of the table, and n counts the places of all
    processes; all rows of a person must be in one shard (:mod:`dpmac.extensions.processes`).
    """

    def __init__(
        self, *columns: Tensor | Store, groups: Any = None, max_rows: int = 4, world: World | None = None
    ) -> None:
        if not columns:
            raise ArgumentError("columns", columns, "give at least one tensor with a row per example")
        lengths = [len(column) for column in columns]
        if len(set(lengths)) != 1:
            raise ArgumentError("columns", lengths, "every column needs the same number of rows")
        tensors = tuple(column for column in columns if isinstance(column, Tensor))
        if len(tensors) < len(columns) and len(columns) > 1:
            raise ArgumentError("columns", columns, "a store has all columns: give it alone")
        self._columns: Columns | Fetcher = tensors or _fetcher(columns[0])
        self._kinds = tensors or columns[0].blank  # type: ignore[union-attr]
        self._device: torch.device = self._kinds[0].device
        self._feature_map: Map | None = None  # applied to the rows in every release
        self.origin: Origin | None = None  # the releases that the feature map was computed from
        self._given = self._world = world
        if world is not None and world.size == 1:
            self._world = None  # set only if there are several processes
        self._rows: Places = OneRowEach(torch.arange(lengths[0]), lengths[0])
        if groups is not None:
            self._rows = _persons(groups, max_rows, world, lengths[0])
        self._shards = (len(self._rows),)  # number of places in each process
        if self._world is not None:
            whose = (self._rows.unit, getattr(self._rows, "max_rows", 1))
            self._world.agree("the unit of privacy, and rows of one in a step,", whose)
            self._shards = tuple(self._world.everyone(len(self._rows)))

    @property
    def n(self) -> int:
        return sum(self._shards)

    @property
    def world(self) -> World:
        """The processes that hold shards of this table."""
        from dpmac.extensions.world import SINGLE_PROCESS

        return self._given or SINGLE_PROCESS

    @property
    def stored(self) -> bool:
        """Whether the rows are in a store rather than in memory."""
        return not isinstance(self._columns, tuple)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of one row of every column: public."""
        shapes = [tuple(column.shape[1:]) for column in self._kinds]
        if self._feature_map is not None:
            with torch.no_grad():
                shapes[0] = tuple(self._feature_map(self._zeros(MULTIPLE)[0]).shape[1:])
        return shapes

    def blank(self, count: int) -> Columns:
        """``count`` rows of zeros in every column, with the shapes and dtypes that a query gets: public."""
        first, *others = self._zeros(count)
        if self._feature_map is not None:
            first = self._feature_map(first)
        return (first, *others)

    def _zeros(self, count: int) -> list[Tensor]:
        return [torch.zeros(count, *kind.shape[1:], dtype=kind.dtype, device=self._device) for kind in self._kinds]

    @property
    def device(self) -> torch.device:
        return self._device

    def to(self, device: torch.device) -> PrivateRows:
        """The table on another device. Rows of a store are moved there block by block."""
        columns = self._columns
        if isinstance(columns, tuple):
            columns = tuple(column.to(device) for column in columns)
        table = self._with(columns, self._rows)
        table._device = device
        feature_map, home = self._feature_map, self.device
        if feature_map is not None and home != device:
            table._feature_map = lambda rows: feature_map(rows.to(home)).to(device)
        return table

    def sample(self, sampler: PoissonSampler) -> Batch:
        """A fresh Poisson sample, which carries the sampler's rate."""
        if sampler.n != self.n:
            raise ArgumentError("sampler.n", sampler.n, f"the table has {self.n} places: build the sampler for them")
        rank = 0 if self._world is None else self._world.rank
        places = sampler.draw(sum(self._shards[:rank]), self._shards[rank])
        columns = self._columns
        if not isinstance(columns, tuple) and isinstance(self._rows, OneRowEach):
            columns = columns.prefetched(self._rows.rows[places])  # while another batch is processed
        return self._batch(columns, places, sampler.rate, sampler.source.seeded, sampler.overflow)

    def everything(self) -> Batch:
        """All rows, without sampling (rate 1): for one-shot releases such as DP-PCA."""
        return self._batch(self._columns, None, 1.0, seeded=False, overflow=0.0)

    def _batch(
        self, columns: Columns | Fetcher, places: Tensor | None, rate: float, seeded: bool, overflow: float
    ) -> Batch:
        public = self._feature_map, self.origin, self._device, self._world, self._shards
        return Batch(columns, self._rows, places, rate, seeded, overflow, *public)

    def without(self, place: int) -> PrivateRows:
        """The neighbouring table: ``place`` is blank, its row or its person's rows are deleted, and n is unchanged."""
        if not isinstance(self._columns, tuple):
            raise TypeError("rows of a store stay where they are: build the neighbour's store")
        rows, kept = self._rows.without(place)
        return self._with(tuple(column[kept.to(column.device)] for column in self._columns), rows)

    def behind(self, feature_map: Map, memory: int = 0) -> PrivateRows:
        """``feature_map`` applied to the first column: see :func:`dpmac.extensions.feature_maps.behind`."""
        from dpmac.extensions.feature_maps import behind

        return behind(self, feature_map, memory)

    def _with(self, columns: Columns | Fetcher, rows: Places) -> PrivateRows:
        table = copy.copy(self)
        table._columns, table._rows = columns, rows
        if isinstance(columns, tuple):
            table._kinds, table._device = columns, columns[0].device
        return table


def _fetcher(store: Any) -> Fetcher:
    from dpmac.extensions.stores import BackgroundFetcher

    return BackgroundFetcher(store)


def _persons(groups: Any, max_rows: int, world: World | None, rows: int) -> Places:
    from dpmac.extensions.persons import persons_in

    return persons_in(world, groups, max_rows, rows)
