"""Private scores on the command line: one release into a ledger, kept beside the model for its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
) -> Evaluation:
    """Score a saved model on a private table, and keep what was released. Everything is checked before it is spent."""
    from dpmac.cli.accounts import held
    from dpmac.cli.places import check_file, check_ledger, check_text
    from dpmac.cli.scores import KEPT, check_scored, keep, schema_of
    from dpmac.cli.split import of_split
    from dpmac.evaluation import evaluate
    from dpmac.evaluation.asked import epsilon_from
    from dpmac.privacy import Ledger
    from dpmac.saving import load
    from dpmac.tables.files import need_columns, read_table
    from dpmac.tables.lines import at_lines

    epsilon_from(epsilon)
    if ledger is None:
        raise ArgumentError("--ledger", None, "give the ledger of these rows: private scores are paid for in one")
    estimator = load(run)
    schema = schema_of(estimator, run)
    check_ledger(ledger)
    kept = run / KEPT
    check_text("file", file.name)  # it is kept with the scores
    if kept.is_dir():
        raise ArgumentError("run", str(kept), "a folder is where the scores are to be kept: remove it")
    check_file("run", kept)
    table = read_table(file, schema)
    need_columns(file, table, [*schema.columns, *filter(None, [groups])])
    with at_lines(file), held(ledger, shared=True):
        check_scored(schema, table, file.name)
        book = of_split(Ledger.at(ledger), split, table)
        with book.noting(model=run.name):
            found = evaluate(estimator, table, epsilon=epsilon, delta=delta, ledger=book, groups=groups, by=by)
    try:
        keep(run, {"file": file.name, **found.to_dict()})
    except OSError as error:
        lost = f"{kept}: {error.strerror}. These scores are paid for and kept nowhere: copy them from above"
        raise Failed(f"{found}\n{lost}") from error
    return found
