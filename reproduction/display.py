"""How a long batch of runs looks while it goes: a bar with the time left, or a line a run."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reproduction.runner import Failure, Watcher
from reproduction.store import Job, Store

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Display(Watcher):
    """On a terminal a bar with the time left, elsewhere a line a run; on standard error either way.

    The time left is reckoned from the mean seconds of runs of the same row and epsilon, in this batch or on disk, for
    they differ a hundredfold; a row never run counts as the mean of all others.
    """

    def __init__(self, store: Store, show: bool | None = None) -> None:
        self.store = store
        self.show = sys.stderr.isatty() if show is None else show
        self.seconds: dict[tuple[str, str, str, float], list[float]] = {}
        self.left: dict[str, Job] = {}
        self.since: dict[str, float] = {}
        self.workers, self.count, self.bad = 1, 0, 0
        self.bar: Progress | None = None
        self.line: TaskID | None = None

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def begin(self, jobs: Sequence[Job], workers: int) -> None:
        self.left, self.count, self.workers = {job.key: job for job in jobs}, len(jobs), min(workers, len(jobs))
        for run in self.store.all()[0]:
            if isinstance(seconds := run.result.get("seconds"), int | float):
                self.seconds.setdefault(_kind(run), []).append(seconds)
        if self.show:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            words = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self.bar = Progress(*words, TextColumn("{task.fields[note]}"), console=Console(stderr=True))
            self.line = self.bar.add_task("runs", total=self.count, note=self._note())
            self.bar.start()

    def started(self, job: Job) -> None:
        self.since[job.key] = time.monotonic()

    def finished(self, job: Job, seconds: float) -> None:
        self.seconds.setdefault(_kind(job), []).append(seconds)
        self._ended(job, f"{job.key}: {seconds:.1f} s")

    def failed(self, failure: Failure) -> None:
        self.bad += 1
        self._ended(failure.job, f"{failure.job.key}: FAILED: {failure.error}")

    def tick(self) -> None:
        if self.bar is not None and self.line is not None:
            self.bar.update(self.line, completed=self.count - len(self.left), note=self._note())

    def _ended(self, job: Job, words: str) -> None:
        self.left.pop(job.key, None)
        if self.bar is None:
            sys.stderr.write(f"[{self.count - len(self.left)}/{self.count}] {words} ({self._note()})\n")
        self.tick()

    def _note(self) -> str:
        left = self.time_left()
        words = "time left unknown" if left is None else f"about {spoken(left)} left"
        return f"{words}, {self.bad} failed" if self.bad else words

    def time_left(self) -> float | None:
        """Seconds; None before anything is known."""
        if not self.seconds:
            return None
        means = {kind: sum(values) / len(values) for kind, values in self.seconds.items()}
        typical = sum(means.values()) / len(means)
        now = time.monotonic()
        spent = {key: now - since for key, since in self.since.items()}
        rest = [max(0.0, means.get(_kind(j), typical) - spent.get(k, 0.0)) for k, j in self.left.items()]
        return max(sum(rest) / self.workers, max(rest, default=0.0))  # never less than the longest run that is left


def _kind(job: Any) -> tuple[str, str, str, float]:
    return (job.table, job.row, job.preset, job.epsilon)


def spoken(seconds: float) -> str:
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min" if seconds > 90 else f"{math.ceil(seconds)} s"
