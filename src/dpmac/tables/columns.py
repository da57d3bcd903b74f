"""What is publicly known of one column: a number's range, a category's values, and whether a cell may be missing.

Everything here is public: written by hand, taken from a code book, or estimated privately and paid for
(:mod:`dpmac.tables.estimate`). It is never read off private rows. A column also knows how to read cells, each by
itself: what a cell becomes depends on that cell and on the column's public description alone.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from dpmac.cells import is_missing
from dpmac.checks import ArgumentError, number
from dpmac.limits import TEXT

Array = np.ndarray[Any, Any]
_WHOLE = re.compile(r"([+-]?\d+)\.0*")


@dataclass(frozen=True)
class Number:
    """A number from ``low`` to ``high``, public bounds; what lies outside is clipped. ``missing``: it may be absent."""

    low: float
    high: float
    missing: bool = False
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        fix = "give public, finite bounds with low < high"
        object.__setattr__(self, "low", number("low", self.low, fix, low=-1e300, high=1e300))
        object.__setattr__(self, "high", number("high", self.high, fix, low=-1e300, high=1e300))
        if not self.low < self.high:
            raise ArgumentError("low, high", (self.low, self.high), fix)
        _check_flag(self.missing)

    def coded(self, name: str, cells: Array) -> Array:
        """The cells as float64, not clipped, NaN where one is missing; text is read as a number.

        An error names the column ``name``, the row, the cell and the fix.
        """
        if cells.dtype.kind in "biuf":
            codes = cells.astype(np.float64)
        else:
            codes = np.empty(len(cells), dtype=np.float64)
            for row, cell in enumerate(cells):
                codes[row] = _read_number(name, row, cell)
        endless = np.isinf(codes)
        if endless.any():
            row = int(np.argmax(endless))
            raise ArgumentError(_place(name, row), cells[row], "give a finite number, or leave the cell empty")
        return _allowed(name, codes, self.missing)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "low": _plain(self.low), "high": _plain(self.high), **_flag(self.missing)}


@dataclass(frozen=True)
class Category:
    """One of public ``values``, kept and compared as text; any other value counts as "other".

    1, 1.0, "1" and "1.0" are the same value, spaces around a text do not count, and a bool is "True" or "False", or
    else 1 or 0, whichever is listed.
    """

    values: tuple[str, ...]
    missing: bool = False
    kind: ClassVar[str] = "category"

    def __init__(self, values: Iterable[Any], missing: bool = False) -> None:
        if hasattr(values, "tolist"):
            values = values.tolist()
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ArgumentError("values", values, "give a list of the category's public values, at least one")
        if any(is_missing(value) for value in values):
            raise ArgumentError("values", list(values), "an empty value is no value: leave it out and set missing")
        texts = tuple(text_of(value) for value in values)
        for text in texts:
            check_length("values", text)
        twice = sorted(text for text, count in Counter(texts).items() if count > 1)
        if twice:
            raise ArgumentError("values", twice, "give each value once")
        object.__setattr__(self, "values", texts)
        object.__setattr__(self, "missing", missing)
        _check_flag(missing)

    @property
    def other(self) -> int:
        """The code of a value that is not listed."""
        return len(self.values)

    def coded(self, name: str, cells: Array) -> Array:
        """Each cell's place among the values as float64, :attr:`other` for strangers, NaN where one is missing."""
        places = {value: code for code, value in reversed(list(enumerate(map(_canonical, self.values))))}
        places |= {value: code for code, value in enumerate(self.values)}
        if cells.dtype.kind in "biuf":
            unique, inverse = np.unique(cells, return_inverse=True)
            return _allowed(name, self._looked_up(unique, places)[inverse], self.missing)
        return _allowed(name, self._looked_up(cells, places), self.missing)

    def _looked_up(self, cells: Iterable[Any], places: dict[str, int]) -> Array:
        seen: dict[str, float] = {}  # of texts alone: as keys of a dict, True and 1 would be one
        codes = []
        for cell in cells:
            code = seen.get(cell) if type(cell) is str else None
            if code is None:
                there = (places[form] for form in _forms(cell) if form in places)
                code = math.nan if is_missing(cell) else float(next(there, self.other))
                if type(cell) is str:
                    seen[cell] = code
            codes.append(code)
        return np.array(codes, dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "values": list(self.values), **_flag(self.missing)}


Column = Number | Category


def text_of(cell: Any) -> str:
    """A cell as the text that values are compared by: whole numbers without a point, bools as True and False."""
    if isinstance(cell, bytes):
        return cell.decode(errors="replace")
    if isinstance(cell, float | np.floating) and math.isfinite(cell) and cell == int(cell):
        return str(int(cell))
    return str(cell)


def check_length(name: str, text: str) -> None:
    """Raise unless a name or a value is short enough for the files of a model."""
    if len(text) > TEXT:
        fix = f"it has {len(text):,} characters, and {TEXT:,} are the most"
        raise ArgumentError(name, f"{text[:40]}...", fix)


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """``; did you mean 'age'?`` if one of the ``known`` names is near, or nothing."""
    names = list(known)
    low = {str(name).lower(): name for name in reversed(names)}  # a frame may call a column anything
    near = difflib.get_close_matches(str(word).lower(), low, n=1)
    return f"; did you mean {low[near[0]]!r}?" if near else ""


def _forms(cell: Any) -> tuple[str, ...]:
    """The texts under which a cell may be listed, the likeliest first."""
    text = text_of(cell)
    if isinstance(cell, bool | np.bool_):
        return text, text.lower(), str(int(cell))
    return text, _canonical(text)


def _canonical(text: str) -> str:
    whole = _WHOLE.fullmatch(text.strip())
    return whole[1] if whole else text.strip()


def _read_number(name: str, row: int, cell: Any) -> float:
    if is_missing(cell):
        return math.nan
    try:
        if isinstance(cell, str | Real | Decimal | np.bool_):
            return float(cell)
    except (ValueError, OverflowError):
        pass
    fix = "this column holds numbers: mend the cell, leave it empty if it is missing, or declare a category"
    raise ArgumentError(_place(name, row), cell, fix)


def _allowed(name: str, codes: Array, missing: bool) -> Array:
    """``codes``, unless a cell is missing where none may be."""
    gone = np.isnan(codes)
    if not missing and gone.any():
        fix = f"{int(gone.sum())} cells are missing here: fill them in, or say missing=True of the column in the schema"
        raise ArgumentError(_place(name, int(np.argmax(gone))), None, fix)
    return codes


def _place(name: str, row: int) -> str:
    return f"column {name!r}, row {row}"


def _check_flag(missing: object) -> None:
    if not isinstance(missing, bool):
        raise ArgumentError("missing", missing, "give true or false")


def _flag(missing: bool) -> dict[str, Any]:
    return {"missing": True} if missing else {}


def _plain(bound: float) -> float | int:
    """A whole bound as an int, so that a file keeps saying 17 and not 17.0."""
    return int(bound) if bound == int(bound) and abs(bound) < 2**53 else bound
