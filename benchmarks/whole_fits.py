"""Seconds and scores of whole fits at one budget: the adult table and MNIST, dpmac beside Opacus and DP-EBM.

    python benchmarks/whole_fits.py [--sets adult mnist] [--methods dpmac opacus ...] [--epsilon 2] [--fits 3]
                                    [--threads 1] [--cap 600] [--out runs/whole_fits] [--json FILE]

A fit is all that a user waits for between rows and model, the noise's calibration included; loading and encoding for
the peers, imports and predictions are not in it. Every fit has a process of its own with --threads threads. Seconds on
the wall are what one waits on a quiet machine; seconds of the processor are also good on a busy one. Both are given.

Needs adult's table and MNIST (`DPMAC_DATA` or --data: a folder with tables/ and mnist/), opacus and interpret-core.
What is missing is named and left out. Every finished fit is a line of OUT/results.jsonl; a second start skips what is
there. One that ran past --cap seconds of the processor is a line, too, and tried again with a larger cap; one that
failed is told and tried again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers import data, digits, fresh, methods, metrics
from peers.environments import Environments

from tables import append

SETS = {"adult": ("dpmac", "opacus", "dp-ebm"), "mnist": tuple(digits.METHODS)}
DELTAS = {"adult": data.DELTA, "mnist": digits.DELTA}
NONE = Environments(Path(), 0.0)  # no method here needs an environment of its own
FIGURES = ("score", "loss", "seconds", "cpu_seconds")
Row = dict[str, Any]


def measured(task: str, method: str, epsilon: float, fit: int, threads: int, folder: str | None) -> Row:
    """One fit, in a child."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    name = method.split("-recipe")[0]
    if why := methods.missing(name, NONE):
        return {"missing": why}
    warm = torch.nn.Linear(2, 2)  # the first optimiser of a process imports half of torch
    torch.optim.Adam(warm.parameters()).zero_grad()
    if task == "adult":
        if folder is None or "adult" not in data.names(Path(folder)):
            return {"missing": "no adult table: set DPMAC_DATA or --data"}
        table, facts = data.load(Path(folder), "adult"), dict[str, Any]()
        predicted, seconds = methods.METHODS[method](table, epsilon, fit, NONE)
        figures = metrics.figures(table, predicted)
    else:
        from dpmac.data import DataError, load

        try:
            images = load("mnist", folder)
        except DataError as error:
            return {"missing": str(error).splitlines()[0]}
        predicted, seconds, facts = digits.METHODS[method](images, epsilon, fit)
        figures = metrics.of_digits(images.y_test.numpy(), predicted)
    cpu = getattr(seconds, "cpu", float("nan"))
    return facts | figures | {"seconds": round(float(seconds), 3), "cpu_seconds": round(cpu, 3)}


def key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("task", "method", "epsilon", "fit", "threads"))


def read(path: Path) -> list[Row]:
    """The fits that are there, one that finished before one that did not; a line cut short by a crash is none."""
    found: dict[tuple[Any, ...], Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
            if "score" in row or key(row) not in found:
                found[key(row)] = row
        except (ValueError, KeyError, TypeError):
            continue
    return list(found.values())


def slim(rows: Sequence[Row]) -> list[Row]:
    """Mean and deviation of every method on every set, for a small file; a method that never finished says why."""
    cells = []
    for name in dict.fromkeys((row["task"], row["method"], row["epsilon"], row["threads"]) for row in rows):
        same = [row for row in rows if (row["task"], row["method"], row["epsilon"], row["threads"]) == name]
        good = [row for row in same if "score" in row]
        cell: Row = dict(zip(("task", "method", "epsilon", "threads"), name, strict=True))
        cell |= {"delta": DELTAS[name[0]], "fits": len(good), "machine": same[0]["machine"]}
        cell["command"] = (good or same)[0]["command"]
        if not good:
            cell |= {"failed": same[0]["failed"], "told": same[0].get("told", [])}
        else:
            cell |= {what: good[0][what] for what in ("network", "batch", "steps", "said") if what in good[0]}
        for what in FIGURES if good else ():
            values = [row[what] for row in good]
            cell[what] = [float(f"{n:.5g}") for n in (statistics.fmean(values), statistics.pstdev(values))]
        cells.append(cell)
    return cells


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=list(digits.METHODS), default=list(digits.METHODS))
    parser.add_argument("--epsilon", type=float, default=2.0, help="(default 2; dpmac-recipe has 0.5, 2 and 8 only)")
    parser.add_argument("--fits", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of every method (default 1)")
    parser.add_argument("--cap", type=float, default=600.0, help="seconds of a processor a fit may take, with loading")
    parser.add_argument("--data", default=os.environ.get("DPMAC_DATA"), help="DPMAC_DATA unless told")
    parser.add_argument("--out", type=Path, default=Path("runs/whole_fits"))
    parser.add_argument("--json", type=Path, help="write means and deviations there, too")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments(given)
    chosen.out.mkdir(parents=True, exist_ok=True)
    results, failed = chosen.out / "results.jsonl", 0
    there = read(results)
    done = {key(row) for row in there if "score" in row}
    slow = [row for row in there if "failed" in row and row["cap"] >= chosen.cap and row["threads"] == chosen.threads]
    left_out = {(row["task"], row["method"]) for row in slow}  # a second fit would not be quicker
    asked = [(s, m, fit) for fit in range(chosen.fits) for s in chosen.sets for m in SETS[s] if m in chosen.methods]
    for where, method, fit in asked:
        job = {"task": where, "method": method, "epsilon": chosen.epsilon, "fit": fit, "threads": chosen.threads}
        if key(job) in done or (where, method) in left_out:
            continue
        answer = fresh.answer(__file__, job | {"folder": chosen.data}, chosen.threads, chosen.cap)
        if "missing" in answer:
            left_out.add((where, method))
            print(f"{where} {method} is left out. {answer['missing']}", flush=True)
        elif "failed" in answer and not answer["failed"].startswith("not finished"):
            failed += 1
            print(f"{where} {method} failed: {answer['failed']}", flush=True)
        else:
            about = {"delta": DELTAS[where], "seed": fit, "machine": fresh.machine(), "cap": chosen.cap}
            append(results, job | about | answer | {"command": " ".join(["python", *sys.argv])})
            figures = ", ".join(f"{what} {answer[what]:.4g}" for what in FIGURES if what in answer)
            print(f"{where} {method} fit {fit}: {figures or answer['failed']}", flush=True)
            if "failed" in answer:
                left_out.add((where, method))
    if chosen.json and (rows := read(results)):
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join("  " + json.dumps(cell) for cell in slim(rows))
        chosen.json.write_text(f'{{\n "fits": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    if (question := fresh.asked_of_child()) is not None:
        print(json.dumps(measured(**question)))
    else:
        sys.exit(main())
