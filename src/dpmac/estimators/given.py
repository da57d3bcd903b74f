"""What ``fit`` was given: raw rows, in memory or stored, and whose they are; their number, which is public."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from dpmac.extensions.stores import Store
from dpmac.extensions.world import SINGLE_PROCESS, World
from dpmac.privacy import Persons, PrivateRows
from dpmac.privacy.sampling import ROW


@dataclass(frozen=True, eq=False)
class Stored:
    """Raw rows, and their targets, that are not in memory; ``few`` of them, by which the table is recognised."""

    store: Store
    few: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.store), *self.store.blank[0].shape[1:]

    def __len__(self) -> int:
        return len(self.store)


@dataclass(frozen=True, eq=False)
class Given:
    """What ``fit`` was given: raw rows and, where the unit of privacy is a person, whose they are. It is never kept."""

    x: Tensor | Stored
    persons: Persons | None = None
    world: World = SINGLE_PROCESS
    elsewhere: int = 0  # persons, else rows, of other processes
    more: tuple[Tensor, ...] = ()  # further inputs of a module

    @property
    def few(self) -> Tensor:
        """Rows by which the table is recognised: all that are in memory, of several inputs the widest."""
        if isinstance(self.x, Stored):
            return self.x.few
        if not self.more:
            return self.x
        widest = max((self.x, *self.more), key=lambda column: math.prod(column.shape[1:]))
        return widest.reshape(len(widest), -1)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """All inputs, of which any may be what another private estimator gave; some rows of a table not in memory."""
        if isinstance(self.x, Stored):
            return (self.x.few,)
        return (self.x, *self.more)

    @property
    def n(self) -> int:
        """The number of persons, else of rows: public, and what every plan and default follows from."""
        if self.persons is None:
            return self.elsewhere + len(self.x)
        return self.elsewhere + len(self.persons)

    @property
    def spots(self) -> int:
        """The most rows that a release on the whole table reads: public."""
        if self.persons is None:
            return self.n
        return self.n * self.persons.spots_per_place

    @property
    def unit(self) -> str:
        if self.persons is None:
            return ROW
        return self.persons.unit

    def table(self, *targets: Tensor) -> PrivateRows:
        """The private table. Rows that are not in memory have their targets with them."""
        columns: tuple[Tensor | Store, ...]
        if isinstance(self.x, Stored):
            columns = (self.x.store,)
        else:
            columns = (self.x, *self.more, *targets)
        return PrivateRows(*columns, groups=self.persons, world=self.world)
