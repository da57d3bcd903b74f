"""Private models on real tables: dpmac, DP-EBM, diffprivlib, Opacus, and models without privacy, side by side.

    python benchmarks/tables.py [--tables adult ...] [--epsilons 0.5 1 2 4 8] [--methods dpmac dp-ebm ...] [--fits 5]
                                [--out runs/tables] [--workers 1]

Needs the tables (`DPMAC_DATA` or --data: a folder that holds tables/NAME.csv.gz and tables/NAME.schema.json), pandas
and matplotlib, and interpret-core and opacus for these two; diffprivlib, DP-XGBoost (which needs a C++ compiler and
CMake) and smartnoise-synth get environments of their own (--peers-env), built on demand. What cannot be imported is
named and left out.

Every finished fit is one line of OUT/results.jsonl; a second start skips what is there. At the end OUT/tables.md and
one PNG for every table are written. A fit that failed is told, not written, and tried again by the next start.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import multiprocessing
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
for _name in THREADS:  # before numpy and torch are loaded, here and in every worker: timings of one thread each
    os.environ.setdefault(_name, "1")

from peers import data, methods, metrics, report  # noqa: E402
from peers.environments import Environments  # noqa: E402


class Job(NamedTuple):
    table: str
    epsilon: float | None  # None: a method without privacy
    method: str
    fit: int


def jobs(tables: Mapping[str, bool], epsilons: Sequence[float], wanted: Sequence[str], fits: int) -> list[Job]:
    """Fit by fit, so that an early stop leaves every cell with a few fits rather than some cells with all.

    `tables` says of each whether its target is a class: some methods have no regressor.
    """
    todo = []
    for fit in range(fits):
        for table, is_class in tables.items():
            for method in wanted:
                if method in methods.CLASSES_ONLY and not is_class:
                    continue
                if method in methods.PRIVATE:
                    todo += [Job(table, epsilon, method, fit) for epsilon in epsilons]
                elif fit == 0 or method not in methods.ONCE:
                    todo.append(Job(table, None, method, fit))
    return todo


def read(path: Path) -> list[dict[str, Any]]:
    """The finished fits; a line cut short by a crash counts as not finished, a fit written twice counts once."""
    found: dict[Job, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
            found.setdefault(Job(row["table"], row["epsilon"], row["method"], row["fit"]), row)
        except (ValueError, KeyError, TypeError):
            continue
    return list(found.values())


def append(path: Path, row: dict[str, Any]) -> None:
    """One whole line by one write under a lock; a line that a crash cut short is ended first."""
    text = (
        json.dumps(
            {key: None if value != value or value in (math.inf, -math.inf) else value for key, value in row.items()}
        )
        + "\n"
    )
    with path.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
            text = "\n" + text
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def measure(job: Job, folder: Path, env: Environments) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    if "torch" in sys.modules or job.method in ("dpmac", "dpmac-additive", "opacus"):
        import torch

        torch.set_num_threads(int(os.environ[THREADS[0]]))
    table = data.load(folder, job.table)
    predicted, seconds = methods.METHODS[job.method](table, job.epsilon or 0.0, job.fit, env)
    task = "classification" if table.is_class else "regression"
    return job._asdict() | {"task": task, **metrics.figures(table, predicted), "seconds": round(seconds, 3)}


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", help="all in the data folder unless told")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--methods", nargs="+", choices=list(methods.METHODS), default=list(methods.METHODS))
    parser.add_argument("--fits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/tables"))
    parser.add_argument("--workers", type=int, default=1, help="fits at a time, each in its own process")
    parser.add_argument("--data", type=Path, default=os.environ.get("DPMAC_DATA"), help="DPMAC_DATA unless told")
    parser.add_argument(
        "--peers-env",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="the folder of the peers' own environments, each built where there is none",
    )
    parser.add_argument(
        "--cap", type=float, default=3600.0, help="seconds after which a fit in such an environment is stopped"
    )
    chosen = parser.parse_args(given)
    if chosen.data is None or not data.names(chosen.data):
        parser.error("no tables: set DPMAC_DATA or --data to a folder that holds tables/NAME.schema.json")
    known = data.names(chosen.data)
    chosen.tables = chosen.tables or known
    if unknown := [name for name in chosen.tables if name not in known]:
        parser.error(f"no such tables: {', '.join(unknown)} (there are {', '.join(known)})")
    if chosen.fits < 1 or chosen.workers < 1 or min(chosen.epsilons) <= 0:
        parser.error("--fits and --workers must be at least 1, every epsilon above 0")
    return chosen


def environments(chosen: argparse.Namespace) -> Environments:
    return Environments(chosen.peers_env, chosen.cap)


def usable(wanted: Sequence[str], env: Environments) -> list[str]:
    kept = []
    for method in wanted:
        if why := methods.missing(method, env):
            print(f"{method} is left out. {why}", flush=True)
        else:
            kept.append(method)
    return kept


def line(row: dict[str, Any]) -> str:
    epsilon = "" if row["epsilon"] is None else f" epsilon {row['epsilon']:g}"
    return (
        f"{row['table']}{epsilon} {row['method']} fit {row['fit']}: score {row['score']:.4f}, "
        f"loss {row['loss']:.4g}, {row['seconds']:.1f} s"
    )


def work(todo: Sequence[Job], results: Path, chosen: argparse.Namespace) -> int:
    """Run the fits and write each as it ends; how many failed. An interrupt drops those that have not begun."""
    failed = 0
    pool = ProcessPoolExecutor(chosen.workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        running: dict[Future[dict[str, Any]], Job] = {
            pool.submit(measure, job, chosen.data, environments(chosen)): job for job in todo
        }
        for number, future in enumerate(as_completed(running), 1):
            try:
                row = future.result()
            except Exception as error:
                failed += 1
                print(f"failed: {running[future]}: {type(error).__name__}: {error}", flush=True)
                continue
            append(results, row)
            print(f"[{number}/{len(todo)}] {line(row)}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
    return failed


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments(given)
    chosen.out.mkdir(parents=True, exist_ok=True)
    results = chosen.out / "results.jsonl"
    done = {Job(row["table"], row["epsilon"], row["method"], row["fit"]) for row in read(results)}
    kinds = {name: data.is_class(chosen.data, name) for name in chosen.tables}
    asked = jobs(kinds, chosen.epsilons, chosen.methods, chosen.fits)
    wanted = [m for m in chosen.methods if any(j.method == m and j not in done for j in asked)]
    open_methods = usable(wanted, environments(chosen))
    todo = [job for job in asked if job not in done and job.method in open_methods]
    print(f"{len(todo)} fits to do, {len(set(asked) & done)} there already", flush=True)
    failed = work(todo, results, chosen) if todo else 0
    rows = read(results)
    for path in report.write(rows, data.names(chosen.data), list(methods.METHODS), chosen.out) if rows else ():
        print(path)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
