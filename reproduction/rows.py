"""The rows of the tables: what the runs of one method at one epsilon come to.

The *true* epsilon is composed here, by privacy loss distributions, from the mechanisms that a run wrote down; the
*stated* one is the budget that the row is named after. Where the two differ, the true one is the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from dpmac.privacy.accounting import Mechanism, epsilon_of
from reproduction.store import Finished

FIRST = ("DP-MAC", "DP-SGD")  # the order of rows; others follow by name, quoted ones last
NEEDED = {"metric", "curve", "mechanisms", "delta"}  # what a run must hold to stand in a table


@dataclass(frozen=True)
class SeedRun:
    """One run of a row."""

    seed: int
    score: float
    seconds: float | None = None


@dataclass(frozen=True)
class Point:
    """One epoch of a row's mean curve; a standard deviation is None where only one run has that epoch."""

    epoch: float
    train: float
    train_std: float | None
    test: float
    test_std: float | None


@dataclass(frozen=True)
class Picture:
    """Units of a first layer as images, and the digits for which they weigh most, where the run says so."""

    images: Sequence[Sequence[float]]
    shape: Sequence[int]
    digits: Sequence[int] = ()


@dataclass(frozen=True)
class TableRow:
    """The runs of one method at one epsilon, which differ in their seeds alone; if they do not, it is ``mixed``."""

    table: str
    row: str
    preset: str
    epsilon: float
    true_epsilon: float
    delta: float
    runs: tuple[SeedRun, ...]
    recipe: Mapping[str, Any]
    mechanisms: Sequence[Mapping[str, Any]]
    curve: tuple[Point, ...] = ()
    mixed: bool = False
    picture: Picture | None = None

    @property
    def key(self) -> tuple[str, str, str, float]:
        return self.table, self.row, self.preset, self.epsilon

    @property
    def mean(self) -> float:
        return fmean(run.score for run in self.runs)

    @property
    def std(self) -> float | None:
        """The sample's standard deviation (n - 1); None of a single run, which says nothing about spread."""
        return stdev(run.score for run in self.runs) if len(self.runs) > 1 else None


def table_rows(finished: Iterable[Finished]) -> list[TableRow]:
    """All rows that have a run: by table, then epsilon, then setting ("paper" before "tight"), then method."""
    found: dict[tuple[str, float, str, str], list[Finished]] = {}
    for run in finished:
        found.setdefault((run.table, run.epsilon, run.preset, run.row), []).append(run)
    ordered = sorted(found, key=lambda key: (*key[:3], rank(key[3])))
    return [_row(sorted(found[key], key=lambda run: run.seed)) for key in ordered]


def rank(row: str) -> tuple[bool, int, str]:
    """Sorts the names of rows."""
    return is_quoted(row), FIRST.index(row) if row in FIRST else len(FIRST), row


def is_quoted(row: str) -> bool:
    """Whether the paper quotes this row from others; it is not run here."""
    return "quoted" in row


def true_epsilon(mechanisms: Sequence[Mapping[str, Any]], delta: float) -> float:
    """Composed from what a run recorded; infinity if any of it had no noise, or if it recorded nothing at all."""
    if not mechanisms:  # would compose to 0: the wrong way to be wrong
        return math.inf
    recorded = [
        Mechanism(float(m["noise_multiplier"]), float(m["sample_rate"]), int(m["count"]), str(m["label"]))
        for m in mechanisms
    ]
    return epsilon_of(recorded, delta)


def mean_curve(runs: Sequence[Finished]) -> tuple[Point, ...]:
    """Mean and spread over runs at every epoch that any of them recorded."""
    by_epoch: dict[float, list[Mapping[str, float]]] = {}
    for run in runs:
        for record in run.result["curve"]:
            by_epoch.setdefault(float(record["epoch"]), []).append(record)
    points = []
    for epoch, records in sorted(by_epoch.items()):
        train, test = ([float(record[name]) for record in records] for name in ("train", "test"))
        spread = [stdev(values) if len(values) > 1 else None for values in (train, test)]
        points.append(Point(epoch, fmean(train), spread[0], fmean(test), spread[1]))
    return tuple(points)


def _row(runs: Sequence[Finished]) -> TableRow:
    epsilons = [_epsilon_of(run) for run in runs]
    dearest = runs[epsilons.index(max(epsilons))]  # as a rule they are all equal
    return TableRow(
        *(dearest.table, dearest.row, dearest.preset, dearest.epsilon),
        true_epsilon=max(epsilons),
        delta=max(float(run.result["delta"]) for run in runs),
        runs=tuple(SeedRun(run.seed, float(run.result["metric"]), run.result.get("seconds")) for run in runs),
        recipe=dearest.result.get("recipe") or {},
        mechanisms=dearest.result["mechanisms"],
        curve=mean_curve(runs),
        mixed=_mixed(runs),
        picture=next((_picture(run) for run in runs if run.result.get("first_layer")), None),
    )


def _epsilon_of(run: Finished) -> float:
    if math.isinf(run.epsilon):
        return math.inf
    return true_epsilon(run.result["mechanisms"], float(run.result["delta"]))


def _mixed(runs: Sequence[Finished]) -> bool:
    """True if two runs disagree in what both wrote down: a folder that was continued after the recipes changed."""
    seen: dict[str, Any] = {}
    for run in runs:
        said = {**(run.result.get("recipe") or {}), "delta": run.result["delta"]}
        if any(seen.setdefault(name, value) != value for name, value in said.items() if name != "seed"):
            return True
    return False


def _picture(run: Finished) -> Picture:
    return Picture(run.result["first_layer"], run.result["image_shape"], run.result.get("digits", ()))
