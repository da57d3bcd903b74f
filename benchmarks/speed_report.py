"""The figures of step_cost.py as a Markdown table and a picture.

python benchmarks/speed_report.py docs/results/speed/cpu.json docs/results/speed/cuda.json --out docs/results/speed
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

BASE = "torch, not private"


def table(figures: dict[str, Any]) -> str:
    """Times of a step over that of torch without privacy, a column for each case."""
    cases = figures["milliseconds"]
    names = [name for name in next(iter(cases.values())) if name != BASE]
    lines = ["| | " + " | ".join(cases) + " |", "|---|" + "--:|" * len(cases)]
    lines.append("| torch, not private, ms | " + " | ".join(f"{case[BASE]:.1f}" for case in cases.values()) + " |")
    for name in names:
        cells = [f"{case[name] / case[BASE]:.2f}" if name in case else "" for case in cases.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(figures: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cases = figures["milliseconds"]
    names = list(dict.fromkeys(name for case in cases.values() for name in case if name != BASE))
    figure, axis = pyplot.subplots(figsize=(11, 4.6), layout="constrained")
    width = 0.85 / len(names)
    for number, name in enumerate(names):
        places = [k + width * (number - len(names) / 2) for k, case in enumerate(cases.values()) if name in case]
        heights = [case[name] / case[BASE] for case in cases.values() if name in case]
        colour = "C0" if name == "dpmac" else pyplot.get_cmap("tab20")(2 * (number + 1) % 20 + (number > 8))
        axis.bar(places, heights, width, label=name, color=colour, edgecolor="k" if name == "dpmac" else "none")
    axis.set(yscale="log", ylabel="time of a step / torch without privacy")
    axis.axhline(1, color="0.4", linewidth=0.8)
    axis.set_xticks(range(len(cases)), list(cases), fontsize=8)
    axis.set_title(f"{figures['device']}, torch {figures['torch']}, {figures['threads']} threads")
    axis.legend(fontsize=7, ncols=2)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="+", type=Path, help="JSON files of step_cost.py --out")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for the pictures")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for path in given.figures:
        figures = json.loads(path.read_text(encoding="utf-8"))
        print(f"{path.stem}: {figures['device']}, torch {figures['torch']}, {figures['threads']} threads\n")
        print(table(figures), "\n")
        plot(figures, given.out / f"{path.stem}.png")


if __name__ == "__main__":
    main()
