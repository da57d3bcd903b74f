"""What one process of benchmarks/scale.py does: it measures one thing, and says it in a line of JSON.

The package is measured as it is: calls are timed by wrapping functions here, from outside.
"""

from __future__ import annotations

import functools
import hashlib
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from scale_paper import parameters_of
from scale_tables import column_arrays, made, schema_of
from torch import Tensor, distributed

from dpmac.nets import DenseNetwork, loss
from dpmac.privacy import JointClip, Plan, PoissonSampler, gaussian_release
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Trainer, together

WARM = 3  # steps before the clock counts
RECORDED = 5  # and on a GPU, where the third one is recorded
SHORT = 4096  # bytes up to which a message is a word: most of its time is waiting for others
Row = dict[str, Any]


class Clock:
    """Seconds and bytes of calls by name; starts when ``on`` is set."""

    def __init__(self) -> None:
        self.on = False
        self.seconds: dict[str, float] = {}
        self.bytes = self.calls = 0

    def add(self, name: str, seconds: float, moved: int = 0, calls: int = 0) -> None:
        if self.on:
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            self.bytes += moved
            self.calls += calls


@contextmanager
def wrapped(owner: Any, name: str, after: Callable[[float, tuple[Any, ...]], None]) -> Iterator[None]:
    """``owner.name`` with its seconds and arguments told to ``after``."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def outer(*arguments: Any, **named: Any) -> Any:
        start = time.perf_counter()
        answer = inner(*arguments, **named)
        after(time.perf_counter() - start, arguments)
        return answer

    setattr(owner, name, outer)
    try:
        yield
    finally:
        setattr(owner, name, inner)


@contextmanager
def listening(clock: Clock) -> Iterator[None]:
    """Every message of torch.distributed and the leader's noise go into the clock."""

    def one(seconds: float, arguments: tuple[Any, ...]) -> None:
        size = arguments[0].nbytes
        clock.add("words" if size <= SHORT else "sums", seconds, size, 1)

    def many(seconds: float, arguments: tuple[Any, ...]) -> None:
        size = sum(piece.nbytes for piece in arguments[0])
        clock.add("words" if size <= SHORT * len(arguments[0]) else "sums", seconds, size, 1)

    with (
        wrapped(distributed, "send", one),
        wrapped(distributed, "recv", one),
        wrapped(distributed, "broadcast", one),
        wrapped(distributed, "all_gather", many),
        wrapped(gaussian_release, "perturbed", lambda seconds, _: clock.add("noise", seconds)),
    ):
        yield


