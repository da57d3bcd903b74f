"""All commands of ``dpmac``, put together. Nothing heavy is imported before one runs, so ``--help`` is instant."""

from __future__ import annotations

from typing import Annotated

import typer

from dpmac.cli import (
    accounts,
    audit,
    budget,
    data,
    demo,
    edit,
    ending,
    evaluate,
    export,
    inspect,
    ledger,
    predict,
    report,
    reproduce,
    resume,
    schema,
    sign,
    split,
    statement,
    train,
    tune,
    version,
)
from dpmac.cli.text import flowing

app = typer.Typer(
    name="dpmac",
    help="Train neural networks on data about people, and prove what they can leak.\n\n"
    "Start with [bold]dpmac demo[/bold]; plan your own run with [bold]dpmac budget[/bold]. From a file to a report: "
    "[bold]schema[/bold], [bold]train[/bold], [bold]predict[/bold], [bold]report[/bold].\n\n"
    f"{ending.CODES}\n\n[bold]Example[/bold]\n\n  dpmac --version",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    demo.demo,
    train.train,
    tune.tune,
    resume.resume,
    predict.predict,
    evaluate.evaluate,
    split.split,
    inspect.inspect,
    report.report,
    export.export,
    edit.edit,
    sign.sign,
    sign.verify,
    sign.key,
    budget.budget,
    audit.audit,
    version.version,
):
    ending.add(app, command.__name__, command)
app.command("reproduce", help=flowing(reproduce.reproduce.__doc__), context_settings=reproduce.FORWARDED)(
    reproduce.reproduce
)
ending.add(ledger.ledger_app, "init", accounts.init)
app.add_typer(schema.schema_app, name="schema")
app.add_typer(ledger.ledger_app, name="ledger")
app.add_typer(statement.statement_app, name="statement")
app.add_typer(data.data_app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        from dpmac import __version__

        typer.echo(f"dpmac {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print dpmac's version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options that come before a command."""
