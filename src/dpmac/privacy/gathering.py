"""A block's rows out of their table, each at its spot, and zeros where there is none."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dpmac.privacy.store import Columns


def gathered(columns: Columns, row_at: Tensor, memory: list[Tensor] | None = None) -> tuple[Columns, Tensor]:
    """The rows ``row_at`` (places, together) of every column, one after the other, and the weights of all.

    Where there is none, -1, are zeros, and the weight is 0. Each of the m rows of a place weighs 1 / m. ``memory`` is
    where rows go, if it is large enough; else what they went to is put there for the next time.
    """
    real = row_at >= 0
    weights = real.double()
    if row_at.shape[1] > 1:
        weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1.0)
    empty, chosen = ~real.flatten(), row_at.flatten().clamp(min=0)
    # by number on a CPU, where NumPy's is the quicker way; a GPU would be waited for
    holes = torch.from_numpy(np.flatnonzero(empty.numpy())) if empty.is_cpu else empty

    def gather(column: Tensor, place: Tensor | None) -> Tensor:
        if len(column) == 0:  # every place of the table is blank
            return column.new_zeros(len(chosen), *column.shape[1:])
        rows = column.index_select(0, chosen) if place is None else torch.index_select(column, 0, chosen, out=place)
        if rows.is_cpu:
            return rows.index_fill_(0, holes, 0)
        return rows.masked_fill_(empty.reshape(-1, *[1] * (rows.dim() - 1)), 0)

    places = [None] * len(columns) if memory is None else _in(memory, columns, len(chosen))
    found = tuple(gather(column, place) for column, place in zip(columns, places, strict=True))
    return found, weights.flatten()


def _in(memory: list[Tensor], columns: Columns, rows: int) -> list[Tensor]:
    """Room for so many rows of every column in ``memory``, which grows where it is too small."""
    for k, column in enumerate(columns):
        if k == len(memory):
            memory.append(column.new_empty(rows, *column.shape[1:]))
        kept = memory[k]
        if len(kept) < rows or kept.dtype != column.dtype or kept.shape[1:] != column.shape[1:]:
            memory[k] = column.new_empty(rows, *column.shape[1:])
    return [kept[:rows] for kept in memory]