def rows_of(n: int, sizes: Sequence[int], seed: int) -> tuple[Tensor, Tensor]:
    """Made up: every process makes its own part of the table."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(sizes[-1], (n,), generator=draw)
    return torch.randn(n, sizes[0], generator=draw), torch.eye(sizes[-1])[labels]


def steps(rows: int, batch: int, steps: int, sizes: Sequence[int], threads: int) -> Row:
    """Steps of one training by however many processes were started; every one of them calls this."""
    torch.set_num_threads(threads)
    clock, times = Clock(), list[float]()

    def on_step(done: int, total: int) -> None:
        times.append(time.perf_counter())
        clock.on = WARM <= done < total

    with together() as world, listening(clock):
        mine = rows * (world.rank + 1) // world.size - rows * world.rank // world.size
        x, y = rows_of(mine, sizes, world.rank)
        network = DenseNetwork(sizes, "relu", source=SeededNoise(1))
        plan = Plan(rows, batch, steps + WARM, 1.0, 1e-6)
        source, bound = SystemNoise(), JointClip(0.3)
        more: Row = {"source": source, "world": world, "on_step": on_step}
        Trainer.dp_sgd(network, loss("softmax"), plan, bound, **more).fit(x, y)
    pauses = [after - before for before, after in pairwise(times[WARM - 1 :])]
    whole = sum(pauses)
    return {
        "step_s": statistics.median(pauses),
        "sums_share": clock.seconds.get("sums", 0.0) / whole,
        "words_share": clock.seconds.get("words", 0.0) / whole,
        "noise_s": clock.seconds.get("noise", 0.0) / steps,
        "bytes_a_step": clock.bytes / steps,
        "messages_a_step": clock.calls / steps,
        "parameters": parameters_of(sizes),
    }


# --- a table in memory, and in files ----------------------------------------------------------------------------------


def fit(way: str, path: str, memory: int, batch: int, steps: int, threads: int, hidden: int, seed: int | None) -> Row:
    """One fit of a classifier on a table that is held in this ``way``; seconds before, in and after its steps.

    Without a calibration, which would go over all rows six times more.
    """
    from dpmac.tables import Files
    from dpmac.tables.scratch import Scratch

    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    _classifier(200, 20, 2, 8, 1, 0).fit(column_arrays(made(200, seed=0)))  # the first fit imports half of torch
    table, n = _held(way, Path(path), memory)
    marks, times, clock = dict[str, float](), list[float](), Clock()
    clock.on = True

    def lasted(name: str) -> Callable[[float, Any], None]:
        return lambda seconds, _: marks.update({name: marks.get(name, 0.0) + seconds})

    def step(seconds: float, _: Any) -> None:
        marks.setdefault("first", time.perf_counter() - seconds)
        times.append(seconds)
        marks["last"] = time.perf_counter()

    def fetched(seconds: float, arguments: tuple[Any, ...]) -> None:
        clock.add("fetch", seconds, len(arguments[1]))

    model = _classifier(n, batch, steps, hidden, threads, seed)
    with (
        wrapped(Plan, "for_budget", lasted("plan")),
        wrapped(Files, "read", lasted("read")),
        wrapped(Trainer, "_step", step),
        wrapped(Scratch, "fetch", fetched),
        wrapped(PoissonSampler, "draw", lasted("draw")),
    ):
        start = time.perf_counter()
        model.fit(table)
        end = time.perf_counter()
    assert model.plan_.steps == len(times) == steps
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.network_.parameters()))
    return {
        "rows": n,
        "seconds": end - start,
        "plan_s": marks["plan"],
        "read_s": marks.get("read"),
        "before_s": marks["first"] - start - marks["plan"],
        "steps_s": marks["last"] - marks["first"],
        "after_s": end - marks["last"],
        "step_s": statistics.median(times),
        "fetch_rows_a_second": clock.bytes / clock.seconds["fetch"] if clock.bytes else None,
        "draw_rows_a_second": batch * steps / marks["draw"],
        "peak_mib": _peak_mib(),
        "weights": digest.hexdigest(),
    }


def _classifier(n: int, batch: int, steps: int, hidden: int, threads: int, seed: int | None) -> Any:
    from dpmac import DPMACClassifier, Machine

    plan: Row = {"batch_size": batch, "epochs": steps * batch / n, "delta": 1e-9, "calibrate": False}
    machine = Machine(threads=threads, progress=False)
    return DPMACClassifier((hidden,), schema=schema_of(), **plan, random_state=seed, machine=machine)


def _held(way: str, path: Path, memory: int) -> tuple[Any, int]:
    """The table, and its number of rows."""
    from dpmac.tables import Files

    if way in ("arrays", "arrow"):
        from pyarrow import parquet

        table = parquet.read_table(path)
        return (table if way == "arrow" else column_arrays(table)), table.num_rows
    ways: dict[str, Row] = {"scratch": {"memory": memory}, "groups": {"memory": memory, "scratch": None}}
    files = Files(path, **ways.get(way, {}))
    return files, files.n


def _peak_mib() -> float | None:
    """The most that this process ever had in memory; None where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)


# --- one GPU ----------------------------------------------------------------------------------------------------------


def device(contender: str, batch: int, rows: int, sizes: Sequence[int], rounds: int, on: str) -> Row:
    """Steps on one device, rows already there: what the later steps, and the first with all before it, need above."""
    from memory import Watch
    from step_cost import plain

    draw = torch.Generator(on).manual_seed(0)
    x = torch.randn(rows, sizes[0], generator=draw, device=on)
    y = torch.eye(sizes[-1], device=on)[torch.randint(sizes[-1], (rows,), generator=draw, device=on)]
    network = DenseNetwork(list(sizes), "relu", source=SeededNoise(1)).to(on)
    watch, times = Watch(on), list[float]()
    watch.reset()
    before = watch.now()

    start = 0

    def done(_step: int, _of: int) -> None:
        nonlocal start
        if on != "cpu":
            torch.cuda.synchronize()
        if not times:  # once, before its first step, a training looks at all rows
            start = watch.peak() - before
            watch.reset()
        times.append(time.perf_counter())

    if contender == "dpmac":
        plan = Plan(rows, batch, rounds + RECORDED, 1.0, 1e-8)
        Trainer.dp_sgd(network, loss("softmax"), plan, JointClip(0.3), source=SystemNoise(), on_step=done).fit(x, y)
    else:
        once = plain(network.plain(), loss("softmax"), x[:batch], y[:batch])
        for number in range(rounds + RECORDED):
            once()
            done(number, rounds)
    pauses = [after - earlier for earlier, after in pairwise(times[RECORDED - 1 :])]
    peaks = {"peak_mib": (watch.peak() - before) / 2**20, "start_mib": start / 2**20}
    return {"step_s": statistics.median(pauses), **peaks}


MEASURES: dict[str, Callable[..., Row]] = {"steps": steps, "fit": fit, "device": device}


def main() -> None:
    asked = json.loads(sys.argv[1])
    print(json.dumps(MEASURES[asked.pop("measure")](**asked)))


if __name__ == "__main__":
    main()
