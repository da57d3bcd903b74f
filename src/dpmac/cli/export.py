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
) -> None:
    """Write a model with its scaling as a file that needs nothing of dpmac; a JSON beside it says what goes in.

    Exporting spends nothing: the guarantee is the model's, in whatever file it lies.

    [bold]Example[/bold]

      dpmac export runs/first --torch first.pt2
    """
    if torch is None and onnx is None:
        raise ArgumentError("--torch, --onnx", None, "give one of the two, or both")
    for path in (torch, onnx):
        if path is not None and not path.absolute().parent.is_dir():
            raise ArgumentError("--onnx" if path is onnx else "--torch", str(path), "there is no such folder")
    from dpmac.saving import load
    from dpmac.saving.export import export_onnx, export_torch

    estimator = load(run)
    if torch is not None:
        typer.echo(str(export_torch(estimator, torch)))
    if onnx is not None:
        typer.echo(str(export_onnx(estimator, onnx)))
