"""``dpmac predict``: what a model says of the rows of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError
from dpmac.cli.agreement import STRICT, strictly
from dpmac.cli.cell_options import Censored, Decimal, Na, Thousands, as_written

if TYPE_CHECKING:
    from dpmac.tables import Schema


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a model.", metavar="RUN")],
    file: Annotated[
        Path, typer.Argument(help="The rows: CSV or Parquet, with the model's columns; or pictures.", metavar="FILE")
    ],
    out: Annotated[Path | None, typer.Option(help="The CSV file to write. Left out: standard output.")] = None,
    id_: Annotated[
        list[str] | None,
        typer.Option("--id", help="A column of the file to copy beside the predictions. Repeatable.", metavar="COLUMN"),
    ] = None,
    images: Annotated[
        str | None, typer.Option(help="The column of pictures' paths, if it has another name now.", metavar="COLUMN")
    ] = None,
    resize: Annotated[bool, typer.Option("--resize", help="Bring pictures to the size that the model takes.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help=STRICT)] = False,
    na: Na = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    censored: Censored = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Of two classes: say the positive one from this probability on. Left out: the likelier one."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Of an additive model: what each term adds, a column for each.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that exists.")] = False,
) -> None:
    """Write a model's predictions for each row as CSV, in the order of the file.

    A classifier gives [bold]prediction[/bold] and the probability of each class; a regressor [bold]prediction[/bold]
    and [bold]std[/bold], its usual error; an autoencoder the code of each row and its reconstruction error.

    For a classifier of pictures FILE is a folder of PNG or JPEG files, with or without folders in it, or one file, or a
    table with their paths. The first column is then [bold]file[/bold], its name within the folder.

    A text that a spreadsheet would take for a formula (it begins with =, +, -, @, a tab or a carriage return) gets an
    apostrophe before it; numbers stay as they are.

    If nearly all cells of a column are clipped, "other" or missing, there is a warning; with [bold]--strict[/bold] the
    command stops. Predicting spends nothing. A prediction about a person is as confidential as that person's row.

    If the positive class is rare, it is hardly ever the likelier one, and hardly ever predicted. Then choose a
    [bold]--threshold[/bold] (dpmac evaluate shows the effect of several); the probabilities stay as they are.

    For an additive model, [bold]--explain[/bold] adds a column for the intercept and one for every term; their sum is
    the logit of the second class (with several classes there is a sum for each; for a number it is the prediction
    before clipping).

    [bold]Examples[/bold]

      dpmac predict runs/first new-patients.csv --out predictions.csv

      dpmac predict runs/readable new-patients.csv --explain --out explained.csv

      dpmac predict runs/first new-patients.csv --threshold 0.1 --out called.csv

      dpmac predict runs/first new-patients.csv --id patient --out named-predictions.csv

      dpmac predict runs/pictures new-images --out labels.csv
    """
    from dpmac.files import whole_file
    from dpmac.saving import load
    from dpmac.tables.files import csv_text, for_spreadsheets

    if out is not None and out.exists() and not force:
        raise ArgumentError("--out", str(out), "this file exists: give another, or --force to write over it")
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise ArgumentError("--out", str(out), "give a file in a folder that is there")
    estimator = load(run)
    cells = {"na": na, "decimal": decimal, "thousands": thousands, "censored": censored}
    check_threshold(estimator, threshold)
    if explain and not hasattr(estimator, "edits_"):
        fix = "this model is no sum of terms, which could be told apart: train one with dpmac train --additive"
        raise ArgumentError("--explain", True, fix)
    with strictly(strict):
        more: dict[str, Any] = {"images": images, "resize": resize, "threshold": threshold, "explain": explain}
        found = _columns(estimator, run, file, id_ or [], cells, **more)
    text = csv_text(for_spreadsheets(found))
    if out is None:
        sys.stdout.write(text)
        sys.stdout.flush()  # a full disk is noticed here
        return
    with whole_file(out) as handle:
        handle.write(text)
    typer.echo(f"{len(next(iter(found.values()))):,} predictions: {out}", err=True)


def _columns(
    estimator: Any,
    run: Path,
    file: Path,
    ids: list[str],
    cells: dict[str, Any],
    *,
    images: str | None,
    resize: bool,
    threshold: float | None,
    explain: bool,
) -> dict[str, Any]:
    """All columns that are to be written. ``cells`` says how those of a table are written."""
    from dpmac.cli.pictures import predicted, takes_pictures
    from dpmac.cli.scores import schema_of
    from dpmac.cli.wanted import no_pictures
    from dpmac.tables.files import need_columns, read_table, typed
    from dpmac.tables.lines import at_lines

    if takes_pictures(estimator):
        names, p, table = predicted(estimator, file, images, ids, resize=resize)
        found = {"file": names, **_of_classes(estimator.classes_, p, 1, threshold)}
        return {**_ids(file, table, ids, found), **found}
    no_pictures(images=images, resize=resize or None)
    schema = schema_of(estimator, run)
    table = read_table(file)  # as it is, so that what is copied is
    need_columns(file, table, [*schema.features, *ids])
    with at_lines(file):
        rows = typed(as_written(schema, table, **cells), schema)
        found = predictions(estimator, rows, schema, threshold)
        if explain:
            found |= explained(estimator, rows)
    return {**_ids(file, table, ids, found), **found}


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
    from dpmac.cli.scores import class_names, positive_of
    from dpmac.tables.files import rows_in

    if not rows_in(table):
        raise ArgumentError("file", "0 rows", "it has no rows to predict")
    if hasattr(estimator, "predict_proba"):
        positive = positive_of(schema, class_names(schema, estimator.classes_))
        return _of_classes(estimator.classes_, estimator.predict_proba(table), positive, threshold)
    if hasattr(estimator, "predict"):
        if estimator.residual_std_ is None:
            return {"prediction": estimator.predict(table)}
        values, std = estimator.predict(table, return_std=True)
        return {"prediction": values, "std": std}
    codes = estimator.transform(table)
    columns = {f"code_{place + 1}": codes[:, place] for place in range(codes.shape[1])}
    return columns | {"reconstruction_error": estimator.reconstruction_error(table)}


def explained(estimator: Any, table: Any) -> dict[str, Any]:
    """What each term adds, a column for each; of several outputs one for each of them."""
    found, outputs = dict[str, Any](), estimator.terms().outputs
    for name, values in estimator.explain(table).items():
        named = f"term_{name}"
        if name == "intercept":
            named = name
        if values.ndim == 1:
            found[named] = values
        else:
            found |= {f"{named}_{output}": values[:, place] for place, output in enumerate(outputs)}
    return found


def _of_classes(classes: Any, p: Any, positive: int, threshold: float | None) -> dict[str, Any]:
    """The likeliest class, or of two the ``positive`` one from a ``threshold`` on; and the probability of each."""
    import numpy as np

    from dpmac.tables.texts import text_of

    names = [text_of(label) for label in classes]
    places = p.argmax(axis=1)
    if threshold is not None:
        places = np.where(p[:, positive] >= threshold, positive, 1 - positive)
    found: dict[str, Any] = {"prediction": [names[place] for place in places]}
    return found | {f"p_{name}": p[:, place] for place, name in enumerate(names)}


def _ids(file: Path, table: Any, names: list[str], found: dict[str, Any]) -> dict[str, Any]:
    for name in names:
        if name in found:
            raise ArgumentError("--id", name, f"the predictions have a column of that name: rename it in {file}")
    return {name: table[name] for name in names}
