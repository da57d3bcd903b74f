"""``dpmac resume``: go on with a training that was interrupted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from dpmac.checks import ArgumentError
from dpmac.cli.ending import Failed

_SAME = "dpmac resume {run} --same-rows"


def resume(
    run: Annotated[Path, typer.Argument(help="The folder of a training that did not end.", metavar="RUN")],
    again: Annotated[
        bool, typer.Option("--again", help="Start anew where no checkpoint is left, and pay once more.")
    ] = False,
    same_rows: Annotated[
        bool, typer.Option("--same-rows", help="The file was written anew, but its rows are what they were.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")] = False,
) -> None:
    """Go on with a training that was interrupted, from its last checkpoint, with the same file, settings and ledger.

    It costs what the uninterrupted training would have cost; with [bold]--seed[/bold] the model is the same, bit for
    bit. After Ctrl-C no step is lost; after a crash those since the last checkpoint (two seconds' worth) are paid for
    and lost. A run that is finished is left alone.

    The file must be as it was, row by row. One that was written to since is refused, by its date: nothing that could be
    computed from private rows is kept to compare it by. [bold]--same-rows[/bold] says that its rows are the same.

    If the training ended before its first checkpoint, what it spent stays spent; then only [bold]--again[/bold] starts
    anew, and the ledger will count both.

    [bold]Example[/bold]

      dpmac resume runs/first
    """
    from dpmac.cli.jobs import CHECKPOINT, JOB, Job, counted
    from dpmac.cli.train import public_rows, tell
    from dpmac.cli.training import tidy, train
    from dpmac.privacy import Ledger
    from dpmac.saving import open_folder
    from dpmac.tables.files import need_columns, read_table
    from dpmac.training.alone import alone_with

    if (run / "dpmac.json").exists():
        if (run / JOB).exists():  # it was killed when the model was safe, before it had tidied up
            open_folder(run)
            with alone_with(run, "run"):
                tidy(run)
        typer.echo(f"{run} is finished: there is nothing to go on with", err=True)
        return
    if not (run / JOB).exists():
        raise ArgumentError("run", str(run), "no training was begun there: give the folder that dpmac train --out made")
    job = Job.load(run)
    schema = job.read_schema()
    table = read_table(job.file, schema)
    need_columns(job.file, table, [*schema.columns, *filter(None, [job.groups])])
    if (found := counted(table, job.groups)) != job.rows:
        fix = f"it has {found:,} {job.unit}, and the training began with {job.rows:,}: bring back the file as it was"
        raise ArgumentError("file", job.file, fix)
    if job.written not in (None, Job.written_at(job.file)) and not same_rows:
        fix = f"it was written to since the training began: bring it back, or say so if its rows are the same, {_SAME}"
        raise ArgumentError("file", job.file, fix.format(run=run))
    ledger = Path(job.ledger)
    spent = len(Ledger.read(ledger)) - job.before if ledger.exists() else 0
    if spent < 0 or (not ledger.exists() and job.before):
        raise Failed(
            f"{ledger}: it held {job.before} releases when the training began, and does not now: bring it back"
        )
    left = (run / CHECKPOINT).exists() and any((run / CHECKPOINT).iterdir())
    if spent and not left and not again:
        raise Failed(
            f"{run}: {spent} releases were made, and no checkpoint is left to go on from. Starting anew would pay for "
            f"them once more, in the same ledger: say so with  dpmac resume {run} --again"
        )
    public = public_rows(job)
    started = time.monotonic()
    done = train(job, run, table, public, quiet=quiet or as_json)
    tell(job, done, time.monotonic() - started, as_json=as_json)
