"""What several kinds of columns have in common: errors that name a cell, and the inputs of a range."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.tables.kinds.base import Array, ColumnKind
from dpmac.tables.kinds.bases import Knots
from dpmac.tables.kinds.protocols import Draws

CODE = 0.5  # the span of a piecewise-linear code
FLAT = 10.0  # words' frequencies go with 1 / (rank + FLAT): a few dozen words are about equally common
SHORTEST = 5  # words of a made-up text
SHOWN = 40  # characters of a cell in an error
MISSING = "the cell is missing: fill it in, or say missing=True of the column in the schema"
UNREADABLE = (ValueError, TypeError, OverflowError, KeyError, IndexError, re.error)  # what readers of a cell raise
GRID = 2.0**30  # made-up places are multiples of 1 / GRID: a power is not rounded alike on every machine
BENT = 0.7  # the deviation of the logarithm of the power that bends a made-up distribution


def cell_place(name: str, row: int) -> str:
    """How an error names a cell."""
    return f"column {name!r}, row {row}"


class CellError(ArgumentError):
    """Cells of a column that cannot be read: it names the first, and counts them all; ``count`` of ``cells``."""

    def __init__(self, name: str, value: Any, advice: str, count: int, cells: int) -> None:
        self.advice, self.count, self.cells = advice, count, cells
        what = f"the only such cell of {cells:,}"
        if count > 1:
            what = f"{count:,} of {cells:,} cells are so"
        super().__init__(name, value, f"{advice} ({what})")

    def at(self, name: str) -> CellError:
        """The same, at another place."""
        return CellError(name, self.value, self.advice, self.count, self.cells)

    def counted(self, count: int, cells: int) -> CellError:
        """The same, with other counts."""
        return CellError(self.name, self.value, self.advice, count, cells)


def read_each(name: str, cells: Array, read: Callable[[Any], float], advice: Callable[[Any], str]) -> Array:
    """What ``read`` makes of each cell, as float64; if it raises ValueError of some, they are counted."""
    codes, bad = np.empty(len(cells), dtype=np.float64), list[int]()
    for row, cell in enumerate(cells):
        try:
            codes[row] = read(cell)
        except UNREADABLE:
            bad.append(row)
    if bad:
        first = cells[bad[0]]
        raise CellError(cell_place(name, bad[0]), shown(first), advice(first), len(bad), len(cells))
    return codes


def shown(cell: Any) -> Any:
    """A cell as an error shows it: of a long text the beginning, of what is no cell at all only what it is."""
    if isinstance(cell, str) and len(cell) > SHOWN:
        return f"{cell[:SHOWN]}..."
    if isinstance(cell, list | tuple | dict | set | np.ndarray):
        return f"a {type(cell).__name__}"
    return cell


def allowed(name: str, codes: Array, missing: bool) -> Array:
    """``codes``, unless a cell is missing where none may be."""
    gone = np.isnan(codes)
    if not missing and gone.any():
        raise CellError(cell_place(name, int(np.argmax(gone))), None, MISSING, int(gone.sum()), len(codes))
    return codes


def check_flag(missing: object) -> None:
    """Raise unless ``missing`` is a bool."""
    if not isinstance(missing, bool):
        raise ArgumentError("missing", missing, "give true or false")


def outside(codes: Array, low: float, high: float) -> Array:
    """Which codes (n, 1) lie outside a range, as bool (n,)."""
    found: Array = (codes[:, 0] < low) | (codes[:, 0] > high)
    return found


def outside_words(low: object, high: object) -> str:
    """What a warning says of such cells."""
    return f"lie outside {low} to {high} and are clipped: compare the unit and the range"


def range_inputs(place: Tensor, there: Tensor, bins: int) -> list[Tensor]:
    """A place in [0, 1] as the inputs of a linear layer: itself, scaled to [-1, 1], and ``bins`` pieces.

    The pieces are (clip(bins u - k, 0, 1) - 1/2) / 2, k = 0 .. bins - 1, of which a linear layer makes any function
    with that many pieces. (About 0 and within a quarter, so that a column's many codes weigh about as much as a
    category's one.)
    """
    place = place.clamp(0.0, 1.0)
    nothing = torch.zeros_like(place)
    found = [torch.where(there, 2 * place - 1, nothing)]
    if bins:
        steps = torch.arange(bins, dtype=place.dtype, device=place.device)
        pieces = ((bins * place - steps).clamp(0.0, 1.0) - 0.5) * CODE
        found.append(torch.where(there, pieces, nothing))
    return found


def range_names(name: str, bins: int) -> list[str]:
    """What the inputs of :func:`range_inputs` are called."""
    return [name, *(f"{name} bin {k + 1}" for k in range(bins))]


def knots_of(places: Array, low: float, high: float) -> Array:
    """Ascending knots from ``low`` to ``high``; of places that are as good as one, one."""
    found = np.unique(np.clip(places, low, high))
    size = max(abs(low), abs(high))
    apart = np.diff(found, prepend=-np.inf) > 1e-9 * np.maximum(found - low, 1e-6 * size)
    kept: Array = found[apart]
    kept[0], kept[-1] = low, high
    return kept


def knots_basis(column: ColumnKind, knots: Array, bins: int) -> Knots:
    """Knots of a column that is coded by ranges alone, and the inputs that it has there."""
    codes = torch.from_numpy(np.ascontiguousarray(knots, dtype=np.float64))
    value = codes.reshape(-1, 1)
    at = torch.cat(column.encoded(value, torch.ones_like(value, dtype=torch.bool), bins), dim=1)
    labels = tuple(column.tick(float(code), lambda number: f"{number:.6g}") for code in knots)
    return Knots(labels, at, codes)


def bent(place: Array, draw: Draws) -> Array:
    """Places in (0, 1), moved towards one end by a power that is drawn: half of all powers are between 0.6 and 1.6."""
    return on_grid(place ** np.exp(BENT * draw.normal(1)))


def on_grid(places: Array) -> Array:
    """Places in [0, 1] as multiples of 1 / GRID."""
    found: Array = np.round(places * GRID) / GRID
    return found


def days_at(places: Array, low: float, high: float) -> Array:
    """The whole days of a range at places in [0, 1], the last one included."""
    found: Array = np.minimum(np.floor(low + places * (high - low + 1)), high)
    return found


def drawn_choice(place: Array, count: int, draw: Draws) -> Array:
    """For each place one of ``count`` values, with frequencies that are drawn; nearby places choose alike."""
    odds = np.exp(draw.normal(count))
    edges = on_grid(np.cumsum(odds) / np.sum(odds))
    found: Array = draw.order(count)[np.minimum(np.searchsorted(edges, place), count - 1)]
    return found


def zipf(uniform: Array, vocabulary: int) -> Array:
    """For each number in [0, 1) the rank of a word, from 0 on: rank r has a frequency of 1 / (r + FLAT)."""
    odds = 1.0 / (np.arange(vocabulary) + FLAT)
    edges = on_grid(np.cumsum(odds) / np.sum(odds))
    found: Array = np.minimum(np.searchsorted(edges, uniform, side="right"), vocabulary - 1)
    return found


def text_lengths(uniform: Array, longest: int) -> Array:
    """For each number in [0, 1) the words of a text, from SHORTEST to ``longest`` equally likely."""
    found: Array = SHORTEST + np.floor(uniform * (longest - SHORTEST + 1)).astype(np.int64)
    return found
