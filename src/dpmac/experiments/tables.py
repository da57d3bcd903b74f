"""Numbers out of finished runs: mean, spread and true epsilon of each row, as Markdown and as one JSON object.

The *true* epsilon is composed here, by privacy loss distributions, from the mechanisms that a run wrote down; the
*stated* one is the budget that the row is named after. Where the two differ, the true one is the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from dpmac.experiments.store import Finished, spelled
from dpmac.privacy.accounting import Mechanism, epsilon_of
from dpmac.privacy.statement import round_up

Published = Mapping[tuple[str, str, float], float]
"""(table, row, epsilon) -> the paper's figure."""

_DECIMALS = {"mnist": (4, 2), "usps": (3, 1)}  # of our mean, and of the paper's figure as it is printed there
_FIRST = ("DP-MAC", "DP-SGD")  # the order of rows; others follow by name, quoted ones last
_NOTES = {
    "usps": "The paper's DP-SGD figures were made with half of the noise that their epsilon needs: what it calls "
    "8 / 4 / 2 / 1 is about 18.1 / 7.5 / 3.5 / 1.6."
}
NEEDED = {"metric", "curve", "mechanisms", "delta"}  # what a run must hold to stand in a table


@dataclass(frozen=True)
class Group:
    """The runs of one row of a table at one epsilon, which differ in their seeds alone."""

    table: str
    row: str
    preset: str
    epsilon: float
    runs: tuple[Finished, ...]

    @property
    def values(self) -> list[float]:
        return [float(run.result["metric"]) for run in self.runs]

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def std(self) -> float | None:
        """The sample's standard deviation (n - 1); None of a single run, which says nothing about spread."""
        return stdev(self.values) if len(self.runs) > 1 else None

    @property
    def deltas(self) -> list[float]:
        return sorted({float(run.result["delta"]) for run in self.runs})

    @property
    def mixed(self) -> bool:
        """True if the runs were not made by one recipe: a folder that was gone on with after the recipes changed."""
        recipes = [dict(run.result.get("recipe") or {}) | {"seed": None} for run in self.runs]
        return any(recipe != recipes[0] for recipe in recipes)

    @property
    def true_epsilon(self) -> float:
        """The largest of the runs' (as a rule they are all equal)."""
        return max(true_epsilon(run) for run in self.runs)


@dataclass(frozen=True)
class Point:
    """One epoch of a group's curves; a standard deviation is None where only one run has that epoch."""

    epoch: float
    train: float
    train_std: float | None
    test: float
    test_std: float | None


def true_epsilon(run: Finished) -> float:
    """Composed from what the run recorded. A run without privacy, or one that recorded nothing, has none: infinity."""
    recorded = run.result["mechanisms"]
    if math.isinf(run.epsilon) or not recorded:  # nothing recorded would compose to 0: the wrong way to be wrong
        return math.inf
    mechanisms = [
        Mechanism(float(m["noise_multiplier"]), float(m["sample_rate"]), int(m["count"]), str(m["label"]))
        for m in recorded
    ]
    return epsilon_of(mechanisms, float(run.result["delta"]))


def groups(finished: Iterable[Finished], table: str) -> list[Group]:
    """The rows of a table: by epsilon, then setting ("paper" before "tight"), then method."""
    by_key: dict[tuple[float, str, str], list[Finished]] = {}
    for run in finished:
        if run.table == table:
            by_key.setdefault((run.epsilon, run.preset, run.row), []).append(run)
    ordered = sorted(by_key, key=lambda key: (key[0], key[1], _rank(key[2])))
    return [
        Group(table, row, preset, epsilon, tuple(sorted(by_key[epsilon, preset, row], key=lambda run: run.seed)))
        for epsilon, preset, row in ordered
    ]


def mean_curve(runs: Sequence[Finished]) -> list[Point]:
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
    return points


def markdown(finished: Sequence[Finished], published: Published, metric: Mapping[str, str]) -> str:
    """Every table that has a run; a sentence if there is none."""
    tables = [t for t in metric if any(run.table == t for run in finished)]
    if not tables:
        return "No run is finished yet: dpmac reproduce all makes them.\n"
    return "\n".join(_table(groups(finished, table), table, published, metric[table]) for table in tables)


