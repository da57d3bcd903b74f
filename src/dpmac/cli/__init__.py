"""The command ``dpmac``. Nothing heavy is imported before a command runs, so ``--help`` is instant."""

from __future__ import annotations

import sys

import typer

from dpmac.cli import budget, data, demo, reproduce, version
from dpmac.cli.text import flowing

app = typer.Typer(
    name="dpmac",
    help="Train neural networks on data about people, and prove what they can leak.\n\n"
    "Start with [bold]dpmac demo[/bold]; plan your own run with [bold]dpmac budget[/bold].",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo.demo, budget.budget, version.version):
    app.command(command.__name__, help=flowing(command.__doc__))(command)
app.command("reproduce", help=flowing(reproduce.reproduce.__doc__), context_settings=reproduce.FORWARDED)(
    reproduce.reproduce
)
app.add_typer(data.data_app, name="data")


def main() -> None:
    """Entry point: bad arguments end with one clear line and exit code 2, never a traceback."""
    from dpmac.checks import ArgumentError

    try:
        app()
    except ArgumentError as error:
        sys.stderr.write(f"dpmac: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("dpmac: interrupted\n")
        sys.exit(130)
