"""The figures of step_cost.py, memory.py and whole_fits.py as Markdown tables and pictures.

python benchmarks/speed_report.py docs/results/speed/*.json --out docs/results/speed
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
    figure.legend(fontsize=7, ncols=5, loc="outside lower center")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("{x:g}")
    axis.tick_params(axis="y", which="both", labelsize=7)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def memory_table(figures: dict[str, Any]) -> str:
    """Megabytes of a step, a table for each case, a column for each batch size."""
    rows, tables = figures["memory"], []
    for case in dict.fromkeys(row["case"] for row in rows):
        here = {(row["contender"], row["batch"]): row for row in rows if row["case"] == case}
        batches = sorted({batch for _, batch in here})
        lines = [
            f"| {case}, MB | " + " | ".join(f"batch {b:,}" for b in batches) + " |",
            "|---|" + "--:|" * len(batches),
        ]
        for name in dict.fromkeys(name for name, _ in here):
            cells = [here.get((name, batch), {}) for batch in batches]
            shown = [f"{c['megabytes']:,.0f}" if "megabytes" in c else c.get("refused", "") for c in cells]
            lines.append(f"| {name} | " + " | ".join(shown) + " |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def memory_plot(figures: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in figures["memory"] if "megabytes" in row]
    cases, names = (list(dict.fromkeys(row[what] for row in rows)) for what in ("case", "contender"))
    figure, axes = pyplot.subplots(1, len(cases), figsize=(5.2 * len(cases), 4), layout="constrained", squeeze=False)
    for axis, case in zip(axes[0], cases, strict=True):
        for number, name in enumerate(names):
            points = sorted((r["batch"], r["megabytes"]) for r in rows if (r["case"], r["contender"]) == (case, name))
            wide = 2.4 if name.startswith("dpmac") else 1.3
            axis.plot(*zip(*points, strict=True), "o-", markersize=4, linewidth=wide, color=f"C{number}", label=name)
        batches = sorted({row["batch"] for row in rows})
        axis.set(xscale="log", yscale="log", title=case, xlabel="batch size", ylabel="peak of a step, MB")
        axis.set_xticks(batches, [f"{b:,}" for b in batches])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize=8)
    figure.suptitle(f"{figures['machine']}, torch {figures['torch']}", fontsize=9)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def fits_table(figures: dict[str, Any]) -> str:
    """Score, log-loss and both kinds of seconds; means, deviations of the score."""
    heads = ("", "fits", "network", "score", "log-loss", "seconds of the processor", "seconds on the wall")
    lines = ["| " + " | ".join(heads) + " |", "|---|--:|---|" + "--:|" * 4]
    for cell in figures["fits"]:
        about = f"| {cell['task']}, {cell['method']} | {cell['fits']} | {cell.get('network', '')} | "
        if "failed" in cell:
            lines.append(about + f"{'; '.join([cell['failed'], *cell['told']])} | | | |")
            continue
        mean, spread = cell["score"]
        seconds = " | ".join(f"{cell[what][0]:.1f}" for what in ("cpu_seconds", "seconds"))
        lines.append(about + f"{mean:.4f} ± {spread:.4f} | {cell['loss'][0]:.3f} | {seconds} |")
    return "\n".join(lines)


def fits_plot(figures: dict[str, Any], path: Path) -> None:
    """Score over seconds of the processor: up and to the left is better."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tasks = {"adult": "AUROC", "mnist": "accuracy"}
    figure, axes = pyplot.subplots(1, len(tasks), figsize=(9, 3.6), layout="constrained")
    colours = {name: f"C{k}" for k, name in enumerate(dict.fromkeys(cell["method"] for cell in figures["fits"]))}
    for axis, (task, score) in zip(axes, tasks.items(), strict=True):
        for cell in (c for c in figures["fits"] if c["task"] == task and "score" in c):
            x, (y, spread) = cell["cpu_seconds"][0], cell["score"]
            axis.errorbar([x], [y], yerr=[spread], fmt="o", color=colours[cell["method"]], label=cell["method"])
        axis.set(xscale="log", title=f"{task}, ε = 2", xlabel="seconds of the processor", ylabel=score)
        axis.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


KINDS = {"milliseconds": (table, plot), "memory": (memory_table, memory_plot), "fits": (fits_table, fits_plot)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="+", type=Path, help="JSON files of the benchmarks")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for the pictures")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for path in given.figures:
        figures = json.loads(path.read_text(encoding="utf-8"))
        tabled, drawn = next(both for kind, both in KINDS.items() if kind in figures)
        where = [figures[what] for what in ("machine", "device") if what in figures][:1]
        print(", ".join([path.stem, *where]), tabled(figures), "", sep="\n\n")
        drawn(figures, given.out / f"{path.stem}.png")


if __name__ == "__main__":
    main()
