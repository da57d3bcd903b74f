"""``dpmac split``: divide a table once and for all, and what other commands need to know of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError
from dpmac.cli.ledger import AsJson
from dpmac.cli.split_files import NUMBER, ending_of, look_over, write_parts

if TYPE_CHECKING:
    from dpmac.privacy import Ledger


def split(
    file: Annotated[Path, typer.Argument(help="A table: CSV, Parquet, or a folder of Parquet.", metavar="FILE")],
    ledger: Annotated[Path, typer.Option(help="The ledger of these rows; it keeps how they are divided.")],
    by: Annotated[
        str | None,
        typer.Option(help="The column of ids of rows, or of persons. Left out: rows are numbered.", metavar="COLUMN"),
    ] = None,
    share: Annotated[
        list[str] | None, typer.Option(help="NAME=PART, may be repeated; the rest is train.", metavar="NAME=PART")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder for the files. Left out: that of FILE.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of an earlier split.")] = False,
    as_json: AsJson = False,
) -> None:
    """Divide a table into a train and a test file, once and for all, so that both can be paid for separately.

    CSV becomes CSV, Parquet becomes Parquet, of any size.

    Nobody is in both. So what is released from one costs nobody in the other anything, and the ledger counts, for each
    split, its own releases and those from all rows: train a model on one, score it on the other, and a row pays for one
    of the two. Which split a row is in follows from its id by a secret key in the ledger. The same rows always
    come out in the same split, also when the table has new ones: run the command again. Where persons may have several
    rows, divide by the column that says whose a row is. Without --by rows are numbered, in a new column "row" of the
    files, and must keep their order. Cells are copied as they are: what a spreadsheet takes for a formula stays one.

    [bold]Examples[/bold]

      dpmac split patients.csv --ledger divided.ledger

      dpmac split patients.csv --by patient --share test=0.3 --ledger persons.ledger --out parts
    """
    from dpmac.cli.places import check_apart, check_ledger
    from dpmac.privacy import Ledger
    from dpmac.tables import Files

    ending = ending_of(file)
    table = Files(file)
    names = list(table)
    column = by or NUMBER
    if by is not None and by not in names:
        raise ArgumentError("--by", by, f"the file has no such column; its columns are {', '.join(names[:20])}")
    if by is None and NUMBER in names:
        raise ArgumentError("--by", None, f"the file has a column {NUMBER!r}: name it, if it has ids, or another one")
    check_ledger(ledger)
    book = Ledger.at(ledger)
    shares = _shares(share, book)
    folder = out or file.absolute().parent
    paths = {name: folder / f"{file.name.partition('.')[0]}-{name}{ending}" for name in shares}
    for path in paths.values():
        check_apart(path, ledger)
        if path.exists() and not overwrite:
            raise ArgumentError("--out", str(path), "the file is there: give another folder, or --overwrite")
    look_over(table, by)
    ledger.absolute().parent.mkdir(parents=True, exist_ok=True)
    known = book.divide(shares, by=column)
    folder.mkdir(parents=True, exist_ok=True)
    counts = write_parts(table, known, by, paths)
    if as_json:
        found = {name: {"file": str(path), "rows": counts[name]} for name, path in paths.items()}
        typer.echo(json.dumps({"ledger": str(ledger), "by": column, "splits": found}))
        return
    for name, path in paths.items():
        typer.echo(f"{path}: {counts[name]:,} rows, split {name}")
    typer.echo(f"next:  dpmac train {paths[next(iter(paths))]} ... --ledger {ledger} --split {next(iter(paths))}")


def of_split(book: Ledger, name: str | None, table: Any, option: str = "--split") -> Ledger:
    """The ledger of one split, whose rows are those of ``table``; ``book`` itself without a name."""
    if name is None:
        return book
    if book.splits is None:
        raise ArgumentError(option, name, "the ledger's data set is not divided: dpmac split FILE --ledger LEDGER")
    by = book.splits.by
    if not isinstance(table, Mapping):
        raise ArgumentError(option, name, "pictures in folders have no ids: give a table")
    if by not in table:
        fix = f"the data set was divided by {by!r}, which the file lacks: give a file that dpmac split wrote"
        raise ArgumentError(option, name, fix)
    return book.split(name, _ids(table, by))


def check_split(name: str, ledger: str, table: Any) -> None:
    """Raise unless the rows of ``table`` are of that split of the ledger's data set."""
    from dpmac.privacy import Ledger

    if not ledger:
        raise ArgumentError("--split", name, "give the --ledger whose data set was divided")
    of_split(Ledger.at(ledger), name, table)


def seen_by(book: Ledger, name: str | None, before: int) -> int:
    """How many of the first ``before`` releases a split has taken part in."""
    if name is None:
        return before
    return sum(entry.split in ("", name) for entry in book.entries[:before])


def _ids(table: Any, by: str) -> list[Any]:
    from dpmac.tables import Files
    from dpmac.tables.coding import cells_of

    if isinstance(table, Files):
        return [one for batch in table.batches([by]) for one in cells_of(batch[by])]
    return list(table[by])


def _shares(given: list[str] | None, book: Ledger) -> dict[str, float]:
    """What was asked for; what the ledger has already, if nothing was; else a fifth for testing."""
    if given is None and book.splits is not None:
        return dict(book.splits.shares)
    shares: dict[str, float] = {}
    for one in given or ["test=0.2"]:
        name, _, part = one.partition("=")
        try:
            shares[name] = float(part)
        except ValueError:
            raise ArgumentError("--share", one, "give a name and a part of all rows, such as test=0.2") from None
    rest = 1.0 - sum(shares.values())
    if "train" in shares or rest < 1e-9:
        return shares
    return {"train": round(rest, 12), **shares}
