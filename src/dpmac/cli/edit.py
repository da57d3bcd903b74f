"""``dpmac edit``: terms of an additive model, changed by hand, and who changed them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpmac.checks import ArgumentError


def edit(
    run: Annotated[Path, typer.Argument(help="The folder of an additive model.", metavar="RUN")],
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist.", metavar="RUN")],
    who: Annotated[str, typer.Option(help="Who edits, in words; it stands in the card and the report.")] = "",
    why: Annotated[str, typer.Option(help="Why; it stands there, too.")] = "",
    monotone: Annotated[
        list[str] | None,
        typer.Option("--monotone", help="Never falling with a column, age=+1, or never rising, age=-1. Repeatable."),
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", help="A term to take out of the sum. Repeatable.", metavar="TERM")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another value at a point: TERM:POINT=VALUE. Repeatable.", metavar="POINT"),
    ] = None,
    undo: Annotated[int, typer.Option("--undo", help="First take back so many edits, the last ones.")] = 0,
) -> None:
    """Change terms of an additive model, and write the edited model into a new folder.

    Every edit stands in the card, the report and the statement with who, when and why, and can be taken back. It costs
    no privacy: epsilon is what it was. That holds for edits that were not chosen by looking at private rows.

    A point is a value of a category, a number where the term bends (see dpmac export --json), other or (missing).
    Edits are made in this order: undo, monotone, remove, set. Scores of the model as it was are not copied.

    [bold]Examples[/bold]

      dpmac edit runs/readable --out runs/agreed --remove sex --who "A. Mills, physician" --why "not a cause"

      dpmac edit runs/agreed --out runs/as-it-was --undo 1
    """
    from dpmac.cli.additive_options import directions
    from dpmac.saving import check_free, open_folder, save

    if not (monotone or remove or set_ or undo):
        raise ArgumentError("--remove, --monotone, --set, --undo", None, "say what to edit: give one of them")
    check_free(out)
    if out.exists():
        raise ArgumentError("--out", str(out), "this folder exists: give a new one")
    folder = open_folder(run)
    model = folder.estimator()
    if not hasattr(model, "edits_"):
        raise ArgumentError("run", str(run), "this model is no sum of terms: train one with dpmac train --additive")
    for _ in range(undo):
        model.undo()
    said = {"who": who, "why": why}
    if monotone:
        model.make_monotone(directions(monotone), **said)
    for name in remove or ():
        model.remove_term(name, **said)
    for name, points in _points(model, set_ or ()).items():
        model.set_term(name, points, **said)
    declared = folder.declared()
    save(model, out, searched=declared.searched, ranges_from=declared.ranges_from, extra=folder.result())
    for one in model.edits_:
        typer.echo(one.sentence())
    typer.echo(f"{out}: {len(model.edits_)} edits; epsilon is what it was, {model.privacy_.epsilon:.4g}")


def _points(model: Any, given: Any) -> dict[str, dict[Any, float]]:
    """TERM:POINT=VALUE, term by term."""
    found: dict[str, dict[Any, float]] = {}
    names = sorted(model.terms(), key=len, reverse=True)
    for text in given:
        fix = "give TERM:POINT=VALUE, such as sex:Female=0 or age:40=0.2"
        place, _, value = text.rpartition("=")
        term = next((name for name in names if place.startswith(f"{name}:")), None)
        try:
            number = float(value)
        except ValueError:
            raise ArgumentError("--set", text, fix) from None
        if term is None:
            raise ArgumentError("--set", text, f"{fix}; the terms are {sorted(names)}")
        point = place[len(term) + 1 :]
        found.setdefault(term, {})[_point(model.terms()[term], point)] = number
    return found


def _point(term: Any, text: str) -> Any:
    """A label as it is; a number for a knot; of a pair two of them, with a comma between."""
    if len(term.columns) > 1:
        parts = tuple(part.strip() for part in text.split(","))
        return tuple(_one(part, labels) for part, labels in zip(parts, term.labels, strict=False))
    every = [label for part in term.parts for label in part.labels[0]]
    return _one(text, every)


def _one(text: str, labels: Any) -> Any:
    if text in labels:
        return text
    try:
        return float(text)
    except ValueError:
        return text
