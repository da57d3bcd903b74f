"""How training scales: over processes, over rows that do not fit into memory, over the batch on a GPU; and on paper.

    make bench-scale      or      python benchmarks/scale.py [--large] [--only strong weak ...] [--quick] [--rounds 3]
    python benchmarks/scale.py --only gpu --device cuda     # where there is a GPU

strong  one table and one batch, trained by 1, 2 and 4 processes of one thread, and by one process of all threads.
weak    a table and a batch that grow with the processes.
stream  one table in memory, in Parquet that fits, in Parquet through a scratch file, and straight from row groups:
        seconds of a fit, and whether the weights are the same, bit for bit.
large   20 million rows of 30 columns, made on the spot: peak memory of the whole process, the pass, a step (--large).
gpu     rows a second and peak memory against the batch, beside torch without privacy (--device cuda).

Every measurement has processes of its own, rounds are interleaved and medians taken. All rows are made up. Every
finished measurement is a line of OUT/results.jsonl; a second start skips what is there, so remove it to measure anew.
DOCS/scale/scale.json (gpu.json), DOCS/scale/scale.png and DOCS/scale.md are made of all that is there.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import scale_report
import scale_tables
import torch
from peers import fresh

CHILD = Path(__file__).with_name("scale_child.py")
SIZES, IMAGE = (60, 300, 10), (784, 300, 10)
WAYS = ("arrays", "arrow", "parquet", "scratch", "groups")
CONTENDERS = ("torch, not private", "dpmac")
PARTS = ("strong", "weak", "stream", "large", "gpu")
FULL: dict[str, int] = {
    "rows": 400_000, "batch": 8192, "steps": 60, "weak_rows": 100_000, "weak_batch": 4096,
    "stream_rows": 100_000, "stream_batch": 2048, "stream_steps": 50, "stream_group": 10_000,
    "stream_memory": 6 * 2**20,  # bytes: a quarter of the table
    "large_rows": 20_000_000, "large_batch": 8192, "large_steps": 200, "large_files": 40, "large_group": 100_000,
    "large_memory": 2**30, "gpu_rows": 1_000_000, "gpu_rounds": 40,
}  # fmt: skip
QUICK = FULL | {
    "rows": 4000, "batch": 512, "steps": 5, "weak_rows": 2000, "weak_batch": 256,
    "stream_rows": 2000, "stream_batch": 200, "stream_steps": 4, "stream_group": 200, "stream_memory": 2**18,
    "large_rows": 4000, "large_batch": 200, "large_steps": 4, "large_files": 2, "large_group": 200,
    "large_memory": 2**18, "gpu_rows": 200_000, "gpu_rounds": 3,
}  # fmt: skip
Row = dict[str, Any]


def answers(question: Row, processes: int = 1, threads: int = 1) -> list[Row]:
    """What the processes of one measurement say, in their order; if one fails, none goes on."""
    path = os.pathsep.join(part for part in (str(fresh.ROOT), os.environ.get("PYTHONPATH", "")) if part)
    env = os.environ | {name: str(threads) for name in fresh.THREADS} | {"PYTHONPATH": path}
    env |= {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    command = [sys.executable, "-W", "ignore", str(CHILD), json.dumps(question)]
    started = [
        subprocess.Popen(
            command, env=env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(processes)
    ]
    try:
        while any(child.poll() is None for child in started) and not any(child.poll() for child in started):
            time.sleep(0.02)
        if any(child.poll() for child in started):
            raise RuntimeError(f"a measurement failed (its words are above): {json.dumps(question)}")
        return [json.loads(child.communicate()[0].strip().splitlines()[-1]) for child in started]
    finally:
        for child in started:
            if child.poll() is None:
                child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


# --- the measurements -------------------------------------------------------------------------------------------------


def training(processes: int, threads: int, rows: int, batch: int, steps: int) -> Row:
    """The leader's figures; of the shares also the mean of the others, who wait while it makes the noise."""
    asked = {"measure": "steps", "rows": rows, "batch": batch, "steps": steps, "sizes": SIZES, "threads": threads}
    leader, *others = answers(asked, processes, threads)
    followers = [one["sums_share"] + one["words_share"] for one in others]
    return leader | {
        "rows_a_second": batch / leader["step_s"],
        "others_share": statistics.fmean(followers) if followers else 0.0,
    }


