"""``dpmac schema``: write down what is publicly known of a table, check it, or pay for what nobody knows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError, how_many
from dpmac.cli.cell_options import Censored, Decimal, Na, Thousands, stated, stated_form
from dpmac.cli.ending import add
from dpmac.cli.schema_check import check

if TYPE_CHECKING:
    from dpmac.tables import ColumnKind

schema_app = typer.Typer(
    name="schema",
    help="What is publicly known of a table: columns, ranges of numbers and dates, values of categories.\n\n"
    "A model sees rows through it alone. It must be written without looking at the rows, from a code book or common "
    "knowledge, or be estimated privately and paid for.\n\n[bold]Example[/bold]\n\n"
    "  dpmac schema init patients.csv > template.json",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)
BEGIN = "Fill in every null with what is publicly known, then run: dpmac schema check THIS-FILE"
END = [
    "positive: of a target of two values the one that a probability is of; if it stays null, the second.",
    "cells: how the file writes cells: na, texts that are missing; decimal and thousands, signs; censored, what <0.5 "
    "counts as: 'limit', 'half' or 'missing'.",
    "missing: whether a cell may be empty. Take out columns that a model should not see: names, identifiers.",
    "Never copy ranges or values from the rows: that would leak. 'dpmac schema estimate' pays for ranges.",
]
IDS = "If one of them says whose a row is, give it to dpmac train --groups"
CROWDED = (
    "Values may be the name of a file, one a line, from a code book; or cut them (kind prefix), put them into buckets "
    "(kind hash), or take the column out: what is seldom is hardly heard"
)
LOOKED = (
    "the kinds, and the formats of dates, were guessed by looking at the rows, which no guarantee covers: check each, "
    "or use --kinds-from-header-only. No range and no value was copied."
)


def init(
    file: Annotated[Path, typer.Argument(help="The rows: CSV, Parquet, or a folder of Parquet.", metavar="FILE")],
    target: Annotated[str | None, typer.Option(help="The column that will be predicted.", metavar="COLUMN")] = None,
    header_only: Annotated[
        bool, typer.Option("--kinds-from-header-only", help="Do not look at the rows: leave every kind open.")
    ] = False,
    na: Na = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    censored: Censored = None,
) -> None:
    """Print a template: the columns of a file, with a guess at their kinds; all else is for you to write.

    Ranges and values are null, and stay so until you write in what is publicly known: they are never copied from the
    rows. The guess of a kind (number, category, date with its format, text, or prefix of a postal code) looks at them,
    and so does that of the signs in numbers ("cells"), unless options state them. Columns that are ids are left out.
    With [bold]--kinds-from-header-only[/bold] nothing but the first line is used.

    [bold]Examples[/bold]

      dpmac schema init patients.csv > template.json

      dpmac schema init patients.csv --target death --kinds-from-header-only > template.json
    """
    from dpmac.tables.files import need_columns, open_column
    from dpmac.tables.kinds import KINDS
    from dpmac.tables.stored import open_table
    from dpmac.tables.templates import MANY, Guessed, guessed_columns

    options = stated(na=na, decimal=decimal, thousands=thousands, censored=censored)
    form = stated_form({}, **options)
    table = open_table(file)
    if target is not None:
        need_columns(file, table, [target])
    if header_only:
        found = Guessed({name: open_column(None) for name in table if name}, form.to_dict())
    elif options:
        found = guessed_columns(table, target, form)
    else:
        found = guessed_columns(table, target)
    notes = [BEGIN, *(kind.help for kind in KINDS.values()), *END]
    raw: dict[str, Any] = {"_help": notes, "name": file.name.split(".")[0], "about": "", "target": target}
    if target is not None:
        raw["positive"] = None
    if found.cells:
        raw["cells"] = found.cells
    typer.echo(json.dumps({**raw, "columns": found.columns}, indent=1, ensure_ascii=False))
    count = how_many(len(found.columns), "column")
    said = [f"{count}. Fill in every null with what is publicly known."]
    if found.ids:
        said.append(f"left out, as ids: {', '.join(found.ids)}. {IDS}")
    if found.crowded:
        said.append(f"more than {MANY} different values: {', '.join(found.crowded)}. {CROWDED}")
    if not header_only:
        said.append(LOOKED)
    for line in said:
        typer.echo(f"dpmac: {line}", err=True)


def estimate(
    file: Annotated[Path, typer.Argument(help="The rows: CSV, Parquet, or a folder of Parquet.", metavar="FILE")],
    schema: Annotated[Path, typer.Option(help="A template; its numbers and dates without a range are estimated.")],
    epsilon: Annotated[float, typer.Option(help="What to spend on all ranges together.")],
    ledger: Annotated[Path, typer.Option(help="The ledger of this data set, which this is written into.")],
    delta: Annotated[float | None, typer.Option(help="Left out: safely below 1/n.")] = None,
    data_set: Annotated[str, typer.Option(help="What you call the rows, for the ledger.", metavar="NAME")] = "",
    groups: Annotated[
        str | None, typer.Option(help="The column that says whose a row is, as of dpmac train.", metavar="COLUMN")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The schema to write. Left out: standard output.")] = None,
    seed: Annotated[int | None, typer.Option(help="Repeatable, and not private against who knows the seed.")] = None,
    na: Na = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    censored: Censored = None,
) -> None:
    """Estimate the ranges that a template leaves open, privately, and pay for it.

    One release with noise, recorded in the ledger: give the same one to [bold]dpmac train[/bold]. Values of categories
    cannot be found this way; they stay as they are.

    [bold]Example[/bold]

      dpmac schema estimate patients.csv --schema half-done.json --epsilon 0.2 --ledger hospital.ledger --out estimated.json
    """  # noqa: E501
    from dpmac.cli.jobs import counted
    from dpmac.cli.places import check_estimate
    from dpmac.files import whole_file
    from dpmac.privacy import Ledger, Origin
    from dpmac.randomness import noise_source
    from dpmac.tables import Files, Schema
    from dpmac.tables.cell_format import PLAIN
    from dpmac.tables.estimate import estimated_columns
    from dpmac.tables.files import need_columns
    from dpmac.tables.lines import at_lines
    from dpmac.tables.stored import open_table
    from dpmac.training.defaults import safe_delta

    raw = Schema.read(schema)
    open_ = {name: column for name, column in _open_ranges(schema, raw).items() if name != groups}
    form = stated_form(raw.get("cells"), na=na, decimal=decimal, thousands=thousands, censored=censored)
    check_estimate(file, ledger, out)
    table = open_table(file)
    need_columns(file, table, needed := [*open_, *filter(None, [groups])])
    if delta is None:
        chosen = safe_delta(max(counted(table, groups), 2))
    else:
        chosen = delta
    book = Ledger.at(ledger, data_set)
    with book.noting(purpose="ranges of columns", model=""):
        if isinstance(table, Files):
            cells: Any = table.only(needed)
        else:
            cells = {name: table[name] for name in needed}
        source = noise_source(seed)
        how: Any = {"ledger": book, "source": source, "groups": groups, "estimated": open_, "form": form}
        with at_lines(file):
            found, about = estimated_columns(cells, epsilon, chosen, {}, **how)
    for name, column in found.items():
        raw["columns"][name] = {**raw["columns"][name], **column.to_dict()}
    raw["about"] = "; ".join(filter(None, (raw.get("about"), about)))
    if form != PLAIN:
        raw["cells"] = form.to_dict()
    raw["origin"] = Origin.of(book, Origin.from_dict(raw.get("origin"))).to_dict()
    text = json.dumps(raw, indent=1, ensure_ascii=False) + "\n"
    try:
        if out is not None:
            with whole_file(out) as handle:
                handle.write(text)
    except OSError:
        sys.stdout.write(text)  # it is paid for
        raise
    if out is None:
        sys.stdout.write(text)
    typer.echo(f"dpmac: {about}; recorded in {ledger}", err=True)


def _open_ranges(path: Path, raw: Any) -> dict[str, ColumnKind]:
    """The columns of a template that could have a range and have none yet, as they are read for estimating it."""
    from dpmac.tables.described import unfinished
    from dpmac.tables.kinds import KINDS

    columns = None
    if isinstance(raw, dict):
        columns = raw.get("columns")
    if not isinstance(columns, dict):
        raise ArgumentError("--schema", str(path), "it has no columns: make a template with  dpmac schema init")
    found = {}
    for name in unfinished(raw):
        kind = KINDS.get(str(columns[name].get("kind")))
        reader = None
        if kind is not None:
            reader = kind.unbounded(columns[name])
        if reader is not None:
            found[name] = reader
    if not found:
        fix = "no number and no date in it is without a range: there is nothing to estimate"
        raise ArgumentError("--schema", str(path), fix)
    return found


for name, command in (("init", init), ("check", check), ("estimate", estimate)):
    add(schema_app, name, command)
