"""The search for defaults, on one GPU: a grid over every table of a bundle, and finer grids around what was good.

    python gpu.py DATA OUT [--minutes 8] [--workers 6] [--known OUT_BEFORE ...] [--tables NAME ...] [--stages 1 2 3]
        [--device cuda] [--plan plan.json]

DATA is what bundle.py wrote. Every group of trainings is one line of OUT/results-WORKER.jsonl as soon as it is done; a
second start with --known leaves out what is there. It ends by itself after --minutes. Needs numpy and torch only.
``--plan`` gives other jobs than STAGES: a list of [stage, table, bins, power, keep, kind, times, steps, [lr], [clip]].
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from gpu_inputs import Data, inputs, load, moments
from gpu_models import Each, Group, scores, train

EPSILONS = ("0.5", "2", "8")
KINDS: dict[str, tuple[tuple[int, ...], bool]] = {
    **{"linear": ((), False), "wide32": ((32,), True), "wide64": ((64,), True), "wide16": ((16,), True)},
    **{"32": ((32,), False), "64": ((64,), False), "128": ((128,), False), "256": ((256,), False)},
    **{"64-64": ((64, 64), False), "128-64": ((128, 64), False), "128-128": ((128, 128), False)},
}
RATES = {True: (0.005, 0.012, 0.028), False: (0.003, 0.008, 0.02)}  # for 500 steps: classes, numbers
CLIPS = {True: (1.0, 3.0, 9.0), False: (0.05, 0.25, 1.25)}
WIDEST = 2_200  # inputs
MANY = 100_000  # rows from which one seed does
USUAL = (1.0, 500)
# stage -> (bins, power, directions kept), the kinds, and (times the usual batch, steps)
STAGES: dict[int, list[tuple[list[tuple[int, float, int | None]], list[str], list[tuple[float, int]]]]] = {
    1: [
        ([(12, 0.0, None), (24, 0.25, None), (24, 0.5, None), (96, 0.5, None)], ["linear", "64"], [USUAL]),
        ([(24, 0.25, None), (96, 0.5, None)], ["wide32"], [USUAL]),
    ],
    2: [
        ([(12, 0.25, None), (48, 0.25, None), (48, 0.5, None), (160, 0.5, None)], ["linear", "64"], [USUAL]),
        ([(12, 0.0, None), (48, 0.25, None), (160, 0.5, None)], ["wide32"], [USUAL]),
        ([(12, 0.0, None), (12, 0.25, None), (24, 0.25, None), (24, 0.5, None)], ["64-64"], [USUAL]),
        ([(24, 0.5, None), (96, 0.5, None)], ["256"], [USUAL]),
        ([(48, 0.0, None), (12, 0.5, None), (96, 0.25, None)], ["linear"], [USUAL]),
        ([(96, 0.5, 256)], ["linear", "64"], [USUAL]),
    ],
    3: [
        (
            [(12, 0.0, None), (48, 0.5, None)],
            ["linear", "64"],
            [(1.0, 100), (1.0, 200), (1.0, 1000), (0.5, 200), (0.5, 500), (2.0, 100), (2.0, 200)],
        ),
        ([(24, 0.25, None)], ["64-64", "wide32"], [(1.0, 200), (1.0, 1000), (0.5, 200), (2.0, 200)]),
    ],
}
Task = dict[str, Any]


def tasks(options: argparse.Namespace, about: dict[str, dict[str, Any]]) -> list[list[Task]]:
    """Jobs in order: groups of one table and one number of bins, so that inputs are made once."""
    if options.plan is not None:
        names = ("stage", "table", "bins", "power", "keep", "kind", "times", "steps", "lr", "clip")
        planned = [dict(zip(names, row, strict=True)) for row in json.loads(options.plan.read_text(encoding="utf-8"))]
    else:
        planned = [task for stage in options.stages for task in _grid(stage, about)]
    jobs: dict[Any, list[Task]] = {}
    for task in planned:
        if task["table"] in about and _width(about[task["table"]], task["bins"]) <= WIDEST:
            jobs.setdefault((task["stage"], task["table"], task["bins"]), []).append(task)
    order = {name: place for place, name in enumerate(sorted(about, key=lambda name: -about[name]["rows"]))}
    return [jobs[key] for key in sorted(jobs, key=lambda key: (key[0], order[key[1]], key[2]))]


def _grid(stage: int, about: dict[str, dict[str, Any]]) -> Iterator[Task]:
    for maps, kinds, schedules in STAGES[stage]:
        for name, (bins, power, keep), kind, (times, steps) in itertools.product(about, maps, kinds, schedules):
            classes, longer = about[name]["classes"], math.sqrt(500 / steps)
            yield {
                **{"stage": stage, "table": name, "bins": bins, "power": power, "keep": keep, "kind": kind},
                **{"times": times, "steps": steps, "lr": [rate * longer for rate in RATES[classes]]},
                "clip": list(CLIPS[classes]),
            }


def _width(about: dict[str, Any], bins: int) -> int:
    wide = 0
    for column in about["columns"]:
        wide += column["missing"]
        wide += (1 + bins) * (1 + column["wide"]) if "low" in column else column["values"] + 1
    return wide


def key_of(task: Task) -> str:
    names = ("table", "bins", "power", "keep", "kind", "times", "steps")
    return json.dumps(
        [*(task[name] for name in names), *([float(f"{v:.3g}") for v in task[n]] for n in ("lr", "clip"))]
    )


def known(folders: Sequence[Path]) -> set[str]:
    found = set()
    for path in itertools.chain.from_iterable(sorted(folder.glob("*.jsonl")) for folder in folders):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
                if row["models"]:
                    found.add(key_of(row))
            except (ValueError, KeyError, TypeError):
                continue
    return found


def done(data: Data, x: torch.Tensor, task: Task, seeds: int, device: str) -> Task:
    """One group, trained and scored."""
    classes = data.about["classes"]
    cut = next(s for s in data.about["schedules"] if s["times"] == task["times"] and s["steps"] == task["steps"])
    settings = list(itertools.product(EPSILONS, task["lr"], task["clip"], range(seeds)))
    hidden, wide = KINDS[task["kind"]]

    def column(values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device)

    each = Each(
        column([s[1] for s in settings]),
        column([s[2] for s in settings]),
        column([cut["noise"][s[0]] for s in settings]),
    )
    group = Group(hidden, wide, cut["rate"], cut["steps"], classes)
    start = time.perf_counter()
    models = train(x[data.fit], data.y[data.fit], group, each, seed=task["bins"])
    found = scores(models, x[data.held], data.y[data.held]).tolist()
    seconds = time.perf_counter() - start
    rows = [[float(e), *rest, round(score, 5)] for (e, *rest), score in zip(settings, found, strict=True)]
    return {**task, "rate": cut["rate"], "width": x.shape[1] - 1, "seconds": round(seconds, 3), "models": rows}


def work(worker: int, queue: Any, options: argparse.Namespace, deadline: float, have: set[str]) -> None:
    torch.set_num_threads(2)
    out = options.out / f"results-{worker}.jsonl"
    data: Data | None = None
    while time.time() < deadline:
        job = queue.get()
        if job is None:
            return
        job = [task for task in job if key_of(task) not in have]
        try:
            if not job:
                continue
            if data is None or data.about["name"] != job[0]["table"]:
                data = load(options.data, job[0]["table"], options.device)
            _job(job, data, out, options, deadline)
        except Exception:
            with (options.out / "errors.txt").open("a", encoding="utf-8") as file:
                file.write(f"{job[0] if job else job}\n{traceback.format_exc()}\n")
            data = None
            if options.device == "cuda":
                torch.cuda.empty_cache()


def _job(job: list[Task], data: Data, out: Path, options: argparse.Namespace, deadline: float) -> None:
    """Groups of one table and number of bins; each is a line as soon as it is done."""
    seeds = options.seeds or (1 if data.about["rows"] >= MANY else 2)
    of = moments(data.drawn, data.about["columns"], job[0]["bins"]) if any(t["power"] for t in job) else None
    last, x = None, None
    torch.backends.cuda.matmul.allow_tf32 = False
    for task in sorted(job, key=lambda task: (task["power"], task["keep"] or 0)):
        if time.time() > deadline:
            return
        if (task["power"], task["keep"]) != last:
            x = None
            torch.backends.cuda.matmul.allow_tf32 = False
            x = inputs(data, task["bins"], task["power"], task["keep"], of)
            last = (task["power"], task["keep"])
        assert x is not None
        torch.backends.cuda.matmul.allow_tf32 = True
        row = done(data, x, task, seeds, options.device)
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--known", type=Path, nargs="*", default=[])
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--stages", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--seeds", type=int, help="noises of every setting; 2 unless told, and 1 of many rows")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--plan", type=Path)
    return parser.parse_args()


def main() -> None:
    options, start = arguments(), time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    about = {}
    for path in sorted(options.data.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and (options.tables is None or found["name"] in options.tables):
            about[found["name"]] = found
    load(options.data, min(about, key=lambda name: about[name]["rows"]), options.device)  # fails now or never
    jobs, have, deadline = tasks(options, about), known([options.out, *options.known]), start + 60 * options.minutes
    print(f"{len(jobs)} jobs, {sum(map(len, jobs))} groups, {len(have)} known", flush=True)
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    for job in [*jobs, *([None] * options.workers)]:
        queue.put(job)
    workers = [context.Process(target=work, args=(k, queue, options, deadline, have)) for k in range(options.workers)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        time.sleep(5)
        lines = sum(path.read_bytes().count(b"\n") for path in options.out.glob("results-*.jsonl"))
        print(f"{time.time() - start:5.0f} s {lines} groups done", flush=True)
        if time.time() > deadline + 45:
            for worker in workers:
                worker.kill()
    queue.cancel_join_thread()
    sys.exit(0)


if __name__ == "__main__":
    main()
