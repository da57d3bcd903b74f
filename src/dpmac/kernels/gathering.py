"""Gather the rows of a block from their table, each at its spot, with zeros at empty spots.

K3: a spot holds the row with the requested number, or zeros. No other spot affects it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

Columns = tuple[Tensor, ...]  # the columns of one table: entry i of each belongs to row i


def gathered(columns: Columns, row_at: Tensor) -> tuple[Columns, Tensor]:
    """The rows ``row_at`` (places, spots_per_place) of every column, flattened, and the weight of each spot.

    An empty spot (-1) gets zeros and weight 0. Each of the m rows of a place has weight 1 / m.
    """
    real = row_at >= 0
    weights = real.double()
    if row_at.shape[1] > 1:
        weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1.0)
    empty, chosen = ~real.flatten(), row_at.flatten().clamp(min=0)
    holes = empty
    if empty.is_cpu:  # filling by index is faster with NumPy's indices; on a GPU finding them would block
        holes = torch.from_numpy(np.flatnonzero(empty.numpy()))

    def gather(column: Tensor) -> Tensor:
        if len(column) == 0:  # every place of the table is blank
            return column.new_zeros(len(chosen), *column.shape[1:])
        if column.is_cpu:
            return _chosen(column, chosen).index_fill_(0, holes, 0)
        rows = column.index_select(0, chosen)
        return rows.masked_fill_(empty.reshape(-1, *[1] * (rows.dim() - 1)), 0)

    return tuple(map(gather, columns)), weights.flatten()


def _chosen(column: Tensor, chosen: Tensor) -> Tensor:
    """The chosen rows of a column on a CPU. ``embedding`` copies them by several threads, ``index_select`` by one."""
    if column.dim() == 2:
        return F.embedding(chosen, column)
    return column.index_select(0, chosen)