def streamed(way: str, folder: Path, how: dict[str, int], kind: str, threads: int = 1) -> Row:
    """A fit of a table that is there, in a process of its own."""
    named = {name: how[f"{kind}_{name}"] for name in ("batch", "steps", "memory")}
    asked = {"measure": "fit", "way": way, "path": str(folder), "threads": threads, "hidden": 64}
    asked["seed"] = 0 if kind == "stream" else None  # a cipher draws samples ten times as fast as a seeded generator
    return answers(asked | named, threads=threads)[0]


def jobs(given: argparse.Namespace, how: dict[str, int]) -> list[Row]:
    """All that is to be measured: what it is called, and the numbers that say what it is."""
    cores, found = cores_here(), list[Row]()
    for turn in range(given.rounds):
        for p in given.processes if "strong" in given.only else ():
            found.append({"part": "strong", "processes": p, "threads": 1, "rows": how["rows"], "batch": how["batch"]})
        if "strong" in given.only and cores > 1:
            found.append({**found[-1], "processes": 1, "threads": cores})
        for p in given.processes if "weak" in given.only else ():
            sizes = {"rows": p * how["weak_rows"], "batch": p * how["weak_batch"]}
            found.append({"part": "weak", "processes": p, "threads": 1, **sizes})
        for way in WAYS if "stream" in given.only else ():
            found.append({"part": "stream", "way": way, "rows": how["stream_rows"], "batch": how["stream_batch"]})
        for batch, who in itertools.product((1000, 10_000, 100_000) if "gpu" in given.only else (), CONTENDERS):
            about = {"contender": who, "batch": batch, "rows": how["gpu_rows"], "on": given.device}
            found.append({"part": "gpu", **about})
        for one in found:
            one.setdefault("round", turn)
    if "large" in given.only:
        found.append({"part": "large", "round": 0, "rows": how["large_rows"], "batch": how["large_batch"]})
    return found


def measured(job: Row, given: argparse.Namespace, how: dict[str, int]) -> Row:
    if job["part"] in ("strong", "weak"):
        named = {name: job[name] for name in ("processes", "threads", "rows", "batch")}
        return training(**named, steps=how["steps"])
    if job["part"] == "stream":
        folder = given.out / f"stream-{how['stream_rows']}"
        if not folder.exists():
            scale_tables.write(folder, how["stream_rows"], files=2, group=how["stream_group"])
        return streamed(job["way"], folder, how, "stream")
    if job["part"] == "large":
        return large(given, how)
    asked = {name: job[name] for name in ("contender", "batch", "rows", "on")}
    threads = min(4, cores_here())
    found = answers({"measure": "device", **asked, "sizes": IMAGE, "rounds": how["gpu_rounds"]}, threads=threads)[0]
    return found | {"rows_a_second": job["batch"] / found["step_s"]}


def large(given: argparse.Namespace, how: dict[str, int]) -> Row:
    """Written, fitted, and deleted again."""
    folder = given.out / f"large-{how['large_rows']}"
    shutil.rmtree(folder, ignore_errors=True)
    start = time.perf_counter()
    try:
        size = scale_tables.write(folder, how["large_rows"], files=how["large_files"], group=how["large_group"])
        made = time.perf_counter() - start
        found = streamed("scratch", folder, how, "large", threads=cores_here())
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
    about = {"columns": scale_tables.COLUMNS, "bytes": size, "made_s": made, "steps": how["large_steps"]}
    return found | about | {"pass_rows_a_second": how["large_rows"] / found["read_s"]}