def _table(rows: list[Group], table: str, published: Published, metric: str) -> str:
    header = ("method", "settings", "stated epsilon", "true epsilon", "ours: mean ± std (runs)", "paper")
    keyed = [((g.epsilon, 0, g.preset, _rank(g.row)), _cells(g, published)) for g in rows]
    present = {(g.table, g.row, g.epsilon) for g in rows}
    for (its_table, row, epsilon), figure in published.items():
        if its_table == table and (its_table, row, epsilon) not in present:
            ours = "-" if _quoted(row) else "not run"
            cells = (row, "-", f"{epsilon:g}", "-", ours, _paper(table, figure))
            keyed.append(((epsilon, 1, "", _rank(row)), cells))
    lines = _aligned([header, *(cells for _, cells in sorted(keyed))])
    deltas = ", ".join(f"{d:g}" for d in sorted({d for g in rows for d in g.deltas}))
    better = "higher is better" if "accuracy" in metric else "lower is better"
    notes = [
        f"True epsilon: composed from all releases that the runs recorded, at delta = {deltas}, rounded up; adding or "
        "removing one example. Paper: the figure printed there for that stated epsilon; rows marked as quoted are "
        "others' figures that it quotes, and were not run here. std: of the runs, with n - 1.",
        "All runs are seeded, and their scores and curves are read off rows without any noise: research, not releases.",
        *([_NOTES[table]] if table in _NOTES else []),
        *(f"MIXED: {g.row} ({g.preset}) at {g.epsilon:g} has runs of different recipes." for g in rows if g.mixed),
    ]
    return "\n".join([f"## {table.upper()}: {metric} ({better})", "", *lines, "", "\n\n".join(notes), ""])


def _cells(group: Group, published: Published) -> tuple[str, ...]:
    figure = published.get((group.table, group.row, group.epsilon))
    decimals, _ = _DECIMALS.get(group.table, (4, 2))
    spread = "-" if group.std is None else f"{group.std:.{decimals}f}"
    ours = f"{group.mean:.{decimals}f} ± {spread} ({len(group.runs)})"
    paper = "-" if figure is None else _paper(group.table, figure)
    return (group.row, group.preset, f"{group.epsilon:g}", round_up(group.true_epsilon, 2), ours, paper)


def _paper(table: str, figure: float) -> str:
    return f"{figure:.{_DECIMALS.get(table, (4, 2))[1]}f}"


def _quoted(row: str) -> bool:
    return "quoted" in row


def _rank(row: str) -> tuple[bool, int, str]:
    return (_quoted(row), _FIRST.index(row) if row in _FIRST else len(_FIRST), row)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A Markdown table that also reads well as it is: columns padded to their widest cell, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    left = 2  # method and settings are words
    shown = [
        [cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    ]
    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return [f"| {' | '.join(cells)} |" for cells in (shown[0], rule, *shown[1:])]


def figures(
    finished: Sequence[Finished], published: Published, metric: Mapping[str, str], written_by: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything in the tables and curves at full precision, with seeds and versions; infinity as "inf"."""
    made: dict[tuple[tuple[str, Any], ...], int] = {}
    for run in finished:
        key = tuple(sorted(run.made_with.items()))
        made[key] = made.get(key, 0) + 1
    return {
        "written_by": dict(written_by),
        "made_with": [dict(key) | {"runs": count} for key, count in made.items()],
        "tables": {
            table: {"metric": name, "rows": [_row(group, published) for group in groups(finished, table)]}
            for table, name in metric.items()
        },
        "published": [
            {"table": table, "row": row, "epsilon": spelled(epsilon), "figure": figure, "quoted": _quoted(row)}
            for (table, row, epsilon), figure in published.items()
        ],
    }


def _row(group: Group, published: Published) -> dict[str, Any]:
    return {
        "row": group.row,
        "preset": group.preset,
        "epsilon": spelled(group.epsilon),
        "true_epsilon": spelled(group.true_epsilon),
        "deltas": group.deltas,
        "mean": group.mean,
        "std": group.std,
        "paper": published.get((group.table, group.row, group.epsilon)),
        "seeds": [run.seed for run in group.runs],
        "values": group.values,
        "seconds": [run.result.get("seconds") for run in group.runs],
        "recipe": group.runs[0].result.get("recipe"),
        "mixed_recipes": group.mixed,
        "mechanisms": group.runs[0].result["mechanisms"],
        "curve": [vars(point) for point in mean_curve(group.runs)],
    }
