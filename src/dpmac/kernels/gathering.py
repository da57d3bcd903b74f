"""A block's rows out of their table, each at its spot, and zeros where there is none (K3).

K3: what stands at one spot is the row whose number was asked for there, or zeros. No other spot has a say in it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

Columns = tuple[Tensor, ...]  # of one table: a row of each at the same number


def gathered(columns: Columns, row_at: Tensor) -> tuple[Columns, Tensor]:
    """The rows ``row_at`` (places, together) of every column, one after the other, and the weights of all.

    Where there is none, -1, are zeros, and the weight is 0. Each of the m rows of a place weighs 1 / m.
    """
    real = row_at >= 0
    weights = real.double()
    if row_at.shape[1] > 1:
        weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1.0)
    empty, chosen = ~real.flatten(), row_at.flatten().clamp(min=0)
    # by number on a CPU, where NumPy's is the quicker way; a GPU would be waited for
    holes = torch.from_numpy(np.flatnonzero(empty.numpy())) if empty.is_cpu else empty

    def gather(column: Tensor) -> Tensor:
        if len(column) == 0:  # every place of the table is blank
            return column.new_zeros(len(chosen), *column.shape[1:])
        rows = column.index_select(0, chosen)
        if rows.is_cpu:
            return rows.index_fill_(0, holes, 0)
        return rows.masked_fill_(empty.reshape(-1, *[1] * (rows.dim() - 1)), 0)

    return tuple(map(gather, columns)), weights.flatten()
