"""Dates with a public range: as a number of days and, if asked for, by month and weekday.

The code of a date is the number of days since 2000-01-01: a model never sees a time of day. A timestamp with a time
zone counts by its date in UTC, as Parquet keeps it. Without a time zone the date is taken as it is written.

Month and weekday are one-hot, so that a linear layer makes any seasonal shape of them. They are those of the cell's
own date, also where that lies outside the range and its days are clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.tables.kinds.base import Array, ColumnKind, Quote
from dpmac.tables.kinds.bases import Basis, Levels, eye
from dpmac.tables.kinds.calendar import month, weekday
from dpmac.tables.kinds.day_numbers import (
    EPOCH,
    ISO,
    UNREADABLE,
    DateGuess,
    date_at,
    dates_at,
    day_number,
    days_of,
    read_date,
)
from dpmac.tables.kinds.protocols import Draws, Guess
from dpmac.tables.kinds.shared import (
    allowed,
    bent,
    check_flag,
    days_at,
    knots_basis,
    outside,
    outside_words,
    range_inputs,
    range_names,
    read_each,
)
from dpmac.tables.texts import check_length

PARTS = {
    "month": ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
}
_PART_OF = {"month": month, "weekday": weekday}
_FIRST, _LAST = (date.min - EPOCH).days, (date.max - EPOCH).days  # the years 1 to 9999


@dataclass(frozen=True)
class Date(ColumnKind):
    """A date from ``low`` to ``high``, public bounds as "YYYY-MM-DD" or dates; what lies outside is clipped.

    ``format`` is the format of texts, as for :meth:`datetime.datetime.strptime`; cells that are dates already (of
    Python, NumPy, pandas, arrow) need none. ``parts`` may contain "month" and "weekday", as further inputs of the
    model. ``missing``: a cell may be absent.
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
        object.__setattr__(self, "low", date_at(low).isoformat())
        object.__setattr__(self, "high", date_at(high).isoformat())
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
        return day_number(date.fromisoformat(self.low)), day_number(date.fromisoformat(self.high))

    # --- cells, codes, inputs -----------------------------------------------------------------------------------------

    def coded(self, name: str, cells: Array) -> Array:
        """The days since 2000-01-01 as float64, not clipped, NaN where a cell is missing; texts by the format."""
        if cells.dtype.kind == "M":
            return allowed(name, days_of(cells), self.missing)
        seen: dict[str, float] = {}  # few dates are written many times

        def read(cell: Any) -> float:
            if type(cell) is not str:
                return read_date(cell, self.format)
            if cell not in seen:
                seen[cell] = read_date(cell, self.format)
            return seen[cell]

        return allowed(name, read_each(name, cells, read, self._advice), self.missing)

    def _advice(self, cell: Any) -> str:  # noqa: ARG002
        such = datetime(2025, 2, 28, tzinfo=UTC).strftime(self.format)
        fix = f"this column holds dates, as texts written {self.format!r}, such as {such!r}: correct the cell, "
        return fix + "leave it empty if it is missing, or state another format"

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
        return days_of(numbers.to_numpy(zero_copy_only=False).view(f"datetime64[{unit}]"))

    def beyond(self, codes: Array) -> Array:
        return outside(codes, *self.days)

    @property
    def beyond_words(self) -> str:
        return outside_words(self.low, self.high)

    def encoded(self, value: Tensor, there: Tensor, bins: int) -> list[Tensor]:
        low, high = self.days
        found = range_inputs((value.clamp(low, high) - low) / (high - low), there, bins)
        for part in self.parts:
            place = _place_of(part, value)
            places = torch.arange(len(PARTS[part]), dtype=value.dtype, device=value.device)
            found.append(((place == places) & there).to(value.dtype))
        return found

    def bases(self, bins: int) -> Sequence[Basis]:
        """Knots along its days, and the values of its parts."""
        low, high = self.days
        knots = low + (high - low) * (np.arange(max(bins, 1) + 1) / max(bins, 1))
        found: list[Basis] = [knots_basis(replace(self, parts=()), knots, bins)]
        for part in self.parts:
            values = PARTS[part]
            found.append(Levels(values, eye(len(values)), partial(_place_of, part), name=part))
        return found

    @property
    def rises(self) -> bool:
        """Not with its months or weekdays, which come back."""
        return not self.parts

    def input_names(self, name: str, bins: int) -> list[str]:
        return [*range_names(name, bins), *(f"{name} {part}={value}" for part in self.parts for value in PARTS[part])]

    def drawn(self, uniform: Array) -> Array:
        return dates_at(days_at(uniform, *self.days))

    def drawn_codes(self, place: Array, draw: Draws) -> Array:
        return days_at(bent(place, draw), *self.days)

    def examples(self, points: int) -> Array:
        return dates_at(np.unique(np.round(np.linspace(*self.days, points))))

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
        return date_at(math.floor(min(max(position, _FIRST), _LAST))).isoformat()

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
        return DateGuess()

    @classmethod
    def unbounded(cls, given: Mapping[str, Any]) -> Date:
        ends = date.min.isoformat(), date.max.isoformat()
        return cls(*ends, given.get("format") or ISO, given.get("parts") or (), missing=True)

    def with_range(self, low: float, high: float, missing: bool) -> Date:
        first = min(max(math.floor(low), _FIRST), _LAST - 1)
        last = max(min(math.ceil(high), _LAST), first + 1)
        return replace(self, low=date_at(first).isoformat(), high=date_at(last).isoformat(), missing=missing)

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


def _place_of(part: str, value: Tensor) -> Tensor:
    return _PART_OF[part](torch.floor(value.clamp(_FIRST, _LAST)))


def _bound(name: str, given: Any) -> int:
    try:
        days = read_date(given, ISO)
    except UNREADABLE:
        days = math.nan
    if isinstance(given, Real) or not _FIRST <= days <= _LAST:
        raise ArgumentError(name, given, f"give a public date as YYYY-MM-DD, from {date.min} to {date.max}")
    return int(days)


def _check_format(form: Any) -> None:
    check_length("format", str(form))
    try:
        probes = [datetime(year, 1, 1, tzinfo=UTC) for year in (1999, 2021)]
        right = all(read_date(one.strftime(form), form) == day_number(one.date()) for one in probes)
    except (*UNREADABLE, TypeError):
        right = False
    if not right:
        raise ArgumentError("format", form, "give a format of datetime.strptime with the year, such as %d/%m/%Y")
