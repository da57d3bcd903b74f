"""``dpmac evaluate``: what a model scores on the rows of a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from dpmac.checks import ArgumentError, number

PRIVATE = (
    "these scores are plain sums over rows. If the rows are private, they are outside the guarantee: show them to no "
    "one who may not see the rows. They are kept nowhere; --public says that the rows are public, and keeps them."
)


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a model.", metavar="RUN")],
    file: Annotated[Path, typer.Argument(help="Rows not trained on, with the target; or pictures.", metavar="FILE")],
    public: Annotated[
        bool, typer.Option("--public", help="The rows are public: keep the scores in RUN/evaluation.json.")
    ] = False,
    images: Annotated[
        str | None, typer.Option(help="The column of pictures' paths, if it has another name now.", metavar="COLUMN")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Of a table of pictures: the column of the labels.", metavar="COLUMN")
    ] = None,
    resize: Annotated[bool, typer.Option("--resize", help="Bring pictures to the size that the model takes.")] = False,
    threshold: Annotated[
        float, typer.Option(help="Of two classes: from which probability on the positive one is called.")
    ] = 0.5,
    epsilon: Annotated[
        float | None, typer.Option(help="Private scores: what one release of them may cost. Needs --ledger.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The ledger of these rows, of private scores.")] = None,
    split: Annotated[
        str | None, typer.Option(help="The split of the ledger's data set that FILE is (dpmac split).", metavar="NAME")
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="A column of categories: private scores of subgroups.", metavar="COLUMN")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="The column that says whose a row is, as for train.", metavar="COLUMN")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Of private scores. Left out: the ledger's or the model's.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Score a model on rows that it was not trained on.

    With [bold]--epsilon[/bold] and [bold]--ledger[/bold] the scores are private: one noisy release, in the ledger like
    a training, and kept beside the model for its report. Every figure has a 95 % interval for the noise and for the
    sampling of the rows. Rows of another [bold]--split[/bold] than the one the model was trained on pay for the scores
    alone (dpmac split). Without --epsilon scores are exact, and for your own eyes.

    For two classes: AUROC, average precision with the base rate, sensitivity and specificity at
    [bold]--threshold[/bold] and at others to choose from, log-loss with the base rate's, calibration, and accuracy with
    that of always predicting the commonest class. For more classes: those that apply. For a regressor: root mean
    squared error, mean absolute error and R2. For an autoencoder: the reconstruction error.

    For a classifier of pictures FILE is a folder with one folder of files for each class, or a table with paths and
    labels, as for [bold]train[/bold]. Rows of a table for private scores need not fit into memory.

    An exact score reveals something about the rows. If they are public, [bold]--public[/bold] keeps it with the model
    and in its report.

    [bold]Examples[/bold]

      dpmac evaluate runs/first test-patients.csv --json

      dpmac evaluate runs/first test-patients.csv --public

      dpmac evaluate runs/divided patients-test.csv --epsilon 0.5 --ledger divided.ledger --split test --by sex

      dpmac evaluate runs/pictures test-images --json

      dpmac evaluate runs/pictures test-images --epsilon 1 --ledger images.ledger
    """
    from dpmac.cli.scores import keep
    from dpmac.report.thresholds import FIX
    from dpmac.saving import load

    private = {"--ledger": ledger, "--split": split, "--by": by, "--groups": groups, "--delta": delta}
    if epsilon is not None:
        from dpmac.cli.private_scores import private_scores

        no_others({"--public": public or None})
        pictures = {"images": images, "target": target, "resize": resize}
        scored = private_scores(run, file, epsilon, ledger, split, by or [], groups, delta, pictures)
        if as_json:
            typer.echo(json.dumps(scored.to_dict(), allow_nan=False))
        else:
            typer.echo(f"{scored}\nkept in {run / 'evaluation.json'}")
        return
    no_others(private, "it is of private scores: give --epsilon, too")
    number("--threshold", threshold, FIX, low=0.0, high=1.0)
    options: dict[str, Any] = {"public": public, "threshold": threshold}
    found = _evaluation(load(run), run, file, images, target, options, resize=resize)
    if public:
        keep(run, found)
    else:
        typer.echo(f"dpmac: {PRIVATE}", err=True)
    if as_json:
        typer.echo(json.dumps(found, allow_nan=False))
        return
    _show(run, found, public)


def no_others(options: Mapping[str, Any], fix: str = "private scores (--epsilon) do not take it: leave it out") -> None:
    """Raise if an option was given that the others leave no use for."""
    for name, value in options.items():
        if value is not None:
            raise ArgumentError(name, value, fix)


def _evaluation(
    estimator: Any,
    run: Path,
    file: Path,
    images: str | None,
    target: str | None,
    options: dict[str, Any],
    *,
    resize: bool,
) -> dict[str, Any]:
    from dpmac.cli.pictures import judged, takes_pictures
    from dpmac.cli.scores import evaluation_of, evaluation_of_pictures, schema_of
    from dpmac.cli.wanted import no_pictures
    from dpmac.tables.files import read_table
    from dpmac.tables.lines import at_lines

    if takes_pictures(estimator):
        p, labels = judged(estimator, file, images, target, resize=resize)
        return evaluation_of_pictures(estimator, p, labels, file.name, **options)
    no_pictures(images=images, target=target, resize=resize or None)
    schema = schema_of(estimator, run)
    table = read_table(file, schema)
    with at_lines(file):
        return evaluation_of(estimator, schema, table, file.name, **options)


def _show(run: Path, found: dict[str, Any], public: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    where = "kept nowhere"
    if public:
        where = f"kept in {run / 'evaluation.json'}"
    table = Table(title=f"{run} on {found['rows']:,} rows of {found['file']}", caption=where, show_header=False)
    for name, value in found["scores"].items():
        table.add_row(name.replace("_", " "), f"{value:.4f}")
    Console().print(table)
    if found.get("thresholds"):
        Console().print(_thresholds(found))
    if "reliability" not in found:
        return
    bins = Table(title=f"What its probabilities of “{found['positive']}” are worth")
    bins.add_column("it said")
    for name in ("rows", "mean of what it said", "it was so"):
        bins.add_column(name, justify="right")
    for b in found["reliability"]:
        said = f"{b['low']:.0%} to {b['high']:.0%}"
        bins.add_row(said, f"{b['rows']:,}", f"{b['predicted']:.1%}", f"{b['observed']:.1%}")
    Console().print(bins)


def _thresholds(found: dict[str, Any]) -> Any:
    from rich.table import Table

    def rate(value: float | None) -> str:
        if value is None:
            return "nobody"
        return f"{value:.1%}"

    table = Table(
        title=f"A threshold to choose, from which “{found['positive']}” is called", caption="dpmac predict --threshold"
    )
    table.add_column("threshold")
    for name in ("sensitivity", "specificity", "precision", "called"):
        table.add_column(name, justify="right")
    for one in found["thresholds"]:
        rates = (one[name] for name in ("sensitivity", "specificity", "precision", "called"))
        table.add_row(f"{one['threshold']:g}", *map(rate, rates))
    return table
