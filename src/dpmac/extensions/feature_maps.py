"""A public feature map before a private table, computed once where it takes long.

K3 is what it owes: rows go through the map in blocks of one public shape, each at its own place.
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


@torch.no_grad()
def behind(table: PrivateRows, feature_map: Map, room: int = 0) -> PrivateRows:
    """The table with ``feature_map`` of its first column in place of that column, computed once.

    The rows go through it in blocks of one public shape, each at its own place, and a blank place holds zeros there. So
    the row that comes or goes finds every other row's numbers as they were, bit for bit, exactly as if the feature map
    were applied anew in every release. What comes out is as private as what went in, and stays inside. Rows of persons
    have no place of their own, and their number is private, and rows of a store are not in memory: there the feature
    map is applied to every block of every release, as if it were part of the query. Only if all columns, the first
    behind the feature map, take no more than ``room`` bytes are a store's rows put through it once, as rows in memory
    are, and are in memory from there on. What has shaped the feature map goes with the table: a release into a ledger
    that does not hold it is refused.
    """
    check_row_independence("feature_map", feature_map, table.blank(ROWS)[:1])
    origin = Origin.merged(table.origin, origin_of(feature_map, name="feature_map"))
    once = isinstance(table._columns, tuple) or _bytes(table, feature_map) <= room
    if isinstance(table._rows, Persons) or not once:
        first, made = table._feature_map, table._with(table._columns, table._rows)
        made._feature_map = feature_map if first is None else lambda rows: feature_map(first(rows))
        made.origin = origin
        return made
    assert isinstance(table._rows, OneRowEach)
    rows_at, done = table._rows.rows, 0
    places = len(rows_at)
    whole: list[Tensor] = []
    for columns, at in _found(table, _in_blocks(rows_at)):
        (rows, *others), _ = gathered(columns, at.to(table.device))
        block = (feature_map(rows if table._feature_map is None else table._feature_map(rows)), *others)
        whole = whole or [column.new_empty((places, *column.shape[1:])) for column in block]
        for column, more in zip(whole, block, strict=True):
            column[done : done + len(at)] = more[: places - done]
        done += len(at)
    there = torch.where(rows_at >= 0, torch.arange(places), -1)  # rows are now at their places' numbers
    made = table._with(tuple(whole), OneRowEach(there, places))
    made._feature_map, made.origin = None, origin
    return made


def _found(table: PrivateRows, blocks: Sequence[Tensor]) -> Iterator[tuple[Columns, Tensor]]:
    """Every block of row numbers with the columns, on the table's device, that they are rows of."""
    if isinstance(table._columns, tuple):
        yield from ((table._columns, block) for block in blocks)
        return
    for columns, block in table._columns.each(iter(blocks)):
        yield tuple(column.to(table.device) for column in columns), block


def _bytes(table: PrivateRows, feature_map: Map) -> int:
    """What all columns take behind a feature map: public."""
    first, *others = table.blank(MULTIPLE)
    rows = -(-len(table._rows) // MULTIPLE)
    return rows * sum(column.numel() * column.element_size() for column in (feature_map(first), *others))


def _in_blocks(rows: Tensor) -> tuple[Tensor, ...]:
    """The rows of all places in blocks of one public size, (size, 1); -1 beyond the last place."""
    places = len(rows)
    size = block_size(places, None)
    return torch.split(torch.cat([rows, torch.full((-places % size,), -1)]).unsqueeze(1), size)
