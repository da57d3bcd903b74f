"""``dpmac reproduce``: the paper's tables and figures, run again. Stops and goes on run by run."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError, integer
from dpmac.experiments.runner import Failure, Report, Task, Watcher, run_all, unfinished
from dpmac.experiments.store import JobLike, Store, provenance, write_atomically

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

TABLES = ("mnist", "usps")
WHAT = (*TABLES, "figures", "all")
PRESETS = ("paper", "tight", "both")


def reproduce(
    what: Annotated[str, typer.Argument(help="mnist, usps, figures or all.", metavar="WHAT")] = "all",
    runs: Annotated[int, typer.Option(help="Runs of each row, with seeds 0, 1, 2 ...")] = 10,
    preset: Annotated[str, typer.Option(help="paper: its settings. tight: tuned, noise by today's accounting.")] = (
        "paper"
    ),
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Only rows of this stated epsilon; inf for no privacy. Repeatable.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and runs.")] = Path("runs/reproduce"),
    workers: Annotated[
        int | None, typer.Option(help="Runs at a time, one core each.", show_default="all cores; 1 on a GPU")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the datasets, instead of where dpmac data finds them.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, or a device of torch such as cuda.")] = "cpu",
) -> None:
    """Run the paper's experiments again: its tables and figures, with the epsilon that was truly spent.

    Every finished run is kept in OUT/runs and never done twice: stop with Ctrl-C whenever you like, and give the same
    command to go on. [bold]figures[/bold] trains nothing, and writes tables and figures from the runs that are there.
    Choose [bold]--preset[/bold] paper, tight or both. All runs are seeded: research, not releases.

    [bold]Examples[/bold]

      dpmac reproduce mnist --runs 3 --epsilon 2

      dpmac reproduce all --preset both --out results --workers 8
    """
    _check(what, runs, preset, epsilon, workers)
    store, catalogue = Store(out), _catalogue()
    made_with = provenance(shlex.join(["dpmac", *sys.argv[1:]]), device)
    report = Report()
    if what != "figures":
        jobs = _jobs(catalogue, what, preset, runs, epsilon)
        path = None if data is None else str(data)
        _check_machine(device)
        _check_data(unfinished(jobs, store), path)
        task = Task(catalogue.run_job, store, path, device, made_with)
        report = _run(jobs, task, workers or _cores(device))
    _write(store, catalogue, made_with, report)
    if report.failures:
        for failure in report.failures:
            sys.stderr.write(f"dpmac: failed: {failure.job.key}: {failure.error}\n")
        sys.stderr.write(
            f"dpmac: {len(report.failures)} failed; tracebacks in {store.runs}; the same command retries\n"
        )
        raise typer.Exit(1)


def _catalogue() -> ModuleType:
    """The jobs and the paper's figures; imports torch."""
    from importlib import import_module

    return import_module("dpmac.experiments.jobs")


def _check(what: str, runs: int, preset: str, epsilons: Sequence[float] | None, workers: int | None) -> None:
    if what not in WHAT:
        raise ArgumentError("what", what, f"choose one of {', '.join(WHAT)}")
    if preset not in PRESETS:
        raise ArgumentError("--preset", preset, f"choose one of {', '.join(PRESETS)}")
    integer("--runs", runs, "give a whole number, at least 1")
    if workers is not None:
        integer("--workers", workers, "give a whole number, at least 1")
    for epsilon in epsilons or ():
        if not epsilon > 0:  # NaN is refused too
            raise ArgumentError("--epsilon", epsilon, "give a number above 0, or inf for no privacy")


def _jobs(catalogue: Any, what: str, preset: str, runs: int, epsilons: Sequence[float] | None) -> list[JobLike]:
    """What was asked for, each once: a row that does not depend on the preset comes with both."""
    tables = TABLES if what == "all" else (what,)
    presets = ("paper", "tight") if preset == "both" else (preset,)
    found = {job.key: job for t in tables for p in presets for job in catalogue.jobs(t, p, runs, epsilons or None)}
    if not found:
        raise ArgumentError("--epsilon", epsilons, f"no row of {' or '.join(tables)} has it; leave it out for all")
    return list(found.values())


def _check_machine(device: str) -> None:
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # AssertionError: a torch built without CUDA
        raise ArgumentError("--device", device, str(error).splitlines()[0]) from None


