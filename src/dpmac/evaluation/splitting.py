"""``dpmac.split``: a table in Python, divided once and for all; each split with its rows and its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from dpmac.checks import ArgumentError
from dpmac.privacy import Ledger
from dpmac.tables.frames import cells, has_names

SHARES: Mapping[str, float] = MappingProxyType({"train": 0.8, "test": 0.2})


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of one split, and the ledger for what is released from them."""

    table: Any
    ledger: Ledger
    rows: np.ndarray[Any, Any]  # their places in the whole table


def split(table: Any, *, by: str, ledger: Ledger, shares: Mapping[str, float] = SHARES) -> dict[str, Split]:
    """Divide a table with named columns, so that nobody is in two splits and each is paid for separately.

    ``by`` names the column with an id for every row or, where persons may have several rows, for every person. Which
    split a row is in follows from its id and a key in ``ledger``: the same rows are always in the same split, even if
    the table has new ones. A release recorded in the ledger of one split costs nothing in another (docs/evaluation.md).
    """
    if not has_names(table):
        raise ArgumentError("table", type(table).__name__, "give a mapping of columns or a data frame, with names")
    ids = cells(table, [by])[by]
    known = ledger.splits or ledger.divide(shares, by=by)
    if known.by != by or (shares is not SHARES and dict(known.shares) != dict(shares)):
        ledger.divide(shares, by=by)  # says what it is divided into
    found = known.of(ids)
    made: dict[str, Split] = {}
    for number, name in enumerate(known.names):
        places = np.flatnonzero(found == number)
        made[name] = Split(_taken(table, places), ledger.split(name, ids[places]), places)
    return made


def _taken(table: Any, places: np.ndarray[Any, Any]) -> Any:
    """Some rows of a table, in a table of the same kind."""
    if hasattr(table, "iloc"):
        return table.iloc[places]
    if isinstance(table, Mapping):
        return {name: _some(column, places) for name, column in table.items()}
    if hasattr(table, "take"):  # arrow
        return table.take(places)
    return table[places]  # polars, a structured array


def _some(column: Any, places: np.ndarray[Any, Any]) -> Any:
    if hasattr(column, "__array__"):
        return column[places]
    return [column[place] for place in places.tolist()]
