"""How a file writes its cells, as options: they stand in the schema, and go into the model with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError

if TYPE_CHECKING:
    from dpmac.tables import ColumnKind, Schema
    from dpmac.tables.cell_format import CellFormat

Na = Annotated[
    list[str] | None,
    typer.Option("--na", help="A text that stands for a missing cell, beside NA, n/a, NULL, -. Repeatable."),
]
Decimal = Annotated[str | None, typer.Option("--decimal", help="The decimal sign: . or ,", metavar="SIGN")]
Thousands = Annotated[
    str | None, typer.Option("--thousands", help="What separates thousands: , . ' or a space.", metavar="SIGN")
]
Censored = Annotated[
    str | None,
    typer.Option("--censored", help="What <0.5 and >100 count as: limit, half (of it, after <), or missing."),
]


def stated(**options: Any) -> dict[str, Any]:
    """The options that were given, as the schema's "cells" has them."""
    return {name: value for name, value in options.items() if value not in (None, [], ())}


def with_cells(schema: Schema, **options: Any) -> Schema:
    """The schema with these options in place of its own."""
    return replace(schema, cells=_changed(schema.cells, options))


def stated_form(written: Any, **options: Any) -> CellFormat:
    """The format of a template, which may say nothing of it, with these options in place of its own."""
    from dpmac.tables.cell_format import CellFormat

    return _changed(CellFormat.from_dict(written or {}), options)


def _changed(form: CellFormat, options: dict[str, Any]) -> CellFormat:
    try:
        return replace(form, **stated(**options))
    except ArgumentError as error:
        raise ArgumentError(f"--{error.name}", error.value, error.fix) from None


def as_written(schema: Schema, table: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """The features of a table of another format than the model's own file had: its texts read as the options say."""
    chosen = with_cells(schema, **options).cells
    if chosen == schema.cells:
        return {name: table[name] for name in schema.features}
    return {name: _read(chosen, column, table[name]) for name, column in schema.features.items()}


def _read(chosen: CellFormat, column: ColumnKind, cells: Any) -> list[Any]:
    """Cells that the format of the model's own file does not read once more: numbers are numbers."""
    from dpmac.cells import flat

    found: list[Any] = chosen.read(column, flat(cells)).tolist()
    if column.target_range is None:
        return found
    return [_number(cell) for cell in found]


def _number(cell: Any) -> Any:
    try:
        return float(cell) if isinstance(cell, str) and cell.strip() else cell
    except ValueError:
        return cell
