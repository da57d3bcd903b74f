"""What a search on a GPU has found (gpu.py), table by table: which settings are good where.

    python benchmarks/search/choose.py DATA OUT [OUT ...] [--numbers] [--kept-out] [--by clarity|table]

DATA is the bundle. A setting's score in a cell (a table at an epsilon) is the mean over noises of held-out rows. For
every way to make and train a model (bins, power, network, schedule) it prints by how much its best rate and threshold
of the grid are above those of the plain linear model on 12 bins, in mean over the tables of each range of clarity.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

EDGES = (0.0, 500.0, 2_000.0, 5_000.0, 12_000.0, 30_000.0, 80_000.0, math.inf)
PLAIN = (12, 0.0, None, "linear", 1.0, 500)


class Cell(NamedTuple):
    table: str
    epsilon: float


Way = tuple[Any, ...]  # bins, power, keep, kind, times, steps
Point = tuple[float, float]  # rate, threshold


def abouts(data: Path) -> dict[str, dict[str, Any]]:
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(data.glob("*.json")))
    return {about["name"]: about for about in found}


def clarity(about: dict[str, Any], epsilon: float, times: float = 1.0, steps: int = 500) -> float:
    """As dpmac.training.defaults has it, of the usual schedule."""
    cut = next(s for s in about["schedules"] if (s["times"], s["steps"]) == (times, steps))
    return float(cut["rate"] * about["fit"] * math.sqrt(steps) / cut["noise"][f"{epsilon:g}"])


def read(folders: Iterable[Path]) -> dict[Cell, dict[Way, dict[Point, float]]]:
    """Cell -> way -> (rate, threshold) -> mean score."""
    found: dict[Any, list[float]] = defaultdict(list)
    for folder in folders:
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                way = tuple(row[name] for name in ("bins", "power", "keep", "kind", "times", "steps"))
                for epsilon, rate, clip, _, score in row["models"]:
                    score = score if math.isfinite(score) else 0.0
                    found[Cell(row["table"], epsilon), way, (rate, clip)].append(score)
    cells: dict[Cell, dict[Way, dict[Point, float]]] = {}
    for (cell, way, point), scores in found.items():
        cells.setdefault(cell, {}).setdefault(way, {})[point] = statistics.mean(scores)
    return cells


def named(way: Way) -> str:
    bins, power, keep, kind, times, steps = way
    return f"{kind:8} {bins:3d} bins power {power:4g} keep {keep or 'all'!s:4} x{times:g} {steps:4d}"


def told(cells: dict[Cell, dict[Way, dict[Point, float]]], groups: dict[str, list[Cell]]) -> str:
    ways = sorted({way for cell in cells.values() for way in cell}, key=str)
    lines = [f"{'gain over linear, 12 bins':52}" + "".join(f"{name:>12}" for name in groups)]
    for way in ways:
        texts = []
        for members in groups.values():
            gains = [
                max(cells[cell][way].values()) - max(cells[cell][PLAIN].values())
                for cell in members
                if way in cells[cell] and PLAIN in cells[cell]
            ]
            texts.append(f"{statistics.mean(gains):+8.4f}{len(gains):4d}" if gains else " " * 12)
        lines.append(f"{named(way):52}" + "".join(texts))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path, nargs="+")
    parser.add_argument("--numbers", action="store_true", help="regression; classes unless told")
    parser.add_argument("--kept-out", action="store_true", help="the tables that had no say; else those that had")
    parser.add_argument("--by", choices=("clarity", "table"), default="clarity")
    parser.add_argument("--epsilon", type=float)
    options = parser.parse_args()
    about, cells = abouts(options.data), read(options.out)
    groups: dict[str, list[Cell]] = {}
    if options.by == "clarity":
        groups = {f"{low:,.0f}+": [] for low in EDGES[:-1]}
    for cell in sorted(cells):
        of = about[cell.table]
        if of["classes"] == options.numbers or of["kept_out"] != options.kept_out:
            continue
        if options.by == "table":
            if options.epsilon in (None, cell.epsilon):
                groups.setdefault(f"{cell.table[:8]} {cell.epsilon:g}", []).append(cell)
            continue
        low = max(edge for edge in EDGES if edge <= clarity(of, cell.epsilon))
        groups[f"{low:,.0f}+"].append(cell)
    print(told(cells, groups))


if __name__ == "__main__":
    main()
