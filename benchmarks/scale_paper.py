"""On paper: what a training on more rows and more machines would take, from figures that were measured on few.

    seconds      = pass + steps x (max(work, draw + fetch) + sums + words + noise)         rows in files
    seconds      = pass + steps x (work + draw + sums + words + noise)                     rows in memory

    pass         = rows / (processes x read_rate)             all rows, read and checked once
    work         = batch / (processes x rate_rows)            a process's share of a step
    draw         = batch / (processes x draw_rate)            a Poisson sample, by the gaps between its rows
    fetch        = batch / (processes x fetch_rate)           the next sample, read ahead during the work
    sums         = processes x 8 x parameters / bandwidth     the others' to the leader, its answer back, in float64
    words        = messages x latency x log2(processes)       what processes say to each other
    noise        = parameters / noise_rate                    drawn by the leader alone, while the others wait

words and noise do not shrink as processes are added, and sums grow: the leader takes each process' by itself, to look
at them. sums, words are 0 with one process. What is left out: starting, the noise's calibration, evaluating, and
processes of different speed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

FLOAT64 = 8
MESSAGES = 4  # of a step: whether all are well, the sums, whether the leader is, its answer


@dataclass(frozen=True)
class Projection:
    """Seconds of the one pass, of the pieces of a step, and of the whole."""

    reading: float
    work: float
    draw: float
    fetch: float | None  # None: rows are in memory
    sums: float
    words: float
    noise: float
    steps: int

    @property
    def step(self) -> float:
        sample = self.work + self.draw if self.fetch is None else max(self.work, self.draw + self.fetch)
        return sample + self.sums + self.words + self.noise

    @property
    def seconds(self) -> float:
        return self.reading + self.steps * self.step


def projected(
    rows: float,
    batch: float,
    steps: int,
    processes: int,
    rate_rows: float,
    parameters: int,
    bandwidth: float,
    latency: float,
    read_rate: float,
    *,
    draw_rate: float = math.inf,
    fetch_rate: float | None = None,
    noise_rate: float = math.inf,
    messages: float = MESSAGES,
) -> Projection:
    """The formula above: rates are rows (numbers of noise) a second of one process, ``bandwidth`` bytes a second."""
    alone = processes == 1
    return Projection(
        reading=rows / (processes * read_rate),
        work=batch / (processes * rate_rows),
        draw=batch / (processes * draw_rate),
        fetch=None if fetch_rate is None else batch / (processes * fetch_rate),
        sums=0.0 if alone else processes * FLOAT64 * parameters / bandwidth,
        words=messages * latency * math.log2(processes),
        noise=parameters / noise_rate,
        steps=steps,
    )


def parameters_of(sizes: Sequence[int]) -> int:
    """The weights and biases of a dense network."""
    return sum((a + 1) * b for a, b in itertools.pairwise(sizes))


@dataclass(frozen=True)
class Case:
    """A training that was not made: its numbers, and where each of them comes from."""

    title: str
    numbers: Mapping[str, float]
    origin: Mapping[str, str]

    def projection(self) -> Projection:
        named = dict(self.numbers)
        whole = {name: int(named.pop(name)) for name in ("steps", "processes", "parameters")}
        return projected(**whole, **named)  # type: ignore[arg-type]

    def but(self, title: str, **changed: tuple[float, str]) -> Case:
        """The same with other numbers."""
        numbers = {**self.numbers, **{name: value for name, (value, _) in changed.items()}}
        return replace(
            self, title=title, numbers=numbers, origin={**self.origin, **{n: w for n, (_, w) in changed.items()}}
        )


ASSUMED = "assumed"
# What stands in where a figure was not measured, and what no figure here can say: other people's networks and disks.
STAND_IN: dict[str, float] = {
    "gpu rate": 3e6,
    "cpu rate": 1e5,
    "cpu noise rate": 1e7,
    "read rate": 5e5,
    "draw rate": 2e6,
    "fetch rate": 1e6,
    "bytes a row": 80.0,
}


def cases(measured: Mapping[str, float]) -> list[Case]:
    """100 million rows on 64 GPUs, and a billion rows in object storage; ``measured`` names what STAND_IN does."""

    def taken(name: str) -> tuple[float, str]:
        return (measured[name], "measured") if name in measured else (STAND_IN[name], ASSUMED)

    (rate, whose), (parse, said) = taken("gpu rate"), taken("read rate")
    gpu = _case(
        "100 million rows on 64 GPUs, in their memory",
        rows=(1e8, "given"),
        batch=(2.0**19, "chosen: 8,192 rows a GPU"),
        steps=(1000, "chosen: 5.2 epochs"),
        processes=(64, "given"),
        rate_rows=(rate, f"{whose}: of whole steps, drawing (from a million rows) and noise included"),
        parameters=(parameters_of((784, 300, 10)), "784-300-10"),
        bandwidth=(10e9, f"{ASSUMED}: a network of 100 Gbit/s, four fifths of it"),
        latency=(30e-6, f"{ASSUMED}: a hop between machines"),
        read_rate=(parse * 30 / 784, f"{said} for 30 columns, x 30 / 784"),
    )
    (per_row, weighed), store = taken("bytes a row"), 500e6
    stored = _case(
        "a billion rows in object storage, 16 machines of one process",
        rows=(1e9, "given"),
        batch=(2.0**17, "chosen: 8,192 rows a process"),
        steps=(2000, "chosen: 0.26 epochs"),
        processes=(16, "chosen"),
        rate_rows=taken("cpu rate"),
        parameters=(parameters_of((60, 300, 10)), "60-300-10"),
        bandwidth=(1e9, f"{ASSUMED}: a network of 10 Gbit/s, four fifths of it"),
        latency=(100e-6, f"{ASSUMED}: a hop between machines"),
        read_rate=(
            min(parse, store / per_row),
            f"the lesser of decoding ({parse:,.0f}, {said}) and of storage: {store / 1e6:g} MB/s a machine ({ASSUMED}) "
            f"at {per_row:.0f} bytes a row ({weighed})",
        ),
        draw_rate=taken("draw rate"),
        fetch_rate=taken("fetch rate"),
        noise_rate=taken("cpu noise rate"),
    )
    again = min(parse, store / per_row) * 2.0**17 / 1e9
    bare = stored.but(
        "the same without a scratch disk: every step reads every row group again",
        fetch_rate=(again, "read_rate x batch / rows: a sample touches every row group"),
    )
    return [gpu, stored, bare]


def _case(title: str, **numbers: tuple[float, str]) -> Case:
    values = {name: value for name, (value, _) in numbers.items()}
    return Case(title, values, {name: where for name, (_, where) in numbers.items()})


def measured_rates(figures: Mapping[str, Any]) -> dict[str, float]:
    """What the formula needs of the figures of benchmarks/scale.py, as far as they are there."""
    found: dict[str, float] = {}
    for row in figures.get("strong", ()):
        if row["processes"] == row["threads"] == 1:
            found["cpu rate"] = row["batch"] / (row["step_s"] - row["noise_s"])  # the leader's noise is not shared
            found["cpu noise rate"] = row["parameters"] / row["noise_s"]
    gpu = [row for row in figures.get("gpu", ()) if row["contender"] == "dpmac"]
    if gpu:
        near = min(gpu, key=lambda row: abs(math.log(row["batch"] / 8192)))
        found["gpu rate"] = near["rows_a_second"]
    for row in figures.get("large", ()):
        found |= {"read rate": row["pass_rows_a_second"], "bytes a row": row["bytes"] / row["rows"]}
        found["draw rate"] = row["draw_rows_a_second"]
        if "fetch_rows_a_second" in row:
            found["fetch rate"] = row["fetch_rows_a_second"]
    return found
