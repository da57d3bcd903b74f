"""``dpmac predict``: what a model says of the rows of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError

if TYPE_CHECKING:
    from dpmac.tables import Schema


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a model.", metavar="RUN")],
    file: Annotated[Path, typer.Argument(help="The rows: CSV or Parquet, with the model's columns.", metavar="FILE")],
    out: Annotated[Path | None, typer.Option(help="The CSV file to write. Left out: standard output.")] = None,
    id_: Annotated[
        list[str] | None,
        typer.Option("--id", help="A column of the file to copy beside the predictions. Repeatable.", metavar="COLUMN"),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Of two classes: say the positive one from this probability on. Left out: the likelier one."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that exists.")] = False,
) -> None:
    """Write what a model says of each row, in the order of the file, as CSV.

    Of a classifier: [bold]prediction[/bold], and the probability of each class. Of a regressor:
    [bold]prediction[/bold], and [bold]std[/bold], how far it is usually off. Of an autoencoder: the code of each row,
    and how badly the row comes back from it.

    A text that a spreadsheet would take for a formula (it begins with =, +, -, @, a tab or a carriage return) gets an
    apostrophe before it; numbers stay as they are.

    Predicting spends nothing. What a model says of a person is as private as that person's row.

    If the positive class is rare, it is hardly ever the likelier one, and hardly anybody is called. Then choose a
    [bold]--threshold[/bold] (dpmac evaluate shows what some of them do); the probabilities stay as they are.

    [bold]Examples[/bold]

      dpmac predict runs/first new-patients.csv --out predictions.csv

      dpmac predict runs/first new-patients.csv --threshold 0.1 --out called.csv

      dpmac predict runs/first new-patients.csv --id patient --out named-predictions.csv
    """
    from dpmac.cli.scores import schema_of
    from dpmac.files import whole_file
    from dpmac.saving import load
    from dpmac.tables.files import csv_text, for_spreadsheets, need_columns, read_table, typed

    if out is not None and out.exists() and not force:
        raise ArgumentError("--out", str(out), "this file exists: give another, or --force to write over it")
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise ArgumentError("--out", str(out), "give a file in a folder that is there")
    estimator = load(run)
    schema = schema_of(estimator, run)
    check_threshold(estimator, threshold)
    table = read_table(file)  # as it is, so that what is copied is
    need_columns(file, table, [*schema.features, *(id_ or ())])
    found = predictions(estimator, typed({name: table[name] for name in schema.features}, schema), schema, threshold)
    ids = _ids(file, table, id_ or [], found)
    text = csv_text(for_spreadsheets({**ids, **found}))
    if out is None:
        sys.stdout.write(text)
        sys.stdout.flush()  # a full disk is noticed here
        return
    with whole_file(out) as handle:
        handle.write(text)
    typer.echo(f"{len(next(iter(found.values()))):,} predictions: {out}", err=True)


def check_threshold(estimator: Any, threshold: float | None) -> None:
    """Raise unless a threshold is a probability, and the model has two classes of which it can call one."""
    from dpmac.checks import number
    from dpmac.report.thresholds import FIX

    if threshold is None:
        return
    number("--threshold", threshold, FIX, low=0.0, high=1.0)
    several = getattr(estimator, "_indicator", None) is not None  # labels of which a row may have both
    if several or not hasattr(estimator, "predict_proba") or len(estimator.classes_) != 2:
        fix = "this model does not tell two classes apart, and no one of them is called: leave it out"
        raise ArgumentError("--threshold", threshold, fix)


def predictions(estimator: Any, table: Any, schema: Schema, threshold: float | None = None) -> dict[str, Any]:
    """The columns that a model has to say of a table; with a ``threshold`` the positive class is called from it on."""
    import numpy as np

    from dpmac.cli.scores import class_names, positive_of
    from dpmac.tables.files import rows_in
    from dpmac.tables.texts import text_of

    if not rows_in(table):
        raise ArgumentError("file", "0 rows", "it has no rows to predict")
    if hasattr(estimator, "predict_proba"):
        p = estimator.predict_proba(table)
        names = [text_of(label) for label in estimator.classes_]
        places = p.argmax(axis=1)
        if threshold is not None:
            positive = positive_of(schema, class_names(schema, estimator.classes_))
            places = np.where(p[:, positive] >= threshold, positive, 1 - positive)
        found: dict[str, Any] = {"prediction": [names[place] for place in places]}
        return found | {f"p_{name}": p[:, place] for place, name in enumerate(names)}
    if hasattr(estimator, "predict"):
        if estimator.residual_std_ is None:
            return {"prediction": estimator.predict(table)}
        values, std = estimator.predict(table, return_std=True)
        return {"prediction": values, "std": std}
    codes = estimator.transform(table)
    columns = {f"code_{place + 1}": codes[:, place] for place in range(codes.shape[1])}
    return columns | {"reconstruction_error": estimator.reconstruction_error(table)}


def _ids(file: Path, table: Any, names: list[str], found: dict[str, Any]) -> dict[str, Any]:
    for name in names:
        if name in found:
            raise ArgumentError("--id", name, f"the predictions have a column of that name: rename it in {file}")
    return {name: table[name] for name in names}
