"""``dpmac reproduce``: the paper's tables and figures, run again. Stops and goes on run by run."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from dpmac.checks import ArgumentError, integer
from dpmac.cli.display import Display
from dpmac.experiments.runner import Report, Task, run_all, unfinished
from dpmac.experiments.store import DamagedRunError, Finished, Job, Store, provenance, write_atomically

TABLES = ("mnist", "usps")
WHAT = (*TABLES, "figures", "all")
PRESETS = ("paper", "tight", "both")


def reproduce(
    what: Annotated[str, typer.Argument(help="mnist, usps, figures or all.", metavar="WHAT")] = "all",
    runs: Annotated[int, typer.Option(help="Runs of each row, with seeds 0, 1, 2 ...")] = 10,
    preset: Annotated[
        str, typer.Option(help="paper: its settings. tight: tuned, noise by today's accounting. Or both.")
    ] = "paper",
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
    download: Annotated[bool, typer.Option("--download", help="Fetch datasets that are not on this machine.")] = False,
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
    report, path = Report(), None if data is None else str(data)
    jobs = [] if what == "figures" else _jobs(catalogue, what, preset, runs, epsilon)
    _check_machine(device)
    _check_data(unfinished(jobs, store), path, download)
    _check_folder(out)
    if jobs:
        _tell_outdated(jobs, store, catalogue)
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


def _jobs(catalogue: Any, what: str, preset: str, runs: int, epsilons: Sequence[float] | None) -> list[Job]:
    """What was asked for, each once: a row that does not depend on the preset comes with both."""
    tables = TABLES if what == "all" else (what,)
    presets = ("paper", "tight") if preset == "both" else (preset,)
    found = {job.key: job for t in tables for p in presets for job in catalogue.jobs(t, p, runs, epsilons or None)}
    known = {job.epsilon for job in found.values()}
    for epsilon in epsilons or ():
        if epsilon not in known:
            raise ArgumentError("--epsilon", epsilon, f"no row of {' or '.join(tables)} has it; leave it out for all")
    return list(found.values())


def _check_folder(out: Path) -> None:
    """A folder that cannot be written to is said before hours of runs, not after each of them."""
    try:
        write_atomically(out / ".writable", "")
        (out / ".writable").unlink()
    except OSError as error:
        fix = f"give a folder that can be written to ({error.strerror or error})"
        raise ArgumentError("--out", str(out), fix) from None


def _tell_outdated(jobs: Sequence[Job], store: Store, catalogue: Any) -> None:
    """Runs are kept whatever made them; those of other settings than today's are named, and stay in the tables."""
    old = []
    for job in jobs:
        run = _kept(store, job)
        if run is not None and run.result.get("recipe") != json.loads(json.dumps(asdict(catalogue.recipe_of(job)))):
            old.append(job.key)
    if old:
        sys.stderr.write(
            f"dpmac: {len(old)} finished runs in {store.runs} are of other settings than this version's, and are kept: "
            f"{old[0]}{' and others' if len(old) > 1 else ''}; move them away to have them done again\n"
        )


def _kept(store: Store, job: Job) -> Finished | None:
    try:
        return store.load(job)
    except DamagedRunError:
        return None  # it will be done again


def _check_machine(device: str) -> None:
    import torch

    try:
        torch.zeros(1, device=device).cpu()  # back again: "meta" takes numbers and gives none
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # AssertionError: a torch without CUDA
        raise ArgumentError("--device", device, str(error).splitlines()[0]) from None


def _check_data(jobs: Sequence[Job], path: str | None, download: bool) -> None:
    """A dataset that is not there is said once, before hours of runs, not by each of them."""
    import dpmac.data

    for table in dict.fromkeys(job.table for job in jobs):
        try:
            dpmac.data.load(table, path, download=download)
        except dpmac.data.DataError as error:
            sys.stderr.write(f"dpmac: {error}\n")
            raise typer.Exit(2) from None


def _cores(device: str) -> int:
    if device != "cpu":
        return 1
    affinity = getattr(os, "sched_getaffinity", None)  # on Linux: knows of cores that are kept from this process
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _run(jobs: Sequence[Job], task: Task, workers: int) -> Report:
    try:
        with Display(task.store) as display:
            report = run_all(jobs, task, workers=workers, watcher=display)
    except KeyboardInterrupt:
        if task.store.all()[0]:
            sys.stderr.write(
                f"dpmac: finished runs are kept in {task.store.runs}; the same command goes on from there\n"
            )
        raise
    for damage in report.damaged:
        sys.stderr.write(f"dpmac: was damaged, and done again: {damage}\n")
    return report


def _write(store: Store, catalogue: Any, made_with: dict[str, str], report: Report) -> None:
    """``tables.md``, ``results.json`` and the figures, of every run in the folder, asked for now or before."""
    from dpmac.experiments import figures, tables

    found, damaged = store.all()
    finished = [run for run in found if set(run.result) >= tables.NEEDED]
    for damage in damaged:
        sys.stderr.write(f"dpmac: left out, damaged: {damage}\n")
    if len(finished) < len(found):
        sys.stderr.write(f"dpmac: left out, no run of these tables: {len(found) - len(finished)} files\n")
    text = tables.markdown(finished, catalogue.PUBLISHED, catalogue.METRIC)
    results = tables.figures(finished, catalogue.PUBLISHED, catalogue.METRIC, made_with)
    results["failures"] = [{"run": failure.job.key, "error": failure.error} for failure in report.failures]
    write_atomically(store.folder / "results.json", json.dumps(results, indent=1, allow_nan=False) + "\n")
    write_atomically(store.folder / "tables.md", text)
    drawn = figures.draw_all(finished, catalogue.METRIC, store.folder)
    typer.echo(text)
    typer.echo(f"Folder: {store.folder}")
    typer.echo(f"  results.json  tables.md  {'  '.join(path.name for path in drawn)}")
