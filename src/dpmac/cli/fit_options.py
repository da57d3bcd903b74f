"""Options that all commands have which fit a model to a table: each is written once, with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OutFolder = Annotated[Path, typer.Option("--out", help="The run folder to make; it must not exist.", metavar="RUN")]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", help="What is publicly known of a table's columns: see dpmac schema init.")
]
Target = Annotated[
    str | None,
    typer.Option("--target", help="The column to predict, instead of the schema's target.", metavar="COLUMN"),
]
Groups = Annotated[
    str | None,
    typer.Option("--groups", help="The column that says whose a row is: protects persons, not rows.", metavar="COLUMN"),
]
MaxRows = Annotated[int, typer.Option("--max-rows", help="With --groups, rows that a person brings to a step at most.")]
Delta = Annotated[
    float | None,
    typer.Option("--delta", help="Chance that the guarantee does not cover. Left out: safely below 1/n."),
]
TotalEpsilon = Annotated[
    float | None,
    typer.Option("--total-epsilon", help="What the ledger may hold in all, where it has no total of its own."),
]
NewLedger = Annotated[
    bool, typer.Option("--new-ledger", help="Begin a ledger though one of nearly the same name is there.")
]
DataSet = Annotated[str, typer.Option("--data-set", help="What you call the rows, for the ledger.", metavar="NAME")]
Purpose = Annotated[str, typer.Option("--purpose", help="What the model is for, for the ledger.", metavar="TEXT")]
Name = Annotated[str, typer.Option("--name", help="The model's name in the ledger. Left out: the folder's.")]
RangesFrom = Annotated[
    str | None,
    typer.Option(
        "--ranges-from", help="Where the schema's ranges and values come from, such as a code book.", metavar="TEXT"
    ),
]
Threads = Annotated[int | None, typer.Option("--threads", help="Threads. Default: as many as help.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")]


def check_names(name: str, purpose: str, data_set: str) -> None:
    """Raise unless these can be written into a ledger."""
    from dpmac.cli.places import LONGEST, check_text

    for option, text in (("--name", name), ("--purpose", purpose), ("--data-set", data_set)):
        check_text(option, text, LONGEST)
