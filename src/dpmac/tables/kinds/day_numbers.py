"""Dates as texts, as values and as numbers of days; and the guess at a column's format."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from numbers import Real
from typing import Any

import numpy as np

from dpmac.cells import is_missing
from dpmac.tables.kinds.base import Array
from dpmac.tables.texts import text_of

EPOCH = date(2000, 1, 1)  # ranges are estimated in steps that are finest around this day
ISO = "%Y-%m-%d"
_PLAIN = (ISO, "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
FORMATS = (*_PLAIN, *(f"{ISO}{time}" for time in (" %H:%M:%S", "T%H:%M:%S", "T%H:%M:%S%z")))  # that are guessed
UNREADABLE = (ValueError, OverflowError, re.error, KeyError, IndexError)  # what strptime raises
_EPOCH = np.datetime64(EPOCH, "D")


def read_date(cell: Any, form: str) -> float:
    """The code of one cell, NaN of a missing one; ValueError or OverflowError of one that is no date."""
    if is_missing(cell):
        return math.nan
    if isinstance(cell, np.datetime64):
        return float(days_of(np.array([cell]))[0])
    if isinstance(cell, bytes | str) or (isinstance(cell, Real) and not isinstance(cell, bool)):
        cell = datetime.strptime(text_of(cell).strip(), form)
    if isinstance(cell, datetime):
        if cell.utcoffset() is not None:
            cell = cell.astimezone(UTC)
        return float(day_number(cell.date()))
    if isinstance(cell, date):
        return float(day_number(cell))
    raise ValueError(cell)


def days_of(times: Array) -> Array:
    """Times of NumPy, of any unit, as days; NaN where one is not a time."""
    days = times.astype("datetime64[D]")
    return np.where(np.isnat(days), np.nan, (days - _EPOCH).astype(np.float64))


def dates_at(days: Array) -> Array:
    found: Array = _EPOCH + days.astype("timedelta64[D]")
    return found


def day_number(day: date) -> int:
    return (day - EPOCH).days


def date_at(days: int) -> date:
    return EPOCH + timedelta(days=days)


class DateGuess:
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
            return not math.isnan(read_date(text, form))
        except UNREADABLE:
            return False

    def template(self) -> dict[str, Any] | None:
        """The format; open if more than one is possible, as of 01/02/2024."""
        if not self._any:
            return None
        if not self._seen or self._formats == [ISO]:
            return {}
        return {"format": self._formats[0] if len(self._formats) == 1 else None}
