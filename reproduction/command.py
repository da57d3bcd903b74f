"""``python -m reproduction``: the paper's tables and figures, run again. Stops and goes on run by run."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from dpmac.checks import ArgumentError, integer
from dpmac.cli.text import flowing
from reproduction.display import Display
from reproduction.runner import Report, Task, run_all, unfinished
from reproduction.store import DamagedRunError, Finished, Job, Store, provenance, write_atomically

TABLES = ("mnist", "usps")
WHAT = (*TABLES, "all", "figures", "compare")
PRESETS = ("paper", "tight", "both")
PROGRAM = "python -m reproduction"

app = typer.Typer(rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False)


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> None:
    """Entry point: bad arguments end with one clear line and exit code 2, never a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(args=given, prog_name=program, obj=given)
    except ArgumentError as error:
        _say(str(error))
        sys.exit(2)


def reproduce(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help="mnist, usps, all, figures or compare.", metavar="WHAT")] = "all",
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
    [bold]compare[/bold] holds their means against the committed ones, and ends with code 1 if any is off by more than
    one standard deviation. All runs are seeded: research, not releases.

    [bold]Examples[/bold]

      python -m reproduction mnist --runs 3 --epsilon 2

      python -m reproduction all --preset both --out results --workers 8

      python -m reproduction compare --out results
    """
    _check(what, runs, preset, epsilon, workers)
    store = Store(out)
    if what == "compare":
        _compare(store)
        return
    catalogue, report, path = _catalogue(), Report(), None if data is None else str(data)
    jobs = [] if what == "figures" else _jobs(catalogue, what, preset, runs, epsilon)
    _check_machine(device)
    _check_data(unfinished(jobs, store), path, download)
    _check_folder(out)
    if jobs:
        _tell_outdated(jobs, store, catalogue)
        made_with = provenance(shlex.join([*PROGRAM.split(), *(context.obj or ())]), device)
        report = _run(jobs, Task(catalogue.run_job, store, path, device, made_with), workers or _cores(device))
    _write(store, report)
    if report.failures:
        for failure in report.failures:
            _say(f"failed: {failure.job.key}: {failure.error}")
        _say(f"{len(report.failures)} failed; tracebacks in {store.runs}; the same command retries")
        raise typer.Exit(1)


app.command(help=flowing(reproduce.__doc__))(reproduce)


def _say(words: str) -> None:
    sys.stderr.write(f"reproduction: {words}\n")


def _catalogue() -> ModuleType:
    """The jobs; imports torch."""
    from importlib import import_module

    return import_module("reproduction.jobs")


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
    """What was asked for, each once."""
    tables = TABLES if what == "all" else (what,)
    presets = ("paper", "tight") if preset == "both" else (preset,)
    wanted = [job for t in tables for p in presets for job in catalogue.table_jobs(t, p, runs, epsilons or None)]
    known = {job.epsilon for job in wanted}
    for epsilon in epsilons or ():
        if epsilon not in known:
            raise ArgumentError("--epsilon", epsilon, f"no row of {' or '.join(tables)} has it; leave it out for all")
    return wanted


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
    from reproduction.recipe import agrees

    kept = {job.key: _kept(store, job) for job in jobs}
    old = [
        job.key
        for job in jobs
        if (run := kept[job.key]) is not None and not agrees(run.result.get("recipe") or {}, catalogue.recipe_of(job))
    ]
    if old:
        _say(
            f"{len(old)} finished runs in {store.runs} are of other settings than this version's, and are kept: "
            f"{old[0]}{' and others' if len(old) > 1 else ''}; move them away to have them done again"
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
            _say(str(error))
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
        _say(f"interrupted; finished runs are kept in {task.store.runs}, and the same command goes on from there")
        raise typer.Exit(130) from None
    for damage in report.damaged:
        _say(f"was damaged, and done again: {damage}")
    return report


def _runs_in(store: Store) -> list[Finished]:
    """The runs of the folder that can stand in a table; says what is left out."""
    from reproduction.rows import NEEDED

    found, damaged = store.all()
    finished = [run for run in found if set(run.result) >= NEEDED]
    for damage in damaged:
        _say(f"left out, damaged: {damage}")
    if len(finished) < len(found):
        _say(f"left out, no run of these tables: {len(found) - len(finished)} files")
    return finished


def _write(store: Store, report: Report) -> None:
    """``tables.md``, ``results.json`` and the figures, of every run in the folder, asked for now or before.

    A folder without a single run file, but with a ``results.json``, such as the one in git, gives what that one says.
    """
    from reproduction.drawing import draw_all
    from reproduction.rows import table_rows
    from reproduction.settings import METRIC, PUBLISHED
    from reproduction.slim import as_text, read_results, slim_results
    from reproduction.tables import markdown

    finished, results = _runs_in(store), store.folder / "results.json"
    rows = table_rows(finished)
    if not rows and results.is_file() and not any(store.runs.glob("*.json")):
        rows = read_results(results)
    else:
        failures = [{"run": failure.job.key, "error": failure.error} for failure in report.failures]
        write_atomically(results, as_text(slim_results(rows, finished, PUBLISHED, failures)))
    text = markdown(rows, PUBLISHED, METRIC)
    write_atomically(store.folder / "tables.md", text)
    drawn = draw_all(rows, METRIC, store.folder)
    typer.echo(text)
    typer.echo(f"Folder: {store.folder}")
    typer.echo(f"  results.json  tables.md  {'  '.join(path.name for path in drawn)}")


def _compare(store: Store) -> None:
    from reproduction.comparison import compare, comparison_text
    from reproduction.rows import table_rows
    from reproduction.slim import read_results

    rows = table_rows(_runs_in(store))
    if not rows:
        raise ArgumentError("--out", str(store.folder), "give a folder with finished runs in its folder runs")
    comparisons = compare(rows, read_results())
    typer.echo(comparison_text(comparisons))
    if any(comparison.is_off for comparison in comparisons):
        raise typer.Exit(1)
