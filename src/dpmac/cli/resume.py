"""``dpmac resume``: resume a training that was interrupted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError
from dpmac.cli.ending import Failed

if TYPE_CHECKING:
    from dpmac.cli.jobs import Job

_SAME = "dpmac resume {run} --same-rows"


def resume(
    run: Annotated[Path, typer.Argument(help="The folder of a training that did not end.", metavar="RUN")],
    again: Annotated[
        bool, typer.Option("--again", help="Start anew where no checkpoint is left, and pay once more.")
    ] = False,
    same_rows: Annotated[
        bool, typer.Option("--same-rows", help="The file was written again, but with the same rows.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")] = False,
) -> None:
    """Resume a training that was interrupted, from its last checkpoint, with the same file, settings and ledger.

    It costs what the uninterrupted training would have cost; with [bold]--seed[/bold] the model is the same, bit for
    bit. Ctrl-C loses no step. After a crash or a kill the steps since the last checkpoint stay paid for and are lost,
    unless there is a seed. Checkpoints are usually two seconds apart: a quarter of a second if they are quickly
    written, and 20 times the time that it takes to write a large one. A finished run is left alone.

    The file must have the same rows in the same order. A file that was modified since is refused, by its date: nothing
    computed from private rows is kept for a comparison. Declare with [bold]--same-rows[/bold] that its rows are the
    same.

    If the training ended before its first checkpoint, what it spent stays spent. Then [bold]--again[/bold] starts over,
    and the ledger counts both. Under torchrun any number of processes may resume.

    [bold]Example[/bold]

      dpmac resume runs/first
    """
    from dpmac.cli.accounts import held
    from dpmac.cli.jobs import JOB, scratch_folder
    from dpmac.cli.places import check_again
    from dpmac.cli.public_rows import public_rows
    from dpmac.cli.several import check_same, leads_here, said_once, several
    from dpmac.cli.telling import tell
    from dpmac.cli.training import follow, tidy, train
    from dpmac.saving import open_folder
    from dpmac.training.exclusive import exclusive_access

    if (run / "dpmac.json").exists():
        if (run / JOB).exists() and leads_here():  # it was killed when the model was safe, before it had tidied up
            open_folder(run)
            with exclusive_access(run, "run"):
                tidy(run)
        if leads_here():
            typer.echo(f"{run} is finished: there is nothing to resume", err=True)
        return
    with several() as world:
        with said_once(world):
            job, table = _opened(run, same_rows, quiet or as_json or not world.leads)
            _check_spent(run, job, again)
            if world.leads:  # who writes
                check_again(run, Path(job.ledger), scratch_folder(job.scratch))
            public = public_rows(job, table)
        check_same(world, job.file, pictures=job.pictures is not None)
        if not world.leads:
            follow(job, run, table, public, world)
            return
        started = time.monotonic()
        with held(Path(job.ledger), Path(job.ledger).absolute().parent != run.absolute()):
            done = train(job, run, table, public, quiet=quiet or as_json, world=world)
        tell(job, done, time.monotonic() - started, as_json=as_json)


def _opened(run: Path, same_rows: bool, quiet: bool) -> tuple[Job, Any]:
    """What the run was asked, and its table, which must be as it was."""
    from dpmac.cli.jobs import JOB, Job, counted

    if not (run / JOB).exists():
        raise ArgumentError("run", str(run), "no training was begun there: give the folder that dpmac train --out made")
    job = Job.load(run)
    table = job.opened(quiet=quiet)
    if (found := counted(table, job.groups)) != job.rows:
        fix = f"it has {found:,} {job.unit}, and the training began with {job.rows:,}: bring back the file as it was"
        raise ArgumentError("file", job.file, fix)
    if job.written not in (None, job.written_now()) and not same_rows:
        fix = f"it was written to since the training began: bring it back, or say so if its rows are the same, {_SAME}"
        raise ArgumentError("file", job.file, fix.format(run=run))
    return job, table


def _check_spent(run: Path, job: Job, again: bool) -> None:
    """Raise unless the ledger is the one of the run, and there is a checkpoint for what it has spent."""
    from dpmac.cli.jobs import CHECKPOINT
    from dpmac.privacy import Ledger

    ledger = Path(job.ledger)
    spent, since = 0, 0
    if ledger.exists():
        entries = Ledger.read(ledger).entries
        since = len(entries) - job.before
        spent = sum(entry.model == job.name for entry in entries[job.before :])  # others may have released since
    if since < 0 or (not ledger.exists() and job.before):
        raise Failed(
            f"{ledger}: it held {job.before} releases when the training began, and does not now: bring it back"
        )
    left = (run / CHECKPOINT).exists() and any((run / CHECKPOINT).iterdir())
    if spent and not left and not again:
        raise Failed(
            f"{run}: {spent} releases were made, and no checkpoint is left to go on from. Starting anew would pay for "
            f"them once more, in the same ledger: say so with  dpmac resume {run} --again"
        )
