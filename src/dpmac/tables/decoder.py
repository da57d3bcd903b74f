"""The way back from a network's inputs to cells: of every column, the cell whose code is nearest.

Public on public: the schema and the numbers that a model gives back, row by row. Nothing here sees private rows.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.tables.columns import Array, Category, Column, Number
from dpmac.tables.encoder import TableEncoder, is_wide
from dpmac.tables.schema import Schema

POINTS = 2048  # of a number's range that are tried, on each of its scales
OTHER = "other"
_BLOCK = 4096


def cells_near(encoder: TableEncoder, inputs: Tensor) -> dict[str, Array]:
    """The table, column by column, whose rows have the inputs nearest to ``inputs`` (n, n_features_out).

    A number comes back to within a two-thousandth of its range, on the logarithmic scale too where it has one; a
    category as one of its values, or "other"; a column that may be missing as NaN or None where that is nearest. What
    comes out can be encoded again.
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
    known = (_candidates(column, encoder.bins)[1] for column in encoder.schema.features.values())
    return math.sqrt(sum(float(inputs.square().sum(dim=1).max()) for inputs in known))


def _candidates(column: Column, bins: int) -> tuple[Array, Tensor]:
    """Cells that this column may have, and their inputs (m, width)."""
    codes, cells = _codes(column)
    return cells, TableEncoder(Schema({"column": column}), bins)(codes[:, None])


def _codes(column: Column) -> tuple[Tensor, Array]:
    """Codes that a cell of this column may have, and the cells that they stand for."""
    if isinstance(column, Category):
        cells: list[object] = [*column.values, OTHER, *([None] if column.missing else [])]
        codes = [*range(column.other + 1), *([math.nan] if column.missing else [])]
        return torch.tensor(codes, dtype=torch.float64), np.array(cells, dtype=object)
    values = _values(column)
    values = np.append(values, math.nan) if column.missing else values
    return torch.from_numpy(values), values


def _values(column: Number) -> Array:
    width = column.high - column.low
    even = np.linspace(0.0, 1.0, POINTS + 1)
    above = np.append(width * even, np.expm1(even * math.log1p(width))) if is_wide(column) else width * even
    found: Array = np.clip(np.unique(column.low + above), column.low, column.high)
    return found


def _nearest(inputs: Tensor, known: Tensor) -> Array:
    """The place among ``known`` (m, width) of the row nearest to each of ``inputs`` (n, width)."""
    half = known.square().sum(dim=1) / 2
    blocks = [(half - block @ known.transpose(0, 1)).argmin(dim=1) for block in torch.split(inputs, _BLOCK)]
    found: Array = torch.cat(blocks).numpy()
    return found
