"""``dpmac train``: from a file and its public schema to a private model in a folder."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError

if TYPE_CHECKING:
    from dpmac.cli.jobs import Job
    from dpmac.cli.training import Trained
    from dpmac.extensions.world import World


def train(
    file: Annotated[Path, typer.Argument(help="The rows: CSV, Parquet, or a folder of Parquet.", metavar="FILE")],
    schema: Annotated[Path, typer.Option(help="What is publicly known of its columns: see dpmac schema init.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of this model; 0.5 to 8 is usual.")],
    out: Annotated[Path, typer.Option(help="The run folder to make; it must not exist.", metavar="RUN")],
    target: Annotated[
        str | None, typer.Option(help="The column to predict, instead of the schema's target.", metavar="COLUMN")
    ] = None,
    autoencoder: Annotated[bool, typer.Option("--autoencoder", help="No target: learn codes of whole rows.")] = False,
    groups: Annotated[
        str | None,
        typer.Option(help="The column that says whose a row is: protects persons, not rows.", metavar="COLUMN"),
    ] = None,
    max_rows: Annotated[int, typer.Option(help="With --groups, rows that a person brings to a step at most.")] = 4,
    delta: Annotated[
        float | None, typer.Option(help="Chance that the guarantee does not cover. Left out: safely below 1/n.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger of this data set, shared by all that is released from it.")
    ] = None,
    total_epsilon: Annotated[
        float | None, typer.Option(help="What the ledger may hold in all: no more is spent than fits into it.")
    ] = None,
    data_set: Annotated[str, typer.Option(help="What you call the rows, for the ledger.", metavar="NAME")] = "",
    purpose: Annotated[str, typer.Option(help="What the model is for, for the ledger.", metavar="TEXT")] = "",
    name: Annotated[str, typer.Option(help="The model's name in the ledger. Left out: the folder's.")] = "",
    public_test: Annotated[
        Path | None, typer.Option(help="Rows that are public, to score the model on; kept beside it.", metavar="FILE")
    ] = None,
    searched: Annotated[
        str | None,
        typer.Option(
            help="Were hyper-parameters searched? no; public: on public or other people's rows; ledger: on these, "
            "every trial in this ledger; private: on these, and not in it. Statement and report say the answer.",
            metavar="ANSWER",
        ),
    ] = None,
    ranges_from: Annotated[
        str | None,
        typer.Option(help="Where the schema's ranges and values come from, such as a code book.", metavar="TEXT"),
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Expected passes over the rows. Left out: the default.")] = None,
    batch_size: Annotated[float | None, typer.Option(help="Expected size of a batch. Left out: the default.")] = None,
    hidden: Annotated[
        str | None, typer.Option(help="Units of the hidden layers, 64,32; or none. Left out: the default.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Make the run repeatable. It is then not private against anyone who knows the seed."),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads. Left out: as many as help.")] = None,
    memory: Annotated[
        int | None, typer.Option(help="MiB that the rows of a large table may take. Left out: 1024.", metavar="MIB")
    ] = None,
    scratch: Annotated[
        str | None,
        typer.Option(help="Where rows lie that do not fit; none: in their Parquet alone, slower.", metavar="FOLDER"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")] = False,
) -> None:
    """Train a private model on a table, and write it into a new folder.

    The schema's target says what: of a category a classifier, of a number a regressor, without a target an autoencoder.
    Everything is checked before any privacy is spent: every cell and label, and every path is tried. Whatever ends the
    training, nothing that was paid for goes uncounted, and [bold]dpmac resume RUN[/bold] goes on. Ctrl-C costs no step;
    a crash or a kill those since the last checkpoint, which is at most two seconds old as a rule.

    Rows that do not fit into [bold]--memory[/bold] are kept in a file without a name while the training runs, in the
    system's temporary folder or [bold]--scratch[/bold]; it is gone when the process ends, however it ends.

    Without [bold]--ledger[/bold] the run keeps its own. A ledger shared by everything that is ever released from these
    rows is better: what is spent adds up, and only one ledger knows of all.

    Where a person may have several rows, [bold]--groups[/bold] names the column that tells whose they are. The
    guarantee is then for one person with all their rows, at the same noise; that column is no input of the model.

    Started by [bold]torchrun --nproc-per-node 4 -m dpmac train ...[/bold], four processes share the rows and the work.

    [bold]Examples[/bold]

      dpmac train patients.csv --schema patients.schema.json --target death --epsilon 2 --out runs/first --ledger hospital.ledger --searched no

      dpmac train patients.csv --schema patients.schema.json --target weight --epsilon 1 --out runs/weight --ledger hospital.ledger --total-epsilon 5 --purpose "a dose for every weight"

      dpmac train patients.csv --schema patients.schema.json --target death --groups patient --epsilon 2 --out runs/persons

      dpmac train patients.csv --schema patients.schema.json --autoencoder --epsilon 1 --out runs/codes --json
    """  # noqa: E501
    from dpmac.cli.aims import aimed, units, unseen
    from dpmac.cli.jobs import Job, absolute, counted, scratch_folder
    from dpmac.cli.places import check_places
    from dpmac.cli.several import check_same, said_once, several
    from dpmac.tables import Schema
    from dpmac.tables.files import need_columns

    with several() as world:
        with said_once(world):
            if not schema.is_file():
                fix = f"there is no such file: make a template with  dpmac schema init {file} > {schema.name}"
                raise ArgumentError("--schema", str(schema), fix)
            chosen = unseen(aimed(Schema.load(schema), target, autoencoder), groups)
            layers = units(hidden)
            if world.leads:  # who writes
                inputs = {"file": file, "--schema": schema, "--public-test": public_test}
                check_places(out, ledger, inputs, scratch_folder(scratch))
            written = Job.written_at(file)  # before it is read: a change in between is then noticed, too
            job = Job(
                file=str(file.absolute()),
                schema=chosen.to_dict(),
                ledger=absolute(ledger) or "",
                epsilon=epsilon,
                delta=delta,
                total_epsilon=total_epsilon,
                epochs=epochs,
                batch_size=batch_size,
                hidden=layers,
                seed=seed,
                threads=threads,
                name=name or out.name,
                purpose=purpose,
                data_set=data_set,
                public_test=absolute(public_test),
                groups=groups,
                max_rows=max_rows,
                written=written,
                memory=memory,
                scratch=absolute(scratch_folder(scratch)) or scratch,
                searched=searched,
                ranges_from=ranges_from,
            )
            table = job.table(chosen, quiet=quiet or as_json or not world.leads)
            need_columns(file, table, [*chosen.columns, *filter(None, [groups])])
            job = replace(job, rows=counted(table, groups))
        check_same(world, job.file)
        begin(job, out, table, quiet=quiet, as_json=as_json, world=world)


def begin(job: Job, folder: Path, table: Any, *, quiet: bool, as_json: bool, world: World) -> None:
    """Make the run folder and train."""
    from dpmac.cli.jobs import CHECKPOINT, OWN_LEDGER
    from dpmac.cli.several import said_once
    from dpmac.cli.training import discard, follow, train
    from dpmac.privacy import Ledger

    shared = bool(job.ledger)
    with said_once(world):
        _check_numbers(job)
        check_kept(job)
        public = public_rows(job)
        if not shared:
            job = replace(job, ledger=str(folder.absolute() / OWN_LEDGER))
    if not world.leads:
        follow(job, folder, table, public, world)
        return
    if shared and Path(job.ledger).exists():
        job = replace(job, before=len(Ledger.at(job.ledger, job.data_set)))
    job.begin(folder)
    started = time.monotonic()
    try:
        Path(job.ledger).parent.mkdir(parents=True, exist_ok=True)
        if not (quiet or as_json):
            _introduce(job, shared)
        done = train(job, folder, table, public, quiet=quiet, world=world)
    except BaseException:
        if not Path(job.ledger).exists() and not (folder / CHECKPOINT).exists():
            discard(folder)  # it had not begun
        raise
    tell(job, done, time.monotonic() - started, as_json=as_json)


def _introduce(job: Job, shared: bool) -> None:
    kind = {"classification": "a classifier", "regression": "a regressor"}.get(str(job.schema.get("task")))
    target = ""
    if kind:
        target = f" of {job.schema['target']}"
    typer.echo(f"training {kind or 'an autoencoder'}{target} on {job.rows:,} {job.unit}, epsilon {job.epsilon:g}")
    if not shared:
        typer.echo("no --ledger was given: the run keeps its own, which knows of nothing else from these rows")


def tell(job: Job, done: Trained, seconds: float, *, as_json: bool) -> None:
    """What was made: for people on standard output, or for a script as JSON."""
    privacy = done.estimator.privacy_
    epsilon, scores = privacy.epsilon, (done.evaluation or {}).get("scores")
    if Path(job.ledger).exists():
        ledger = Path(job.ledger)
    else:
        ledger = done.folder / "ledger.jsonl"
    finite = None  # JSON has no infinity
    if epsilon < float("inf"):
        finite = epsilon
    if as_json:
        answer = {
            "run": str(done.folder),
            "estimator": type(done.estimator).__name__,
            job.unit: job.rows,
            "epsilon": finite,
            "delta": privacy.delta,
            "seeded": privacy.ledger.seeded,
            "ledger": str(ledger),
            "releases": len(privacy.ledger),
            "seconds": round(seconds, 3),
            "scores": scores,
        }
        typer.echo(json.dumps(answer, allow_nan=False))
        return
    typer.echo(f"done in {seconds:.1f} s: {done.folder}")
    typer.echo(str(privacy.statement()).split("\nUnit of privacy")[0])
    if job.before:
        typer.echo(
            f"this counts everything that the ledger {ledger} holds; the budget of this model was {job.epsilon:g}"
        )
    for key, value in (scores or {}).items():
        typer.echo(f"{key.replace('_', ' ')} on the public rows: {value:.4f}")
    typer.echo(f"\nnext:  dpmac report {done.folder}\n       dpmac predict {done.folder} FILE --out predictions.csv")
    if epsilon == float("inf"):
        sys.stderr.write("dpmac: this model is not private\n")


def public_rows(job: Job) -> Any:
    """The table of ``--public-test``, every cell and label of it looked over; None without one."""
    from dpmac.cli.scores import check_scored
    from dpmac.tables.files import read_table

    if job.public_test is None:
        return None
    schema = job.read_schema()
    table = read_table(job.public_test, schema)
    check_scored(schema, table, job.public_test)
    return table


def check_kept(job: Job) -> None:
    """Raise unless all that a finished run keeps of what was asked can be written: tried, and thrown away."""
    from dpmac.cli.places import LONGEST, check_text
    from dpmac.disclosure import Declared
    from dpmac.privacy import Ledger
    from dpmac.saving.arguments import arguments_of

    for option, text in (("--name", job.name), ("--purpose", job.purpose), ("--data-set", job.data_set)):
        check_text(option, text, LONGEST)
    Declared(job.searched, job.ranges_from)
    json.dumps([arguments_of(job.estimator(Ledger(), None)), job.schema], allow_nan=False)


def _check_numbers(job: Job) -> None:
    """What would otherwise be noticed only after the folder is made."""
    from dpmac.checks import integer, number
    from dpmac.cli.training import steps_of
    from dpmac.extensions.persons import MOST
    from dpmac.planning.plan import check_delta

    number("--epsilon", job.epsilon, "give a number above 0 (0.5 to 8 is usual), or inf for no privacy", low=5e-324)
    if job.rows < 2:
        raise ArgumentError("file", job.file, f"it has {job.rows} {job.unit}: a guarantee needs a crowd")
    integer("--max-rows", job.max_rows, f"give a whole number from 1 to {MOST}", low=1, high=MOST)
    if job.delta is not None:
        check_delta(job.delta, job.rows)
    steps_of(job)
