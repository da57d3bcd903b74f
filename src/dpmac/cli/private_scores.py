"""Private scores on the command line: one release into a ledger, kept beside the model for its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmac.checks import ArgumentError
from dpmac.cli.ending import Failed

if TYPE_CHECKING:
    from dpmac.evaluation import Evaluation


def private_scores(
    run: Path,
    file: Path,
    epsilon: float,
    ledger: Path | None,
    split: str | None,
    by: Sequence[str],
    groups: str | None,
    delta: float | None,
    pictures: Mapping[str, Any],
) -> Evaluation:
    """Score a saved model on private rows, and keep what was released. Everything is checked before it is spent.

    ``pictures`` are the options that rows of pictures alone take. Rows that do not fit into memory stay in their files.
    """
    from dpmac.cli.accounts import held
    from dpmac.cli.pictures import takes_pictures
    from dpmac.cli.places import check_file, check_ledger, check_text
    from dpmac.cli.scores import KEPT, keep
    from dpmac.cli.split import of_split
    from dpmac.evaluation import evaluate
    from dpmac.evaluation.asked import epsilon_from
    from dpmac.privacy import Ledger
    from dpmac.saving import load
    from dpmac.tables.lines import at_lines

    epsilon_from(epsilon)
    if ledger is None:
        raise ArgumentError("--ledger", None, "give the ledger of these rows: private scores are paid for in one")
    estimator = load(run)
    check_ledger(ledger)
    check_text("file", file.name)  # it is kept with the scores
    kept = run / KEPT
    if kept.is_dir():
        raise ArgumentError("run", str(kept), "a folder is where the scores are to be kept: remove it")
    check_file("run", kept)
    if takes_pictures(estimator):
        table, rows = _pictures(estimator, file, groups, **pictures)
    else:
        table, rows = _rows(estimator, run, file, groups, pictures)
    with at_lines(file), held(ledger, shared=True):
        book = of_split(Ledger.at(ledger), split, table)
        with book.noting(model=run.name):
            found = evaluate(estimator, **rows, epsilon=epsilon, delta=delta, ledger=book, by=by)
    try:
        keep(run, {"file": file.name, **found.to_dict()})
    except OSError as error:
        lost = f"{kept}: {error.strerror}. These scores are paid for and kept nowhere: copy them from above"
        raise Failed(f"{found}\n{lost}") from error
    return found


Rows = tuple[Any, dict[str, Any]]  # the table by columns, if there is one; and the rows as dpmac.evaluate takes them


def _rows(estimator: Any, run: Path, file: Path, groups: str | None, pictures: Mapping[str, Any]) -> Rows:
    """The rows of a table, small ones in memory."""
    from dpmac.cli.scores import check_scored, schema_of
    from dpmac.cli.wanted import no_pictures
    from dpmac.tables import Files
    from dpmac.tables.files import need_columns
    from dpmac.tables.lines import at_lines
    from dpmac.tables.stored import open_table

    no_pictures(**{**pictures, "resize": pictures["resize"] or None})
    schema = schema_of(estimator, run)
    table = open_table(file, schema)
    need_columns(file, table, [*schema.columns, *filter(None, [groups])])
    if not isinstance(table, Files):  # of others every cell is looked at when they are read
        with at_lines(file):
            check_scored(schema, table, file.name)
    return table, {"X": table, "groups": groups}


def _pictures(
    estimator: Any, file: Path, groups: str | None, *, images: str | None, target: str | None, resize: bool
) -> Rows:
    """Pictures of a folder or a table, with their labels, and whose they are."""
    from dpmac.cli.pictures import labelled

    pixels, labels, table = labelled(estimator, file, images, target, groups, resize=resize)
    if table is None:
        if groups is not None:
            fix = "folders do not say whose a picture is; a table of paths can (--images): leave it out"
            raise ArgumentError("--groups", groups, fix)
        return None, {"X": pixels, "y": labels}
    ids = None
    if groups is not None:
        ids = table.cells(groups)
    return table.table, {"X": pixels, "y": labels, "groups": ids}
