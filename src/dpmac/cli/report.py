"""``dpmac report``: one page that explains a model to the person who must sign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpmac.checks import ArgumentError


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a model.", metavar="RUN")],
    out: Annotated[Path | None, typer.Option(help="The page to write. Left out: RUN/report.html.")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Write one page about a model: what it is and scores, what it guarantees, and what an attacker could gain.

    The page is one HTML file that needs no network. It is made of public and released numbers alone.

    [bold]Examples[/bold]

      dpmac report runs/first

      dpmac report runs/first --out first.html
    """
    from dpmac.cli.watching import work_shown
    from dpmac.report.page import write_report

    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise ArgumentError("--out", str(out), "give a file in a folder that is there")
    with work_shown(unit=""):  # columns, or drawn rows
        page = write_report(run, out)
    typer.echo(str(page))
    if open_ and typer.launch(str(page.absolute())):
        typer.echo(f"dpmac: no browser was found here: open {page} yourself", err=True)
