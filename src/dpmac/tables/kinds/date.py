"""Dates with a public range: as a number of days and, if asked for, by month and weekday.

The code of a date is the number of days since 2000-01-01: a model never sees a time of day. A timestamp with a time
zone counts by its date in UTC, as Parquet keeps it. Without a time zone the date is taken as it is written.

Month and weekday are one-hot, so that a linear layer makes any seasonal shape of them. They are those of the cell's
own date, also where that lies outside the range and its days are clipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from dpmac.cells import is_missing
from dpmac.checks import ArgumentError
from dpmac.tables.kinds.base import Array, ColumnKind, Draws, Guess, Quote
from dpmac.tables.kinds.calendar import month, weekday
from dpmac.tables.kinds.shared import allowed, bent, cell_place, check_flag, days_at, range_inputs, range_names
from dpmac.tables.texts import check_length, text_of

EPOCH = date(2000, 1, 1)  # ranges are estimated in steps that are finest around this day
ISO = "%Y-%m-%d"
_PLAIN = (ISO, "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
FORMATS = (*_PLAIN, *(f"{ISO}{time}" for time in (" %H:%M:%S", "T%H:%M:%S", "T%H:%M:%S%z")))  # that are guessed
PARTS = {
    "month": ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
}
_PART_OF = {"month": month, "weekday": weekday}
_EPOCH = np.datetime64(EPOCH, "D")
_FIRST, _LAST = (date.min - EPOCH).days, (date.max - EPOCH).days  # the years 1 to 9999
_UNREADABLE = (ValueError, OverflowError, re.error, KeyError, IndexError)  # what strptime raises


@dataclass(frozen=True)
class Date(ColumnKind):
    """A date from ``low`` to ``high``, public bounds as "YYYY-MM-DD" or dates; what lies outside is clipped.

    ``format`` is how texts are written, in the letters of :meth:`datetime.datetime.strptime`; cells that are dates
    already (of Python, NumPy, pandas, arrow) need none. ``parts`` may hold "month" and "weekday", for models that
    should see them. ``missing``: a cell may be absent.
    """

    low: str
    high: str
    format: str = ISO
    parts: Sequence[str] = ()
    missing: bool = False
    kind: ClassVar[str] = "date"
    needed: ClassVar[tuple[str, ...]] = ("low", "high")
    optional: ClassVar[tuple[str, ...]] = ("format", "parts", "missing")
    to_write: ClassVar[str] = (
        "its public range, low and high as YYYY-MM-DD, as a code book has it and not as the rows do; and the format of "
        "its cells, such as %d/%m/%Y, if that is open"
    )
    help: ClassVar[str] = (
        "date: low and high, as YYYY-MM-DD; what lies outside is clipped. format: how the cells are written, %Y-%m-%d "
        "if left out. parts: a list of 'month' and 'weekday', if a model should see them."
    )
    ordered: ClassVar[bool] = True
    dtype: ClassVar[Any] = "datetime64[D]"
    absent: ClassVar[Any] = np.datetime64("NaT", "D")

    def __post_init__(self) -> None:
        _check_format(self.format)
        low, high = _bound("low", self.low), _bound("high", self.high)
        if not low < high:
            raise ArgumentError("low, high", (self.low, self.high), "give public dates with low before high")
        object.__setattr__(self, "low", _date(low).isoformat())
        object.__setattr__(self, "high", _date(high).isoformat())
        parts = self.parts
        if isinstance(parts, str) or not isinstance(parts, Sequence) or any(part not in tuple(PARTS) for part in parts):
            raise ArgumentError("parts", parts, f"give a list of some of {list(PARTS)}")
        if len(set(parts)) < len(parts):
            raise ArgumentError("parts", parts, "give each part once")
        object.__setattr__(self, "parts", tuple(parts))
        check_flag(self.missing)

    @property
    def days(self) -> tuple[int, int]:
        """The range as codes."""
        return _days(date.fromisoformat(self.low)), _days(date.fromisoformat(self.high))

    # --- cells, codes, inputs -----------------------------------------------------------------------------------------

    def coded(self, name: str, cells: Array) -> Array:
        """The days since 2000-01-01 as float64, not clipped, NaN where a cell is missing; texts by the format."""
        if cells.dtype.kind == "M":
            return allowed(name, _days_of(cells), self.missing)
        seen: dict[str, float] = {}  # few dates are written many times
        codes = np.empty(len(cells), dtype=np.float64)
        for row, cell in enumerate(cells):
            if type(cell) is not str:
                codes[row] = self._code(name, row, cell)
                continue
            if cell not in seen:
                seen[cell] = self._code(name, row, cell)
            codes[row] = seen[cell]
        return allowed(name, codes, self.missing)

    def _code(self, name: str, row: int, cell: Any) -> float:
        try:
            return _read(cell, self.format)
        except _UNREADABLE:
            such = datetime(2025, 2, 28, tzinfo=UTC).strftime(self.format)
            fix = f"this column holds dates, as texts written {self.format!r}, such as {such!r}: correct the cell, "
            fix += "leave it empty if it is missing, or state another format"
            raise ArgumentError(cell_place(name, row), cell, fix) from None

    def coded_at_once(self, cells: Any) -> Array | None:
        """Of arrow's dates and timestamps, which are whole numbers of a unit in UTC since 1970."""
        import pyarrow as pa
        from pyarrow import types

        if not (types.is_date(cells.type) or types.is_timestamp(cells.type)):
            return None
        unit = {pa.date32(): "D", pa.date64(): "ms"}.get(cells.type) or cells.type.unit
        if cells.type == pa.date32():
            whole = cells.cast(pa.int32())
        else:
            whole = cells
        numbers = whole.cast(pa.int64()).fill_null(np.iinfo(np.int64).min)  # which NumPy takes for NaT
        return _days_of(numbers.to_numpy(zero_copy_only=False).view(f"datetime64[{unit}]"))

    def encoded(self, value: Tensor, there: Tensor, bins: int) -> list[Tensor]:
        low, high = self.days
        found = range_inputs((value.clamp(low, high) - low) / (high - low), there, bins)
        day = torch.floor(value.clamp(_FIRST, _LAST))
        for part in self.parts:
            place = _PART_OF[part](day)
            places = torch.arange(len(PARTS[part]), dtype=value.dtype, device=value.device)
            found.append(((place == places) & there).to(value.dtype))
        return found

    def input_names(self, name: str, bins: int) -> list[str]:
        return [*range_names(name, bins), *(f"{name} {part}={value}" for part in self.parts for value in PARTS[part])]

    def drawn(self, uniform: Array) -> Array:
        return _dates(days_at(uniform, *self.days))

    def drawn_codes(self, place: Array, draw: Draws) -> Array:
        return days_at(bent(place, draw), *self.days)

    def examples(self, points: int) -> Array:
        return _dates(np.unique(np.round(np.linspace(*self.days, points))))

    # --- in words and in files ----------------------------------------------------------------------------------------

    def described(self, quote: Quote) -> str:
        words = "a date"
        if self.format != ISO:
            words += f", written {quote(self.format)}"
        words += f", clipped to {self.low} .. {self.high}"
        if self.parts:
            words += f", with its {' and '.join(self.parts)}"
        return words

    def label(self, cell: Any) -> str:
        return str(cell)

    def tick(self, position: float, written: Any) -> str:  # noqa: ARG002
        return _date(math.floor(min(max(position, _FIRST), _LAST))).isoformat()

    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {"low": self.low, "high": self.high}
        if self.format != ISO:
            found["format"] = self.format
        if self.parts:
            found["parts"] = list(self.parts)
        return found

    def as_input(self) -> dict[str, Any]:
        return {"days since": EPOCH.isoformat(), "clipped to": list(self.days)}

    @classmethod
    def guess(cls) -> Guess:
        return _Dates()

    @classmethod
    def unbounded(cls, given: Mapping[str, Any]) -> Date:
        ends = date.min.isoformat(), date.max.isoformat()
        return cls(*ends, given.get("format") or ISO, given.get("parts") or (), missing=True)

    def with_range(self, low: float, high: float, missing: bool) -> Date:
        first = min(max(math.floor(low), _FIRST), _LAST - 1)
        last = max(min(math.ceil(high), _LAST), first + 1)
        return replace(self, low=_date(first).isoformat(), high=_date(last).isoformat(), missing=missing)

    @classmethod
    def samples(cls) -> Sequence[Date]:
        every = tuple(PARTS)
        return (
            cls("2015-01-01", "2025-12-31"),
            cls("1899-12-31", "2100-03-01", "%d.%m.%Y", missing=True),
            cls("2019-12-30", "2021-03-01", parts=every, missing=True),
        )

    def sample_cells(self) -> tuple[list[Any], list[Any]]:
        zone = datetime.fromisoformat("2024-03-01T01:30:00+02:00")
        good = [date(2024, 2, 29), date.min, date.max, datetime(1999, 12, 31, 23, 59), zone, np.datetime64("2020-01")]
        texts = [date(2024, 2, 29).strftime(self.format), f" {EPOCH.strftime(self.format)} "]
        return [*good, *texts], ["soon", "2023-02-29", "31.04.2024", 2024, 1.5, True]


