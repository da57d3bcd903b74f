"""``dpmac tune``: settings chosen on private rows, and the best model of a private search in a folder."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError
from dpmac.cli.cell_options import Censored, Decimal, Na, Thousands, with_cells
from dpmac.cli.ending import NOTHING_SPENT, Failed, told
from dpmac.cli.fit_options import (
    AsJson,
    DataSet,
    Delta,
    Groups,
    MaxRows,
    Name,
    NewLedger,
    OutFolder,
    Purpose,
    RangesFrom,
    SchemaFile,
    Target,
    Threads,
    TotalEpsilon,
    check_names,
)

if TYPE_CHECKING:
    from dpmac.estimators import DPMACSearch
    from dpmac.tables import Schema

USUAL: list[dict[str, Any]] = [
    {},
    {"hidden_layer_sizes": []},
    {"hidden_layer_sizes": [32]},
    {"hidden_layer_sizes": [64, 32]},
    {"learning_rate": 0.003},
    {"learning_rate": 0.03},
]
"""The candidates where none are given: the rule's own model, three sizes, and a smaller and a larger step."""


def tune(
    file: Annotated[Path, typer.Argument(help="The rows: CSV or Parquet.", metavar="FILE")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the search and its model together.")],
    out: OutFolder,
    ledger: Annotated[Path, typer.Option(help="The ledger of this data set: the search is one entry in it.")],
    schema: SchemaFile = None,
    target: Target = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            help="JSON: an object of lists, all of whose combinations are candidates, or a list of objects. Left out: "
            "six usual ones.",
            metavar="FILE",
        ),
    ] = None,
    tries: Annotated[float, typer.Option(help="How many fits there are on average; how many is secret.")] = 10.0,
    held_out: Annotated[float, typer.Option(help="The part of the rows that is scored on, and not trained on.")] = 0.2,
    scoring: Annotated[
        str | None, typer.Option(help="accuracy or log_loss of a category; error of a number.", metavar="SCORE")
    ] = None,
    public_test: Annotated[
        Path | None, typer.Option(help="Rows that are public: scores on them cost nothing.", metavar="FILE")
    ] = None,
    groups: Groups = None,
    max_rows: MaxRows = 4,
    delta: Delta = None,
    total_epsilon: TotalEpsilon = None,
    new_ledger: NewLedger = False,
    data_set: DataSet = "",
    purpose: Purpose = "",
    name: Name = "",
    ranges_from: RangesFrom = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Make the search repeatable. It is then not private against anyone who knows the seed."),
    ] = None,
    threads: Threads = None,
    na: Na = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    censored: Censored = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Choose settings on private rows, and keep the best model: at one price, which is paid before the first fit.

    Candidates are drawn at random, fitted, and scored by a small private release on rows that they were not trained on.
    The number of fits is random and secret; [bold]--tries[/bold] is its mean. The best fit is the model; all others are forgotten. The ledger gets one entry for the whole search, which costs about twice as much as one of its fits at ten tries on average.

    [bold]It does not always pay.[/bold] Each fit gets a little over half of the budget, and a fifth of the rows is held
    out. On tables the default settings of [bold]dpmac train[/bold] are within .003 of the best, so prefer it there.
    Search where no good setting is known.

    Everything is checked before any privacy is spent: every candidate is run up to its first release, on the rows
    themselves. If a search is killed, the same command continues it with the number of fits that it had drawn, and does
    not pay twice; until then that number is in the folder [bold]RUN.search[/bold], which you must keep to yourself.
    [bold]Time is not hidden[/bold]: anyone who sees how long the command takes can guess the number.

    [bold]Examples[/bold]

      dpmac tune patients.csv --schema patients.schema.json --target death --epsilon 3 --tries 3 --out runs/searched --ledger hospital.ledger

      dpmac tune patients.csv --schema patients.schema.json --target death --candidates candidates.json --epsilon 3 --tries 2 --out runs/few --ledger hospital.ledger --scoring log_loss --json
    """  # noqa: E501
    from dpmac.cli.accounts import held
    from dpmac.cli.aims import aimed, unseen
    from dpmac.cli.places import check_places
    from dpmac.cli.wanted import read_schema
    from dpmac.disclosure import Declared
    from dpmac.estimators import DPMACSearch, Machine
    from dpmac.tables.files import need_columns, read_table
    from dpmac.tables.lines import at_lines

    of_cells: dict[str, Any] = {"na": na, "decimal": decimal, "thousands": thousands, "censored": censored}
    chosen = with_cells(unseen(aimed(read_schema(file, schema), target, False), groups), **of_cells)
    inputs = {"file": file, "--schema": schema, "--public-test": public_test, "--candidates": candidates}
    check_places(out, ledger, inputs, None, new_ledger=new_ledger)
    check_names(name, purpose, data_set)
    said = Declared("ledger", ranges_from)
    settings = USUAL if candidates is None else read_candidates(candidates)
    checkpoint = out.absolute().with_name(f"{out.name}.search")
    table = read_table(file, chosen)
    need_columns(file, table, [*chosen.columns, *filter(None, [groups])])
    search = DPMACSearch(
        estimator_for(chosen),
        settings,
        tries=tries,
        held_out=held_out,
        scoring=scoring,
        epsilon=epsilon,
        delta=delta,
        max_rows=max_rows,
        total_epsilon=total_epsilon,
        random_state=seed,
        machine=Machine(threads=threads, checkpoint=checkpoint, progress=False if quiet or as_json else "auto"),
    )
    with held(ledger, shared=True):
        if not (quiet or as_json):
            mean = f"{tries:g} fits on average (how many is secret)"
            typer.echo(f"searching {len(_listed(settings)):,} candidates, {mean}, epsilon {epsilon:g} for all together")
        with at_lines(file):
            _run(search, table, chosen, groups, public_test, (ledger, data_set, purpose, name or out.name))
        where = _saved(search, out, {"searched": said.searched, "ranges_from": said.ranges_from})
    _tell(search, where, ledger, as_json=as_json)


def read_candidates(path: Path) -> Any:
    """The candidates of a JSON file: a list of objects, or an object of lists."""
    from dpmac.limits import read_json

    try:
        found = read_json(path)
    except ValueError as error:
        raise ArgumentError("--candidates", str(path), f"it is no JSON: {error}") from None
    right = isinstance(found, dict) and all(isinstance(one, list) and one for one in found.values())
    if not found or not (right or (isinstance(found, list) and all(isinstance(one, dict) for one in found))):
        fix = 'give a list of objects, [{"learning_rate": 0.1}, {}], or an object of lists, {"learning_rate": [0.1, 1]}'
        raise ArgumentError("--candidates", str(path), fix)
    return found


def estimator_for(schema: Schema) -> Any:
    """What is searched for: a classifier or a regressor of the schema's target."""
    from dpmac.estimators import DPMACClassifier, DPMACRegressor

    if schema.task is None:
        raise ArgumentError("--target", None, "a search needs a column to predict: name it, or put it into the schema")
    if schema.task == "classification":
        return DPMACClassifier("auto", schema=schema)
    return DPMACRegressor("auto", schema=schema)


