"""The way back from a network's inputs to cells: of every column, the cell whose code is nearest.

Public on public: the schema and the numbers that a model gives back, row by row. Nothing here sees private rows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.tables.encoder import TableEncoder
from dpmac.tables.kinds import Array, ColumnKind

POINTS = 2048  # parts of a range whose ends are tried, on each of its scales
_BLOCK = 4096


def cells_near(encoder: TableEncoder, inputs: Tensor) -> dict[str, Array]:
    """The table, column by column, whose rows have the inputs nearest to ``inputs`` (n, n_features_out).

    A number comes back to within a two-thousandth of its range, on the logarithmic scale too where it has one; a
    category as one of its values, or "other"; a column that may be missing as NaN or None where that is nearest; a text
    as the one common word that is nearest to it, which says little. What comes out can be encoded again.
    """
    width = encoder.n_features_out
    if inputs.dim() != 2 or inputs.shape[1] != width:
        raise ArgumentError("inputs", f"shape {tuple(inputs.shape)}", f"give one row of {width} inputs per example")
    table, start = {}, 0
    for name, column in encoder.schema.features.items():
        cells, known = _candidates(column, encoder.bins)
        stop = start + known.shape[1]
        table[name] = cells[_nearest(inputs[:, start:stop].double().cpu(), known)]
        start = stop
    return table


def longest(encoder: TableEncoder) -> float:
    """The largest norm that a row of inputs can have, by the schema alone: a number's is longest at an end."""
    return math.hypot(*(column.longest(encoder.bins) for column in encoder.schema.features.values()))


def _candidates(column: ColumnKind, bins: int) -> tuple[Array, Tensor]:
    """Cells that this column may have, and their inputs (m, width)."""
    codes, cells = column.candidates(POINTS + 1)
    return cells, column.inputs(torch.from_numpy(codes.reshape(len(codes), -1)), bins)


def _nearest(inputs: Tensor, known: Tensor) -> Array:
    """The place among ``known`` (m, width) of the row nearest to each of ``inputs`` (n, width)."""
    half = known.square().sum(dim=1) / 2
    blocks = [(half - block @ known.transpose(0, 1)).argmin(dim=1) for block in torch.split(inputs, _BLOCK)]
    found: Array = torch.cat(blocks).numpy()
    return found
