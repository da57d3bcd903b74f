"""One training from a job to a run folder: whatever ends it, everything that was paid for is in the ledger."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmac.cli.ending import NOTHING_SPENT, Failed, told
from dpmac.cli.jobs import CHECKPOINT, JOB, OWN_LEDGER, Job
from dpmac.cli.several import rows_of
from dpmac.cli.split import of_split, seen_by
from dpmac.cli.watching import Watch, shown, work_shown

if TYPE_CHECKING:
    from dpmac.extensions.world import World
    from dpmac.privacy import Ledger
    from dpmac.training.checkpoint import Checkpoints
    from dpmac.training.defaults import Schedule


@dataclass(frozen=True)
class Trained:
    """What a training has made: the fitted estimator, and the folder that it lies in."""

    estimator: Any
    folder: Path
    evaluation: dict[str, Any] | None


def train(job: Job, folder: Path, table: Any, public: Any, *, quiet: bool, world: World) -> Trained:
    """Fit, save and evaluate. ``table`` are all rows, ``public`` a table that the user calls public, or None.

    If nothing was spent when it ends, nothing is left behind; else a line says what was spent, and how to go on.
    """
    from dpmac.training.exclusive import exclusive_access

    with exclusive_access(folder, "run"):
        return _train(job, folder, table, public, quiet=quiet, world=world)


def follow(job: Job, folder: Path, table: Any, public: Any, world: World) -> None:
    """The training in a process that does not lead: it has its own rows, and writes and prints nothing."""
    from dpmac.privacy import Ledger
    from dpmac.training.checkpoint import Checkpoints

    estimator = job.estimator(Ledger(), Checkpoints(folder / CHECKPOINT, keep=True), world)
    with _interrupts_between_steps(lambda: not hasattr(estimator, "run_")):
        _fit(estimator, rows_of(world, table, job), public, job)


def _train(job: Job, folder: Path, table: Any, public: Any, *, quiet: bool, world: World) -> Trained:
    from dpmac.privacy import Ledger
    from dpmac.training.checkpoint import Checkpoints

    path = Path(job.ledger)
    whole = Ledger.at(path, job.data_set, new=True)  # its name was asked about
    ledger = of_split(whole, job.split, table)
    checkpoints = Checkpoints(folder / CHECKPOINT, keep=True)  # until the model is safe
    fresh = not checkpoints.path.exists()
    estimator = job.estimator(ledger, checkpoints, world)
    others = _of_others(whole, job, checkpoints)
    watch = Watch(ledger, seen_by(whole, job.split, job.before), steps_of(job), delta_of(job), _run_of(checkpoints))
    try:
        with _interrupts_between_steps(watch.may_stop), ledger.noting(purpose=job.purpose, model=job.name):
            with shown(None if quiet else watch), work_shown(show=not quiet), _lines(job, world):
                _fit(estimator, rows_of(world, table, job), public, job)
            where = _saved(estimator, folder, job)
            evaluation = _evaluated(estimator, where, public, job)
            if where == folder:
                tidy(folder)
    except BaseException as error:
        spent = _tell(error, whole, job, folder, fresh, others)
        known = told(error)
        if spent and known is not None and known[0] == NOTHING_SPENT:
            raise Failed(known[1]) from error
        raise
    return Trained(estimator, where, evaluation)


def _fit(estimator: Any, table: Any, public: Any, job: Job) -> None:
    if job.pictures is not None:
        from dpmac.cli.pictures import fit

        fit(estimator, job, table, public)
        return
    schema = job.read_schema()
    if schema.task == "classification" and public is not None:
        estimator.fit(table, public_validation=(public, public[schema.target]), groups=job.groups)
    else:
        estimator.fit(table, groups=job.groups)


def _lines(job: Job, world: World) -> AbstractContextManager[None]:
    """Inside, errors of rows name lines of the file: where this process has all of them."""
    from dpmac.tables.lines import at_lines

    if world.size > 1 or job.pictures is not None:
        return nullcontext()
    return at_lines(job.file)


def _saved(estimator: Any, folder: Path, job: Job) -> Path:
    """Where the model was written: the folder that was asked for, or another one if that fails; it is paid for."""
    from dpmac.saving import save

    said: dict[str, Any] = {"searched": job.searched, "ranges_from": job.ranges_from}
    try:
        return save(estimator, folder, **said)
    except (OSError, ValueError) as error:  # a full disk; somebody's files in the folder
        beside = Path(tempfile.mkdtemp(prefix="dpmac-")) / folder.name
        why = getattr(error, "strerror", None) or error
        sys.stderr.write(f"dpmac: {folder}: {why}; the model is written to {beside} instead\n")
        return save(estimator, beside, **said)


def _evaluated(estimator: Any, folder: Path, public: Any, job: Job) -> dict[str, Any] | None:
    """Scores on the public rows; None, and a line that says why, if they fail: the model is there, and stays."""
    from dpmac.cli.scores import evaluation_of, evaluation_of_pictures, keep

    if public is None or job.public_test is None:
        return None
    name = Path(job.public_test).name
    try:
        if job.pictures is not None:
            p = estimator.predict_proba(public.pixels)
            found = evaluation_of_pictures(estimator, p, public.labels, name, public=True)
        else:
            found = evaluation_of(estimator, job.read_schema(), public, name, public=True)
        keep(folder, found)
    except Exception as error:
        sys.stderr.write(f"dpmac: the model is in {folder}, but not its scores on the public rows: {error}\n")
        return None
    return found


def tidy(folder: Path) -> None:
    """Remove what only an unfinished run needs; its own ledger is in the folder by now."""
    from dpmac.extensions.rollback_guard import guard_file_of
    from dpmac.files import parts_of

    for part in parts_of(folder.absolute()):  # of processes that were killed as they wrote
        shutil.rmtree(part, ignore_errors=True)
    own = folder / OWN_LEDGER
    for path in (own, guard_file_of(own)):
        path.unlink(missing_ok=True)
    _remove_unfinished(folder)


def _remove_unfinished(folder: Path) -> None:
    """Remove the checkpoint and then the job: while that is there, ``dpmac resume`` finishes this."""
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    (folder / JOB).unlink(missing_ok=True)


# --- ends ------------------------------------------------------------------------------------------------------------


def _run_of(checkpoints: Checkpoints) -> str | None:
    """The name of this run in the ledger; None if its checkpoint is damaged."""
    with suppress(ValueError, OSError):
        return checkpoints.run
    return None


def _of_others(ledger: Ledger, job: Job, checkpoints: Checkpoints) -> int:
    """Releases that others have made since this run began: while it was interrupted, for now nobody else writes."""
    run = _run_of(checkpoints)
    return sum(run not in (None, entry.run) for entry in ledger.entries[job.before :])


def _tell(error: BaseException, ledger: Any, job: Job, folder: Path, fresh: bool, others: int) -> bool:
    """Before an error goes on: what was spent, where it is written, and how to go on; or put everything back.

    Gives whether anything was spent. What ``others`` have released is not counted as this run's.

    A folder whose checkpoint was there before is left alone: its ledger may only have been put away for a while. What
    was spent is read off the file: an interruption may come between a line there and the ledger's own count.
    """
    from dpmac.privacy import Ledger
    from dpmac.privacy.statement import not_less, round_up

    known, path = told(error), Path(job.ledger)
    with suppress(ValueError, OSError):  # as far as it is known, if the file has been damaged meanwhile
        ledger = Ledger.read(path)
    made = len(ledger) - job.before - others
    if not made:
        if fresh:
            discard(folder)
        if known is not None and known[0] != NOTHING_SPENT:
            sys.stderr.write("dpmac: nothing was spent\n")
        return False
    spent = ledger.epsilon(delta_of(job))
    sys.stderr.write(
        f"dpmac: stopped after {made:,} releases; the ledger {job.ledger} holds epsilon "
        f"{round_up(spent)} at delta {not_less(delta_of(job))} in all\ndpmac: resume it with  dpmac resume {folder}\n"
    )
    return True


def discard(folder: Path) -> None:
    """Remove a run folder in which nothing is but what a running train puts there."""
    if (folder / "dpmac.json").exists():
        return
    _remove_unfinished(folder)
    with suppress(OSError):  # a ledger that is there holds releases: it stays, and the folder with it
        folder.rmdir()


@contextmanager
def _interrupts_between_steps(may_stop: Callable[[], bool]) -> Iterator[None]:
    """Ctrl-C stops the steps, which a checkpoint brings back; what is released or written after them is finished."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return

    def interrupted(*_: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once: the ending itself takes a moment
        if not may_stop():
            sys.stderr.write("dpmac: the steps are done: finishing, so that nothing paid for is lost\n")
            return
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        if sys.exc_info()[0] is not KeyboardInterrupt:  # else the ending goes on undisturbed
            signal.signal(signal.SIGINT, before)


def delta_of(job: Job) -> float:
    from dpmac.extensions.ledger_header import account_at
    from dpmac.training.defaults import safe_delta

    if job.delta is not None:
        return job.delta
    account = None
    with suppress(ValueError, OSError):  # a damaged ledger is told of by whoever opens it
        account = account_at(Path(job.ledger))
    if account is not None:
        return account.delta
    return safe_delta(job.rows)


def steps_of(job: Job) -> int:
    """By the rule that the estimators follow; only for showing how far a training is."""
    from dpmac.planning.plan import steps_for
    from dpmac.privacy import Ledger

    schedule: Schedule = job.estimator(Ledger(), None)._schedule(job.rows)
    if job.epochs is None:
        return schedule.steps
    return steps_for(job.rows, job.batch_size or schedule.batch_size, None, job.epochs)