def _check_data(jobs: Sequence[JobLike], path: str | None) -> None:
    """A dataset that is not there is said once, before hours of runs, not by each of them."""
    import dpmac.data

    for table in dict.fromkeys(job.table for job in jobs):
        try:
            dpmac.data.load(table, path)
        except dpmac.data.DataError as error:
            sys.stderr.write(f"dpmac: {error}\n")
            raise typer.Exit(2) from None


def _cores(device: str) -> int:
    if device != "cpu":
        return 1
    affinity = getattr(os, "sched_getaffinity", None)  # on Linux: knows of cores that are kept from this process
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _run(jobs: Sequence[JobLike], task: Task, workers: int) -> Report:
    try:
        with Display(task.store) as display:
            report = run_all(jobs, task, workers=workers, watcher=display)
    except KeyboardInterrupt:
        sys.stderr.write(f"dpmac: finished runs are kept in {task.store.runs}; the same command goes on from there\n")
        raise
    for damage in report.damaged:
        sys.stderr.write(f"dpmac: was damaged, and done again: {damage}\n")
    return report


def _write(store: Store, catalogue: Any, made_with: dict[str, str], report: Report) -> None:
    """``tables.md``, ``results.json`` and the figures, of every run in the folder, asked for now or before."""
    from dpmac.experiments import figures, tables

    finished, damaged = store.all()
    for damage in damaged:
        sys.stderr.write(f"dpmac: left out, damaged: {damage}\n")
    if not finished and not report.failures:
        raise ArgumentError("--out", str(store.folder), "it holds no finished run; dpmac reproduce all makes them")
    text = tables.markdown(finished, catalogue.PUBLISHED, catalogue.METRIC)
    results = tables.figures(finished, catalogue.PUBLISHED, catalogue.METRIC, made_with)
    results["failures"] = [{"run": failure.job.key, "error": failure.error} for failure in report.failures]
    write_atomically(store.folder / "results.json", json.dumps(results, indent=1, allow_nan=False) + "\n")
    write_atomically(store.folder / "tables.md", text)
    drawn = figures.draw_all(finished, catalogue.METRIC, store.folder)
    typer.echo(text)
    typer.echo(f"Folder: {store.folder}")
    typer.echo(f"  results.json  tables.md  {'  '.join(path.name for path in drawn)}")


class Display(Watcher):
    """On a terminal a bar with the time left, elsewhere a line a run; on standard error either way.

    The time left is reckoned from the mean seconds of runs of the same row and epsilon, in this batch or on disk, for
    they differ a hundredfold; a row never run counts as the mean of all others.
    """

    def __init__(self, store: Store, show: bool | None = None) -> None:
        self.store = store
        self.show = sys.stderr.isatty() if show is None else show
        self.seconds: dict[tuple[str, str, str, float], list[float]] = {}
        self.left: dict[str, JobLike] = {}
        self.since: dict[str, float] = {}
        self.workers, self.count, self.bad = 1, 0, 0
        self.bar: Progress | None = None
        self.line: TaskID | None = None

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def begin(self, jobs: Sequence[JobLike], workers: int) -> None:
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

    def started(self, job: JobLike) -> None:
        self.since[job.key] = time.monotonic()

    def finished(self, job: JobLike, seconds: float) -> None:
        self.seconds.setdefault(_kind(job), []).append(seconds)
        self._ended(job, f"{job.key}: {seconds:.1f} s")

    def failed(self, failure: Failure) -> None:
        self.bad += 1
        self._ended(failure.job, f"{failure.job.key}: FAILED: {failure.error}")

    def tick(self) -> None:
        if self.bar is not None and self.line is not None:
            self.bar.update(self.line, completed=self.count - len(self.left), note=self._note())

    def _ended(self, job: JobLike, words: str) -> None:
        self.left.pop(job.key, None)
        if self.bar is None:
            sys.stderr.write(f"[{self.count - len(self.left)}/{self.count}] {words} ({self._note()})\n")
        self.tick()

    def _note(self) -> str:
        left = self.time_left()
        words = "time left unknown" if left is None else f"about {_spoken(left)} left"
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


def _spoken(seconds: float) -> str:
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min" if seconds > 90 else f"{math.ceil(seconds)} s"
