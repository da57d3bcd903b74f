"""Do rows and schema agree? A warning to whoever holds the rows, where nearly all cells of a column say nothing.

A cell outside a range is clipped, a value that is not listed counts as "other", and neither is an error: no schema
knows every row. But where it is nearly all cells of a column, one of the two is wrong (another unit, another spelling),
and a budget is spent on a column that a model cannot see.

These counts are plain sums over rows, outside the guarantee. They go into a warning, to the screen of the one who has
the rows, and nowhere else: no model, ledger, statement, card or report may hold them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpmac.checks import PrivacyWarning
from dpmac.tables.kinds import Array, ColumnKind

NEARLY_ALL = 0.9
FEWEST = 10  # rows; of fewer a share says little
SHOWN = 8  # columns in one warning
OUTSIDE = (
    "these are plain counts of the rows, outside the guarantee: they are shown to you alone, and nothing that is "
    "published holds them"
)


class SchemaWarning(PrivacyWarning):
    """Nearly all cells of a column are clipped, "other" or missing: the schema or the rows are not what was meant.

    ``warnings.simplefilter("error", SchemaWarning)`` stops a fit before anything is spent, as ``--strict`` does.
    """


@dataclass
class Counts:
    """Of the cells of one column: how many there are, are missing, and lie beyond what the schema says."""

    cells: int = 0
    missing: int = 0
    beyond: int = 0

    @property
    def there(self) -> int:
        return self.cells - self.missing

    @property
    def disagree(self) -> bool:
        """Whether nearly all cells, or nearly all of those that are there, say nothing to a model."""
        if self.cells < FEWEST:
            return False
        if self.missing + self.beyond >= NEARLY_ALL * self.cells:
            return True
        return self.there >= FEWEST and self.beyond >= NEARLY_ALL * self.there


class Agreement:
    """Counts cells of the ``columns`` batch by batch, and says where they disagree with the schema."""

    def __init__(self, columns: Mapping[str, ColumnKind]) -> None:
        self._columns = columns
        self.counts = {name: Counts() for name in columns}

    def add(self, codes: Array) -> None:
        """Codes of rows, (rows, numbers of all columns side by side), as ``TableEncoder.codes`` has them."""
        start = 0
        for name, column in self._columns.items():
            width = column.code_width
            self.add_column(name, codes[:, start : start + width])
            start += width

    def add_column(self, name: str, codes: Array) -> None:
        """Codes of one column."""
        codes = codes.reshape(len(codes), self._columns[name].code_width)
        gone = np.isnan(codes[:, 0])
        count = self.counts[name]
        count.cells += len(codes)
        count.missing += int(gone.sum())
        count.beyond += int((self._columns[name].beyond(codes) & ~gone).sum())

    def words(self) -> list[str]:
        """A phrase for each column that disagrees, with its counts."""
        return [self._words(name, count) for name, count in self.counts.items() if count.disagree]

    def _words(self, name: str, count: Counts) -> str:
        parts = []
        if count.missing:
            parts.append(f"{count.missing:,} are missing")
        if count.beyond:
            parts.append(f"{count.beyond:,} {self._columns[name].beyond_words}")
        return f"column {name!r}: of {count.cells:,} cells {' and '.join(parts)}"

    def warn(self, stacklevel: int) -> None:
        """One warning of all columns that disagree, if there are any."""
        found = self.words()
        if not found:
            return
        more = ""
        if len(found) > SHOWN:
            more = f"; and {len(found) - SHOWN} more columns"
        listed = "; ".join(found[:SHOWN])
        warnings.warn(f"rows and schema disagree: {listed}{more}. ({OUTSIDE})", SchemaWarning, stacklevel=stacklevel)


def warn_where_they_disagree(columns: Mapping[str, ColumnKind], codes: Array, stacklevel: int) -> None:
    """Count all at once, and warn."""
    seen = Agreement(columns)
    seen.add(codes)
    seen.warn(stacklevel + 1)
