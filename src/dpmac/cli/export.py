"""``dpmac export``: a model for programs that know nothing of dpmac."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpmac.checks import ArgumentError


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a model.", metavar="RUN")],
    torch: Annotated[Path | None, typer.Option("--torch", help="A torch.export program to write, .pt2.")] = None,
    onnx: Annotated[
        Path | None, typer.Option("--onnx", help="An ONNX file to write, .onnx; needs the extra 'onnx'.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="The terms of an additive model, for a spreadsheet to apply, .json.")
    ] = None,
) -> None:
    """Write a model with its scaling as a file that needs nothing of dpmac; a JSON beside it says what goes in.

    An additive model may be written as plain JSON, too: points and values of every term, how they are applied, and a
    worked example.

    Exporting spends nothing: the guarantee is the model's, in whatever file it lies.

    [bold]Examples[/bold]

      dpmac export runs/first --torch first.pt2

      dpmac export runs/readable --json terms.json
    """
    given = {"--torch": torch, "--onnx": onnx, "--json": json}
    if all(path is None for path in given.values()):
        raise ArgumentError("--torch, --onnx, --json", None, "give one of them, or several")
    for name, path in given.items():
        if path is not None and not path.absolute().parent.is_dir():
            raise ArgumentError(name, str(path), "there is no such folder")
    from dpmac.saving import load
    from dpmac.saving.export import export_onnx, export_torch
    from dpmac.saving.terms_json import export_json

    estimator = load(run)
    if torch is not None:
        typer.echo(str(export_torch(estimator, torch)))
    if onnx is not None:
        typer.echo(str(export_onnx(estimator, onnx)))
    if json is not None:
        typer.echo(str(export_json(estimator, json)))
