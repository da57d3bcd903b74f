"""Ids of persons in a table: rows that share one are warned of, where nobody said whose the rows are.

A column is taken for ids by its name alone (patient, patient_id, PatientID, customer number, id), and rows share them
if it has fewer values than rows. This looks at the rows; what it says is shown to the one who has them anyway.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from dpmac.checks import ArgumentError, PrivacyWarning
from dpmac.estimators.warning import outside
from dpmac.tables import Files
from dpmac.tables.frames import cells, names_of
from dpmac.tables.ids import differing
from dpmac.tables.naming import names_ids

FEW = 20  # values of a column that is called "subject" or "member": a category, as likely as not


def warn_of_ids(table: Any) -> None:
    """Warn if rows share the ids of some column."""
    for name in _names(table):
        sure = names_ids(name)
        if sure is None:
            continue
        different = _different(table, name)
        if different is not None and different[0] < different[1] and (sure or different[0] > FEW):
            text = (
                f"rows share the ids of column {name!r}, and the guarantee is for one row: whoever has several is "
                f"protected row by row only. Give fit groups=table[{name!r}] (dpmac train: --groups), and it is for "
                "one person with all their rows"
            )
            warnings.warn(text, PrivacyWarning, stacklevel=outside())
            return


def _names(table: Any) -> list[str]:
    """Of a table whose columns have names; an array has none."""
    if not (isinstance(table, Mapping) or hasattr(table, "columns") or hasattr(table, "column_names")):
        return []
    try:
        return [name for name in names_of(table) if isinstance(name, str)]
    except ArgumentError:
        return []


def _different(table: Any, name: str) -> tuple[int, int] | None:
    """How many different values a column has, and how many rows; None if they cannot be told apart."""
    if isinstance(table, Files):
        return differing(table.batches([name]), name, FEW), table.n
    try:
        column = cells(table, [name])[name]
        return len(set(column.tolist())), len(column)
    except (ArgumentError, TypeError):
        return None