class _Dates:
    """Whether all cells are dates, and in which of the :data:`FORMATS` all texts among them are written."""

    def __init__(self) -> None:
        self._formats, self._seen, self._any = list(FORMATS), set[str](), False

    def see(self, cell: Any) -> bool:
        self._any = True
        if not isinstance(cell, str):
            return isinstance(cell, date | np.datetime64)
        if cell not in self._seen:
            self._seen.add(cell)
            self._formats = [one for one in self._formats if self._is_written(cell, one)]
        return bool(self._formats)

    @staticmethod
    def _is_written(text: str, form: str) -> bool:
        try:
            return not math.isnan(_read(text, form))
        except _UNREADABLE:
            return False

    def template(self) -> dict[str, Any] | None:
        """The format; open if more than one is possible, as of 01/02/2024."""
        if not self._any:
            return None
        if not self._seen or self._formats == [ISO]:
            return {}
        return {"format": self._formats[0] if len(self._formats) == 1 else None}


def _read(cell: Any, form: str) -> float:
    """The code of one cell, NaN of a missing one; ValueError or OverflowError of one that is no date."""
    if is_missing(cell):
        return math.nan
    if isinstance(cell, np.datetime64):
        return float(_days_of(np.array([cell]))[0])
    if isinstance(cell, bytes | str) or (isinstance(cell, Real) and not isinstance(cell, bool)):
        cell = datetime.strptime(text_of(cell).strip(), form)
    if isinstance(cell, datetime):
        if cell.utcoffset() is not None:
            cell = cell.astimezone(UTC)
        return float(_days(cell.date()))
    if isinstance(cell, date):
        return float(_days(cell))
    raise ValueError(cell)


