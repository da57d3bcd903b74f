"""``dpmac schema check``: is a schema whole, and would ``dpmac train`` take these rows?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import how_many
from dpmac.cli.agreement import STRICT, noticing, strictly
from dpmac.cli.cell_options import Censored, Decimal, Na, Thousands, with_cells
from dpmac.cli.ending import NOTHING_SPENT, Failed

if TYPE_CHECKING:
    from dpmac.tables import ColumnKind, Schema

SHOWN = 20  # columns that are listed by name
EPSILON = 2.0  # at which a schema's categories are looked at


def check(
    schema: Annotated[Path, typer.Argument(help="The schema.", metavar="SCHEMA")],
    file: Annotated[Path | None, typer.Argument(help="Rows that it should fit.", metavar="FILE")] = None,
    target: Annotated[
        str | None, typer.Option(help="The column to predict, as of dpmac train.", metavar="COLUMN")
    ] = None,
    autoencoder: Annotated[bool, typer.Option("--autoencoder", help="No target, as of dpmac train.")] = False,
    groups: Annotated[
        str | None, typer.Option(help="The column of persons, as for dpmac train.", metavar="COLUMN")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help=STRICT)] = False,
    na: Na = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    censored: Censored = None,
) -> None:
    """Check that a schema is complete, and that [bold]dpmac train[/bold] would accept a file with it.

    It lists the columns that still have something to fill in. For a file it checks what train checks: every cell, every
    label, and the column of persons. It lists columns that are missing or cannot be read, that the schema leaves out,
    that look like ids, or whose cells are nearly all clipped, "other" or missing, with counts. These counts are outside
    the guarantee and shown to you alone. Nothing is spent.

    [bold]Examples[/bold]

      dpmac schema check patients.schema.json

      dpmac schema check patients.schema.json patients.csv --strict
    """
    from dpmac.cli.aims import aim_of
    from dpmac.tables import Schema
    from dpmac.tables.described import unfinished

    left = unfinished(Schema.read(schema))
    if left:
        lines = "".join(f"\n  {name}: write {what}" for name, what in left.items())
        raise Failed(f"{schema}: not filled in yet, {how_many(len(left), 'column')}:{lines}", code=NOTHING_SPENT)
    found = aim_of(schema, target, autoencoder, groups)
    found = with_cells(found, na=na, decimal=decimal, thousands=thousands, censored=censored)
    fits, more = "", list[str]()
    if file is not None:
        with noticing() as disagreements, strictly(strict):
            more = looked_over(found, file, groups)
        fits = f" and matches {file}"
        if disagreements:
            fits = f"; {file} can be read with it, but they disagree (see above)"
    kind = {"classification": "a classifier", "regression": "a regressor", None: "an autoencoder"}[found.task]
    typer.echo(f"{schema} is complete{fits}: {how_many(len(found.features), 'column')}; dpmac train will make {kind}")
    for line in more:
        typer.echo(line)


def looked_over(schema: Schema, file: Path, groups: str | None) -> list[str]:
    """All that a training would ask of the rows, asked; what else there is to say of them. Errors end the command."""
    from dpmac.cli.jobs import Job
    from dpmac.privacy import Ledger
    from dpmac.privacy.statement import noun
    from dpmac.tables.crowding import crowding
    from dpmac.tables.files import need_columns
    from dpmac.tables.lines import at_lines

    job = Job(file=str(file.absolute()), schema=schema.to_dict(), ledger="", epsilon=1.0, groups=groups)
    table = job.table(schema, quiet=False)
    need_columns(file, table, [*schema.columns, *filter(None, [groups])])
    wrong = _unreadable(schema, table, file)
    if wrong:
        lines = "\n".join(f"  {one}" for one in wrong)
        raise Failed(f"{file}: {how_many(len(wrong), 'column')} cannot be read:\n{lines}", code=NOTHING_SPENT)
    with at_lines(file):
        given = job.estimator(Ledger(), None)._look_over(table, groups=groups)
    if isinstance(given, tuple):
        given = given[0]
    many = crowding(schema, given.n, EPSILON, noun(given.unit))
    return [*_left_out(schema, table, groups), *_ids(schema, table), *filter(None, [many])]


def _left_out(schema: Schema, table: Any, groups: str | None) -> list[str]:
    names = [name for name in table if name not in schema.columns and name != groups]
    if not names:
        return []
    listed = ", ".join(names[:SHOWN])
    if len(names) > SHOWN:
        listed += f" and {len(names) - SHOWN} more"
    count = how_many(len(names), "column")
    return [f"left out: {count} of the file, not in the schema and seen by no model: {listed}"]


def _ids(schema: Schema, table: Any) -> list[str]:
    """A line for the columns that a model would see and that are ids, by their names or because no two rows share one.

    An id says nothing of anybody else: it takes a share of the budget and teaches nothing.
    """
    names = [name for name, column in schema.features.items() if _is_id(column, table, name)]
    if not names:
        return []
    listed = ", ".join(names)
    fix = "take them out of the schema, or name the one that says whose a row is in --groups"
    return [f"ids: {listed}: an id of a person teaches nothing about another: {fix}"]


def _is_id(column: ColumnKind, table: Any, name: str) -> bool:
    from dpmac.tables.naming import names_ids
    from dpmac.tables.templates import all_differ

    sure = names_ids(name)
    if sure is False:  # "subject" may be a category as well
        sure = len(column.classes or range(SHOWN + 1)) > SHOWN
    return sure or (not column.ordered and not column.dense and all_differ(table, name))


def _unreadable(schema: Schema, table: Any, file: Path) -> list[str]:
    """What is wrong with each column that cannot be read: its first cell that is in the way, and how many there are."""
    from dpmac.tables import Files
    from dpmac.tables.coding import Reader, unreadable
    from dpmac.tables.frames import cells
    from dpmac.tables.lines import located

    names = list(schema.features)  # the target is looked over as what it is
    if isinstance(table, Files):
        batches: Any = table.batches(names)
    else:
        batches = [{name: list(found) for name, found in cells(table, names).items()}]
    wrong = unreadable(Reader(schema.features, form=schema.cells), batches)
    return [str(located(error, file)) for error in wrong]
