"""Rows that nobody is in: drawn evenly from what is public of the columns, and from nothing else.

Whatever a released model says of such rows is post-processing of it, and costs no privacy. They are not like real rows:
columns are independent, and every value of a range is as likely as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmac.randomness import SeededNoise
from dpmac.tables import ColumnKind, Number, Schema

Array = np.ndarray[Any, Any]
SEED = 1910_06924
MISSING = "missing"
ENDS = 1025  # cells among which that of a reference row is found


@dataclass(frozen=True)
class Cells:
    """Values to try in one column, and what each is called."""

    values: list[Any]
    labels: list[str]


@dataclass(frozen=True)
class Maker:
    """Makes tables for a fitted estimator from public descriptions of its columns.

    With ``named`` rows are tables, dictionaries of columns; without, they are arrays.
    """

    columns: Mapping[str, ColumnKind]
    named: bool

    def rows(self, count: int) -> dict[str, Array]:
        """``count`` rows, column by column; the same for the same columns, always."""
        source = SeededNoise(SEED, "/synthetic")
        drawn = {}
        for place, (name, column) in enumerate(self.columns.items()):
            drawn[name] = column.drawn(source.spawn(f"{place}").uniform(count).numpy())
        return drawn

    def usual(self, codes: Mapping[str, float]) -> dict[str, Any]:
        """A reference row: of each column the cell nearest to a public code, else the middle or the first value."""
        found = {}
        for name, column in self.columns.items():
            cells = column.examples(ENDS)
            if column.code_width != 1:
                found[name] = cells[0]
                continue
            places = column.coded(name, cells)
            wanted = codes.get(name)
            if wanted is None and not column.ordered:
                found[name] = cells[0]
                continue
            if wanted is None:
                wanted = (float(places.min()) + float(places.max())) / 2
            found[name] = cells[int(np.abs(places - wanted).argmin())]
        return found

    def shaped(self, table: Mapping[str, Array]) -> Any:
        """What the estimator takes: the table itself, or an array."""
        if self.named:
            return dict(table)
        return np.stack([table[name] for name in self.columns], axis=1)

    def tried(self, name: str, points: int) -> Cells:
        """The values that a column can have: all of a category, ``points`` of a range, and none if that may be."""
        column = self.columns[name]
        values = list(column.examples(points))
        labels = [column.label(value) for value in values]
        if column.missing:
            return Cells([*values, column.absent], [*labels, MISSING])
        return Cells(values, labels)


def maker_for(estimator: Any, schema: Schema | None) -> Maker | None:
    """A maker of rows for a fitted estimator; None if nothing public says where its columns lie."""
    if schema is not None:
        return Maker(schema.features, named=True)
    given = getattr(estimator, "feature_range", None)
    count = getattr(estimator, "n_features_in_", None)
    if given is None or count is None:
        return None
    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    if len(set(names)) != count:
        names = [f"column {k + 1}" for k in range(count)]
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (count,)) for end in given)
        columns = {name: Number(float(a), float(b)) for name, a, b in zip(names, low, high, strict=True)}
    except (TypeError, ValueError):  # an object of the user's own, of which a folder has the name alone
        return None
    return Maker(columns, named=False)
