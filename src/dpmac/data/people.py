"""A table of people to try the package on, with its public schema; it comes with the package, so it is always there."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpmac.checks import ArgumentError
from dpmac.data.catalogue import CATALOGUE, DataError, Listing, listing_of
from dpmac.data.fetching import TABLES, locate, read

if TYPE_CHECKING:
    from dpmac.tables import Schema

Columns = dict[str, list[str]]


@dataclass(frozen=True, eq=False)
class TableOfPeople:
    """Columns of cells by name, as texts, empty where a cell is missing: what an estimator with ``schema`` takes.

    The rows stand in the order of the file; the last of them are for testing. ``pandas.DataFrame(table.train)`` makes a
    data frame. ``licence`` is the whole text that stands beside the file. Two tables are equal only if they are the
    same object.
    """

    name: str
    schema: Schema = field(repr=False)
    train: Columns = field(repr=False)
    test: Columns = field(repr=False)
    licence: str = field(repr=False)
    source: str


def load_table(name: str = "adult") -> TableOfPeople:
    """Load ``adult``, which comes with the package; the file is checked by its digest, and nothing is downloaded.

    Its schema was written by hand from the set's description (the licence's text says how), never from the rows.
    """
    from dpmac.tables import Schema

    entry = listing_of(name)
    if not entry.inside:
        tables = ", ".join(table.name for table in CATALOGUE.values() if table.inside)
        raise ArgumentError("name", name, f"these are images: dpmac.data.load({name!r}), or give a table: {tables}")
    folder = locate(entry)
    schema = Schema.load(TABLES / f"{name}.schema.json")
    columns = _columns(entry, read(entry, entry.files[0], folder))
    if list(columns) != list(schema.columns):
        raise DataError(entry, f"its columns {list(columns)} are not the schema's {list(schema.columns)}", [])
    return TableOfPeople(
        name,
        schema,
        {column: cells[: entry.train_rows] for column, cells in columns.items()},
        {column: cells[entry.train_rows :] for column, cells in columns.items()},
        (TABLES / f"{name}.LICENCE.txt").read_text("utf-8"),
        str(folder),
    )


def _columns(entry: Listing, content: bytes) -> Columns:
    """The columns of a CSV file whose first line is their names."""
    names, *rows = csv.reader(io.StringIO(content.decode("utf-8"), newline=""))
    if len(rows) != entry.train_rows + entry.test_rows or any(len(row) != len(names) for row in rows):
        raise DataError(entry, f"its rows are not {entry.train_rows + entry.test_rows:,} of {len(names)} cells", [])
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}
