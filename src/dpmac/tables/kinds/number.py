"""Numbers with a public range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from dpmac.cells import is_missing
from dpmac.checks import ArgumentError, number
from dpmac.tables.cell_format import hint
from dpmac.tables.kinds.base import Array, ColumnKind, Quote
from dpmac.tables.kinds.bases import Basis
from dpmac.tables.kinds.protocols import Draws, Guess
from dpmac.tables.kinds.shared import (
    CellError,
    allowed,
    bent,
    cell_place,
    check_flag,
    knots_basis,
    knots_of,
    on_grid,
    outside,
    outside_words,
    range_inputs,
    range_names,
    read_each,
)

WIDE = 20.0  # a number whose range is wider than this is also given on a logarithmic scale
FEW = 10  # so many different whole numbers are taken for the codes of a category


@dataclass(frozen=True)
class Number(ColumnKind):
    """A number from ``low`` to ``high``, public bounds; what lies outside is clipped. ``missing``: it may be absent."""

    low: float
    high: float
    missing: bool = False
    kind: ClassVar[str] = "number"
    needed: ClassVar[tuple[str, ...]] = ("low", "high")
    to_write: ClassVar[str] = "its public range, low and high, as a code book has it and not as the rows do"
    help: ClassVar[str] = "number: low and high, a range that any such row may have; what lies outside is clipped."
    ordered: ClassVar[bool] = True
    dtype: ClassVar[Any] = np.float64
    absent: ClassVar[Any] = math.nan

    def __post_init__(self) -> None:
        fix = "give public, finite bounds with low < high"
        object.__setattr__(self, "low", number("low", self.low, fix, low=-1e300, high=1e300))
        object.__setattr__(self, "high", number("high", self.high, fix, low=-1e300, high=1e300))
        if not self.low < self.high:
            raise ArgumentError("low, high", (self.low, self.high), fix)
        check_flag(self.missing)

    @property
    def wide(self) -> bool:
        """Whether it is also given on a logarithmic scale: a public matter of its range alone."""
        return self.high - self.low > WIDE

    # --- cells, codes, inputs -----------------------------------------------------------------------------------------

    def coded(self, name: str, cells: Array) -> Array:
        """The cells as float64, not clipped, NaN where one is missing; text is read as a number.

        An error names the column ``name``, the row, the cell and the fix.
        """
        if cells.dtype.kind in "biuf":
            codes = cells.astype(np.float64)
        else:
            codes = read_each(name, cells, _read, _advice)
        endless = np.isinf(codes)
        if endless.any():
            row = int(np.argmax(endless))
            advice = "give a finite number, or leave the cell empty"
            raise CellError(cell_place(name, row), cells[row], advice, int(endless.sum()), len(cells))
        return allowed(name, codes, self.missing)

    def coded_at_once(self, cells: Any) -> Array | None:
        codes = numbers_of(cells)
        if codes is None or np.isinf(codes).any():
            return None
        return codes

    def beyond(self, codes: Array) -> Array:
        return outside(codes, self.low, self.high)

    @property
    def beyond_words(self) -> str:
        return outside_words(_plain(self.low), _plain(self.high))

    def typed(self, cells: list[Any]) -> list[Any]:
        """Texts as numbers, NaN where a cell is empty; unchanged if one of them is no number: ``coded`` says which."""
        try:
            return [math.nan if cell == "" else float(cell) for cell in cells]
        except (TypeError, ValueError, OverflowError):
            return cells

    def encoded(self, value: Tensor, there: Tensor, bins: int) -> list[Tensor]:
        above = value.clamp(self.low, self.high) - self.low
        found = range_inputs(above / (self.high - self.low), there, bins)
        if self.wide:
            found += range_inputs(torch.log1p(above) / math.log1p(self.high - self.low), there, bins)
        return found

    def input_names(self, name: str, bins: int) -> list[str]:
        names = [*range_names(name, bins)]
        if self.wide:
            names += range_names(f"{name} log", bins)
        return names

    def bases(self, bins: int) -> Sequence[Basis]:
        """Knots where the pieces of its codes meet: evenly along the range and, of a wide one, along its logarithm."""
        width, even = self.high - self.low, np.arange(max(bins, 1) + 1) / max(bins, 1)
        above = [width * even]
        if self.wide:
            above.append(np.expm1(even * math.log1p(width)))
        knots = knots_of(self.low + np.concatenate(above), self.low, self.high)
        return (knots_basis(self, knots, bins),)

    # --- cells of nobody ----------------------------------------------------------------------------------------------

    def drawn(self, uniform: Array) -> Array:
        found: Array = self.low + uniform * (self.high - self.low)
        return found

    def drawn_codes(self, place: Array, draw: Draws) -> Array:
        """Bent towards one end of the range; of a wide range, half of the time on its logarithmic scale."""
        width, above = self.high - self.low, bent(place, draw)
        logarithmic = bool(draw.uniform(1) < 0.5)
        if self.wide and logarithmic:
            above = on_grid(np.expm1(above * math.log1p(width)) / width)
        found: Array = self.low + above * width
        return found

    def examples(self, points: int) -> Array:
        """Points of the range: evenly, and evenly in its logarithm as well where the model sees that too."""
        width, even = self.high - self.low, np.linspace(0.0, 1.0, points)
        above = width * even
        if self.wide:
            above = np.append(above, np.expm1(even * math.log1p(width)))
        return np.unique(np.clip(self.low + above, self.low, self.high))

    def positions(self, cells: Array) -> Array:
        return cells.astype(np.float64)

    # --- in words and in files ----------------------------------------------------------------------------------------

    def described(self, quote: Quote) -> str:  # noqa: ARG002
        return f"a number, clipped to {self.low:g} .. {self.high:g}"

    def label(self, cell: Any) -> str:
        return f"{cell:.4g}"

    def fields(self) -> dict[str, Any]:
        return {"low": _plain(self.low), "high": _plain(self.high)}

    def as_input(self) -> dict[str, Any]:
        return {"clipped to": [self.low, self.high]}

    # --- templates, estimates, targets --------------------------------------------------------------------------------

    @classmethod
    def guess(cls) -> Guess:
        return _Numbers()

    @classmethod
    def unbounded(cls, given: Mapping[str, Any]) -> Number:  # noqa: ARG003
        return cls(-1.0, 1.0, missing=True)  # what it reads is not clipped

    def with_range(self, low: float, high: float, missing: bool) -> Number:
        return replace(self, low=low, high=high, missing=missing)

    @property
    def target_range(self) -> tuple[float, float]:
        return self.low, self.high

    @classmethod
    def samples(cls) -> Sequence[Number]:
        return cls(-1.0, 1.0, missing=True), cls(-2.0, 30.0), cls(0.0, 1e6, missing=True)

    def sample_cells(self) -> tuple[list[Any], list[Any]]:
        return [0, 0.5, -3, 1e300, "12", " 7.5 ", True, Decimal("0.1")], ["x", "1,5", "nan?", math.inf, [1], 10**400]


class _Numbers:
    """Whether all cells are numbers; whole numbers of which there are few are taken for codes of a category."""

    def __init__(self) -> None:
        self._seen: set[float] = set()
        self._few = True

    def see(self, cell: Any) -> bool:
        try:
            value = float(cell)
        except (TypeError, ValueError, OverflowError):
            return False
        if self._few:
            self._seen.add(value)
            self._few = len(self._seen) <= FEW and math.isfinite(value) and value == int(value)
        return True

    def template(self) -> dict[str, Any] | None:
        if self._few:
            return None
        return {}


def numbers_of(cells: Any) -> Array | None:
    """Whole numbers, floats and bools as float64, NaN where there is none; None of any other kind of cells."""
    if isinstance(cells, list):
        return None
    import pyarrow as pa
    from pyarrow import types

    kind = cells.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)):
        return None
    if types.is_boolean(kind):
        cells = cells.cast(pa.uint8())
    found: Array = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


def _read(cell: Any) -> float:
    if is_missing(cell):
        return math.nan
    if isinstance(cell, str | Real | Decimal | np.bool_):
        return float(cell)
    raise ValueError(cell)


def _advice(cell: Any) -> str:
    fix = "this column holds numbers: correct the cell, leave it empty if it is missing, or declare a category"
    return fix + hint(cell)


def _plain(bound: float) -> float | int:
    """A whole bound as an int, so that a file keeps saying 17 and not 17.0."""
    if bound == int(bound) and abs(bound) < 2**53:
        return int(bound)
    return bound
