"""Runs many jobs: in parallel, once each, whatever happens. What is finished stays finished.

Every run is saved by the process that did it, the moment it ends. So a Ctrl-C, a kill or a power cut loses the runs in
progress and nothing else, and the same call goes on from there. A run that raises, or whose process dies, is noted and
the others go on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from reproduction.store import DamagedRunError, Job, Store, write_atomically

RunJob = Callable[..., dict[str, Any]]
"""``run_job(job, data_path, device) -> result``. A function of a module: other processes must be able to import it."""

_TICK = 1.0  # seconds between two looks at the clock while runs are in progress


@dataclass(frozen=True)
class Task:
    """How to do any job of a batch: all that another process needs to know."""

    run_job: RunJob
    store: Store
    data_path: str | None = None
    device: str = "cpu"
    made_with: Mapping[str, Any] = field(default_factory=dict)

    def do(self, job: Job) -> float:
        """Run and save one job; gives the seconds it took. On an error leaves the traceback in the folder."""
        started = time.monotonic()
        try:
            self.store.save(job, self.run_job(job, self.data_path, self.device), self.made_with)
        except Exception:
            write_atomically(self.store.error_path(job), traceback.format_exc())
            raise
        return time.monotonic() - started


@dataclass(frozen=True)
class Failure:
    """A run that did not end well; ``error`` is one line, the whole traceback lies in the folder if there was one."""

    job: Job
    error: str


@dataclass
class Report:
    """What a batch came to."""

    kept: int = 0
    done: int = 0
    damaged: list[DamagedRunError] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


class Watcher:
    """Is told how a batch goes, in this process; shows nothing. A display overrides what it wants to hear."""

    def begin(self, jobs: Sequence[Job], workers: int) -> None:
        """Before the first run: what there is to do."""

    def started(self, job: Job) -> None:
        """A run was handed to a process (a second time, if its process died)."""

    def finished(self, job: Job, seconds: float) -> None:
        """A run is saved."""

    def failed(self, failure: Failure) -> None:
        """A run ended with an error."""

    def tick(self) -> None:
        """About once a second in parallel work, so that a clock can move."""


def unfinished(jobs: Sequence[Job], store: Store, report: Report | None = None) -> list[Job]:
    """The jobs still to do, each once: those without a good file. Counts the others, and notes what is damaged."""
    report = report or Report()
    left = []
    for job in {job.key: job for job in jobs}.values():
        try:
            finished = store.load(job)
        except DamagedRunError as error:
            report.damaged.append(error)
            finished = None
        if finished is None:
            left.append(job)
        else:
            report.kept += 1
    return left


def run_all(jobs: Sequence[Job], task: Task, *, workers: int = 1, watcher: Watcher | None = None) -> Report:
    """Do every job that is not done yet. ``workers`` processes at a time; 1 works in this process.

    The result of a run must depend on its job alone, not on ``workers``: it is ``run_job`` that keeps to one thread.
    """
    report = Report()
    left = unfinished(jobs, task.store, report)
    task.store.sweep()
    if not left:
        return report
    watch = watcher or Watcher()
    watch.begin(left, workers)
    if workers == 1:
        _serial(left, task, report, watch)
    else:
        _parallel(left, task, min(workers, len(left)), report, watch)
    return report


def _note(job: Job, outcome: Callable[[], float], report: Report, watch: Watcher) -> None:
    """Count a run that ended, by asking for its outcome. A dead process is not an outcome: that error goes on."""
    try:
        seconds = outcome()
    except BrokenProcessPool:
        raise
    except Exception as error:
        first_line, *_ = str(error).splitlines() or [""]
        _fail(Failure(job, f"{type(error).__name__}: {first_line}"), report, watch)
    else:
        report.done += 1
        watch.finished(job, seconds)


def _fail(failure: Failure, report: Report, watch: Watcher) -> None:
    report.failures.append(failure)
    watch.failed(failure)


def _serial(jobs: Sequence[Job], task: Task, report: Report, watch: Watcher) -> None:
    for job in jobs:
        watch.started(job)
        _note(job, partial(task.do, job), report, watch)


def _parallel(jobs: Sequence[Job], task: Task, workers: int, report: Report, watch: Watcher) -> None:
    """All jobs over ``workers`` processes. When one dies, the runs in progress are suspects: each is tried again alone.

    A pool that has lost a process cannot say which of its runs killed it (out of memory, a crash in native code), and
    ends all of them. Alone, the guilty one shows itself and the others finish.
    """
    waiting = deque(jobs)
    suspects: list[Job] = []
    while waiting:
        suspects += _until_broken(waiting, task, workers, report, watch)
    for job in suspects:
        if _until_broken(deque([job]), task, 1, report, watch):
            died = "its process died: out of memory, killed, or a crash in native code"
            _fail(Failure(job, died), report, watch)


def _until_broken(waiting: deque[Job], task: Task, workers: int, report: Report, watch: Watcher) -> list[Job]:
    """Work ``waiting`` off. Gives [] when all are done, or the runs in progress when a process died under them."""
    running: dict[Future[float], Job] = {}
    with _pool(workers) as pool:
        while waiting or running:
            while waiting and len(running) < workers:  # no more than can run: what is handed out may be lost
                watch.started(waiting[0])
                try:
                    running[pool.submit(task.do, waiting[0])] = waiting[0]
                except BrokenProcessPool:
                    return [*running.values()]
                waiting.popleft()
            ended, _ = wait(running, timeout=_TICK, return_when=FIRST_COMPLETED)
            watch.tick()
            for future in sorted(ended, key=lambda f: isinstance(f.exception(), BrokenProcessPool)):
                try:
                    _note(running[future], future.result, report, watch)
                except BrokenProcessPool:
                    return [*running.values()]
                del running[future]
    return []


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes (spawned: forking after torch has made threads is unsafe) that cannot outlive this one.

    A lifeline, a pipe whose writing end only this process holds, closes when the block ends early or the process dies
    in whatever way; every worker watches it and goes at once. Without it, workers of a killed parent would finish
    their runs beside those of the next call and then wait for ever.
    """
    context = get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker, initargs=(reader,))
    try:
        yield pool
    except BaseException:
        writer.close()  # first: waiting for a run that takes minutes is not what Ctrl-C means
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        writer.close()
        reader.close()


def _begin_worker(lifeline: Connection) -> None:
    """Ctrl-C, which reaches the whole group, is the parent's to handle; a worker goes when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with, args=(lifeline,), daemon=True).start()


def _die_with(lifeline: Connection) -> None:
    try:
        lifeline.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)  # not sys.exit: this is not the main thread, and nothing here needs to be put in order