def _listed(settings: Any) -> list[Any]:
    from sklearn.model_selection import ParameterGrid

    if isinstance(settings, dict):
        return list(ParameterGrid(settings))
    return list(settings)


def _run(
    search: DPMACSearch,
    table: Any,
    schema: Schema,
    groups: str | None,
    public_test: Path | None,
    book: tuple[Path, str, str, str],
) -> None:
    """The search; an error that leaves it says what was spent, and how to go on."""
    from dpmac.privacy import Ledger
    from dpmac.tables.files import read_table

    path, data_set, purpose, name = book
    public = None
    if public_test is not None:
        public = (read_table(public_test, schema), None)
    search.ledger = Ledger.at(path, data_set, new=True)
    before = len(search.ledger)
    try:
        with search.ledger.noting(purpose=purpose, model=name):
            search.fit(table, groups=groups, public_rows=public)
    except BaseException as error:
        known = told(error)
        if len(search.ledger) > before:
            sys.stderr.write("dpmac: the search is paid for; the same command continues it\n")
            if known is not None and known[0] == NOTHING_SPENT:
                raise Failed(known[1]) from error
        raise


def _saved(search: DPMACSearch, folder: Path, said: dict[str, Any]) -> Path:
    """Where the model was written: the folder that was asked for, or another one if that fails; it is paid for."""
    try:
        return search.save(folder, **said)
    except (OSError, ValueError) as error:
        beside = Path(tempfile.mkdtemp(prefix="dpmac-")) / folder.name
        why = getattr(error, "strerror", None) or error
        sys.stderr.write(f"dpmac: {folder}: {why}; the model is written to {beside} instead\n")
        return search.save(beside, **said)


def _tell(search: DPMACSearch, folder: Path, ledger: Path, *, as_json: bool) -> None:
    """What was found. How long it took is not said: it shows how many fits there were."""
    privacy = search.privacy_
    if as_json:
        answer = {
            "run": str(folder),
            "estimator": type(search.best_estimator_).__name__,
            "best": search.best_params_,
            "score": search.best_score_,
            "score_noise": search.score_noise_,
            "epsilon_of_a_fit": search.run_epsilon_,
            "epsilon": privacy.epsilon,
            "delta": privacy.delta,
            "seeded": privacy.ledger.seeded,
            "ledger": str(ledger),
        }
        typer.echo(json.dumps(answer, allow_nan=False))
        return
    best = ", ".join(f"{name}={value}" for name, value in search.best_params_.items()) or "the rule's own settings"
    typer.echo(f"done: {folder}\nbest: {best}")
    typer.echo(f"its score {search.best_score_:.4f} (the noise in it has a deviation of {search.score_noise_:.4f})")
    typer.echo(f"every fit had a budget of epsilon {search.run_epsilon_:.3f}")
    typer.echo(str(privacy.statement()).split("\nUnit of privacy")[0])
    typer.echo(f"\nnext:  dpmac report {folder}\n       dpmac predict {folder} FILE --out predictions.csv")