# --- the command ------------------------------------------------------------------------------------------------------


def cores_here() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def read(path: Path) -> list[Row]:
    """The measurements that are there; a line cut short by a crash is none."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return [row for row in found if isinstance(row, dict) and "job" in row]


def slim(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Medians over the rounds of every measurement, by part."""
    cells: dict[str, list[Row]] = {}
    for name in dict.fromkeys(_name(row["job"]) for row in rows):
        same = [row for row in rows if _name(row["job"]) == name]
        job = {key: value for key, value in same[0]["job"].items() if key != "round"}
        cell: Row = {**job, "rounds": len(same)}
        for what, value in same[0]["found"].items():
            if isinstance(value, int | float):
                cell[what] = float(f"{statistics.median(row['found'][what] for row in same):.5g}")
        cell["weights"] = sorted({row["found"]["weights"] for row in same if "weights" in row["found"]})
        cells.setdefault(cell.pop("part"), []).append(cell)
    for part in cells.values():
        known = part[0]["weights"]
        for cell in part:
            same_weights = cell.pop("weights") == known and len(known) == 1
            if known:
                cell["same_weights"] = same_weights
    return cells


def _name(job: Row) -> str:
    return json.dumps({key: value for key, value in job.items() if key != "round"})


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, help="parts; strong, weak and stream unless told")
    parser.add_argument("--large", action="store_true", help="20 million rows, too (2 GB of disk, and 5 GB meanwhile)")
    parser.add_argument("--keep", action="store_true", help="leave the large table where it was written")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: whether it runs; the figures mean nothing")
    parser.add_argument("--rounds", type=int, help="of every measurement (default 3; 1 with --quick)")
    parser.add_argument("--processes", nargs="+", type=int, help="(default 1 2 4; 1 2 with --quick)")
    parser.add_argument("--device", default="cpu", help="cuda adds the part gpu")
    parser.add_argument("--out", type=Path, help="(default runs/scale, or runs/scale_quick)")
    parser.add_argument("--docs", type=Path, help="folder of the report (default docs/results; OUT with --quick)")
    chosen = parser.parse_args(given)
    usual = ["gpu"] if chosen.device != "cpu" else ["strong", "weak", "stream"] + ["large"] * chosen.large
    chosen.only = usual if chosen.only is None else chosen.only
    chosen.rounds = chosen.rounds or (1 if chosen.quick else 3)
    chosen.processes = chosen.processes or ([1, 2] if chosen.quick else [1, 2, 4])
    chosen.out = chosen.out or Path("runs/scale_quick" if chosen.quick else "runs/scale")
    chosen.docs = chosen.docs or (chosen.out if chosen.quick else Path("docs/results"))
    return chosen


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments(given)
    how = QUICK if chosen.quick else FULL
    if "gpu" in chosen.only and (chosen.device == "cpu" or not torch.cuda.is_available()):
        print("gpu is left out: it needs --device cuda, and a GPU")
        chosen.only = [part for part in chosen.only if part != "gpu"]
    chosen.out.mkdir(parents=True, exist_ok=True)
    results = chosen.out / "results.jsonl"
    done = {json.dumps(row["job"]) for row in read(results)}
    for job in jobs(chosen, how):
        if json.dumps(job) not in done:
            found = measured(job, chosen, how)
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"job": job, "found": found}) + "\n")
            print(f"{json.dumps(job)}: {1e3 * found['step_s']:.1f} ms a step", flush=True)
    cells = slim(read(results))
    about: Row = {"command": " ".join(["python", *sys.argv]), "date": date.today().isoformat()}
    about |= {"machine": f"{cores_here()} cores", "cores": cores_here(), "torch": torch.__version__}
    about |= {"python": platform.python_version()}
    scale_report.write(chosen.docs, cells, about, fresh.machine(chosen.device) if "gpu" in cells else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
