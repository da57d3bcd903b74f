"""A public feature map applied to a private table, computed once if it is expensive.

It must satisfy K3: the map is computed in blocks of one public shape, with each row at its own place. A row of a person
is at the person's place, in a block with one row of each of their neighbours: which block follows from its number among
the person's own rows. So another person's rows, however many, are never in its way, and change neither its block's
shape nor its place there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from dpmac.extensions.persons import Persons
from dpmac.extensions.provenance import Origin, origin_of
from dpmac.extensions.row_independence import ROWS, check_row_independence
from dpmac.kernels.gathering import Columns, gathered
from dpmac.kernels.padding import MULTIPLE, block_size
from dpmac.privacy.private_rows import PrivateRows
from dpmac.privacy.sampling import Map, OneRowEach
from dpmac.showing import shown

TOGETHER = 256  # persons in a block: one with thousands of rows has a block for each of them


@torch.no_grad()
def behind(table: PrivateRows, feature_map: Map, memory: int = 0) -> PrivateRows:
    """The table with its first column replaced by ``feature_map`` of it, computed once.

    The map is computed in blocks of one public shape, each row at its own place; a blank place holds zeros. So a row
    that appears or disappears leaves the numbers of every other row unchanged, bit for bit, exactly as if the feature
    map were applied in every release. The result is as private as the input, and stays inside the table. So is the
    number of blocks for persons, which follows from how many rows they have. Rows of a store are not in memory: for
    these the feature map is applied to every block of every release, as part of the query. The exception is a store
    without persons whose columns, with the first one mapped, take at most ``memory`` bytes: its rows are mapped once,
    like rows in memory, and stay in memory. The origin of the feature map is part of the table: a release into a ledger
    that does not contain it is rejected.
    """
    check_row_independence("feature_map", feature_map, table.blank(ROWS)[:1])
    origin = Origin.merged(table.origin, origin_of(feature_map, name="feature_map"))
    once = isinstance(table._columns, tuple) or _bytes(table, feature_map) <= memory
    if isinstance(table._columns, tuple) and isinstance(table._rows, Persons):
        mapped = _of_persons(table._columns[0], table._rows, _after(table._feature_map, feature_map))
        made = table._with((mapped, *table._columns[1:]), table._rows)
        made._feature_map, made.origin = None, origin
        return made
    if isinstance(table._rows, Persons) or not once:
        made = table._with(table._columns, table._rows)
        made._feature_map, made.origin = _after(table._feature_map, feature_map), origin
        return made
    feature_map = _after(table._feature_map, feature_map)
    assert isinstance(table._rows, OneRowEach)
    rows_at, done = table._rows.rows, 0
    places = len(rows_at)
    whole: list[Tensor] = []
    with shown("mapping rows") as tell:
        for columns, at in _found(table, _in_blocks(rows_at)):
            (rows, *others), _ = gathered(columns, at.to(table.device))
            block = (feature_map(rows), *others)
            whole = whole or [column.new_empty((places, *column.shape[1:])) for column in block]
            for column, more in zip(whole, block, strict=True):
                column[done : done + len(at)] = more[: places - done]
            done += len(at)
            tell(min(done, places), places)
    there = torch.where(rows_at >= 0, torch.arange(places), -1)  # row numbers are now the numbers of the places
    made = table._with(tuple(whole), OneRowEach(there, places))
    made._feature_map, made.origin = None, origin
    return made


def _of_persons(column: Tensor, persons: Persons, feature_map: Map) -> Tensor:
    """The column mapped, its rows where they were. Turn t of a block of places is row t of every person there."""
    sample = feature_map(column.new_zeros(TOGETHER, *column.shape[1:]))
    mapped, places = sample.new_empty(len(column), *sample.shape[1:]), len(persons)
    first, count = persons.starts[:-1], persons.starts[1:] - persons.starts[:-1]
    with shown("mapping rows") as tell:
        for start in range(0, places, TOGETHER):
            here = slice(start, start + TOGETHER)
            for turn in range(int(count[here].max())):
                there = torch.nonzero(count[here] > turn).flatten()
                at = torch.full((TOGETHER, 1), -1)
                at[there, 0] = rows = persons.order[first[here][there] + turn]
                (block,), _ = gathered((column,), at.to(column.device))
                mapped[rows.to(column.device)] = feature_map(block)[there.to(column.device)]
            tell(min(start + TOGETHER, places), places)
    return mapped


def _after(first: Map | None, second: Map) -> Map:
    """The composition of two feature maps, the first of which may be absent."""
    if first is None:
        return second
    return lambda rows: second(first(rows))


def _found(table: PrivateRows, blocks: Sequence[Tensor]) -> Iterator[tuple[Columns, Tensor]]:
    """Every block of row numbers with the columns that it indexes, on the table's device."""
    if isinstance(table._columns, tuple):
        yield from ((table._columns, block) for block in blocks)
        return
    for columns, block in table._columns.each(iter(blocks)):
        yield tuple(column.to(table.device) for column in columns), block


def _bytes(table: PrivateRows, feature_map: Map) -> int:
    """The memory of all columns after the feature map: public."""
    first, *others = table.blank(MULTIPLE)
    rows = -(-len(table._rows) // MULTIPLE)
    return rows * sum(column.numel() * column.element_size() for column in (feature_map(first), *others))


def _in_blocks(rows: Tensor) -> tuple[Tensor, ...]:
    """The rows of all places in blocks of one public size, (size, 1); -1 beyond the last place."""
    places = len(rows)
    size = block_size(places, None)
    return torch.split(torch.cat([rows, torch.full((-places % size,), -1)]).unsqueeze(1), size)