def _days_of(times: Array) -> Array:
    """Times of NumPy, of any unit, as days; NaN where one is not a time."""
    days = times.astype("datetime64[D]")
    return np.where(np.isnat(days), np.nan, (days - _EPOCH).astype(np.float64))


def _dates(days: Array) -> Array:
    found: Array = _EPOCH + days.astype("timedelta64[D]")
    return found


def _days(day: date) -> int:
    return (day - EPOCH).days


def _date(days: int) -> date:
    return EPOCH + timedelta(days=days)


def _bound(name: str, given: Any) -> int:
    try:
        days = _read(given, ISO)
    except _UNREADABLE:
        days = math.nan
    if isinstance(given, Real) or not _FIRST <= days <= _LAST:
        raise ArgumentError(name, given, f"give a public date as YYYY-MM-DD, from {date.min} to {date.max}")
    return int(days)


def _check_format(form: Any) -> None:
    check_length("format", str(form))
    try:
        probes = [datetime(year, 1, 1, tzinfo=UTC) for year in (1999, 2021)]
        right = all(_read(one.strftime(form), form) == _days(one.date()) for one in probes)
    except (*_UNREADABLE, TypeError):
        right = False
    if not right:
        raise ArgumentError("format", form, "give a format of datetime.strptime with the year, such as %d/%m/%Y")
