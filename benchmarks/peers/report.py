"""What the finished fits say: a Markdown table and a picture for every table. Means over fits, their number beside."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
KINDS = {
    "classification": {"score": "AUROC", "loss": "log-loss", "calibration": "calibration error"},
    "regression": {"score": "R²", "loss": "RMSE", "clipped": "R² of predictions clipped to the public range"},
}


def values(rows: Iterable[Row], table: str, method: str, epsilon: float, what: str) -> list[float]:
    """A method without privacy has no epsilon: its fits stand in every column."""
    found = [
        row[what]
        for row in rows
        if row["table"] == table and row["method"] == method and row["epsilon"] in (None, epsilon)
    ]
    return [float("nan") if value is None else value for value in found]


def shown(found: Sequence[float], what: str) -> str:
    if not found:
        return ""
    mean = statistics.fmean(found)
    if what == "seconds":
        return f"{mean:.1f}"
    return f"{mean:.4f}" if abs(mean) < 10 else f"{mean:.4g}"


def one_table(rows: list[Row], table: str, methods: Sequence[str], epsilons: Sequence[float]) -> list[str]:
    task = next(row["task"] for row in rows if row["table"] == table)
    lines = [f"## {table}", ""]
    for what, title in (KINDS[task] | {"seconds": "seconds of a fit"}).items():
        lines += [f"### {title}", "", "| method | fits | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |"]
        lines += ["|---|--:|" + "--:|" * len(epsilons)]
        for method in methods:
            cells = [values(rows, table, method, epsilon, what) for epsilon in epsilons]
            counts = sorted({len(cell) for cell in cells if cell})
            if counts:
                fits = "-".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
                lines.append(f"| {method} | {fits} | " + " | ".join(shown(cell, what) for cell in cells) + " |")
        lines.append("")
    return lines


def markdown(rows: list[Row], tables: Sequence[str], methods: Sequence[str], epsilons: Sequence[float]) -> str:
    lines = [
        "# Private models on real tables",
        "",
        "Test rows: the first fifth of `numpy.random.RandomState(0).permutation(n)`. δ = 1e-6 (diffprivlib, forest and "
        "dp-xgboost: 0). Means over fits. boosting, linear and constant are not private: the same figure stands under "
        "every ε.",
        "",
    ]
    for table in tables:
        if any(row["table"] == table for row in rows):
            lines += one_table(rows, table, methods, epsilons)
    return "\n".join(lines)


def plot(rows: list[Row], table: str, methods: Sequence[str], epsilons: Sequence[float], path: Path) -> None:
    """Score over epsilon above, log-loss (or RMSE) below. What is far worse runs out of the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    kind = KINDS[next(row["task"] for row in rows if row["table"] == table)]
    figure, axes = pyplot.subplots(2, 1, figsize=(7, 8), sharex=True, layout="constrained")
    for axis, what in zip(axes, ("score", "loss"), strict=True):
        heights: dict[str, list[float]] = {}
        for number, method in enumerate(methods):
            cells = [values(rows, table, method, epsilon, what) for epsilon in epsilons]
            points = [(e, statistics.fmean(cell)) for e, cell in zip(epsilons, cells, strict=True) if cell]
            if not points:
                continue
            plain = all(row["epsilon"] is None for row in rows if row["table"] == table and row["method"] == method)
            heights[method] = [height for _, height in points]
            style = "--" if plain else "o-"
            axis.plot(*zip(*points, strict=True), style, color=f"C{number}", label=method, linewidth=1.5, markersize=4)
        limit(axis, heights, what)
        axis.set_ylabel(kind[what])
        axis.grid(alpha=0.3)
    axes[0].set_title(table)
    axes[0].legend(ncols=4, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.02))
    axes[1].set_xscale("log", base=2)
    axes[1].set_xticks(list(epsilons), [f"{e:g}" for e in epsilons])
    axes[1].set_xlabel("ε")
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


SHOWN = {
    "dpmac": "dpmac",
    "dp-ebm": "DP-EBM",
    "opacus": "Opacus",
    "diffprivlib": "diffprivlib",
    "dp-xgboost": "DP-XGBoost",
    "dpmac-additive": "dpmac, additive",
}
BESIDE = {"linear": "linear, not private", "boosting": "boosting, not private"}


def overview(rows: list[Row], tables: Sequence[str], epsilons: Sequence[float], path: Path) -> None:
    """Every table's score over epsilon in one picture: the private methods, and two without privacy as lines."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(tables), figsize=(3.1 * len(tables), 3.4), layout="constrained", squeeze=False
    )
    for axis, table in zip(axes[0], tables, strict=True):
        heights: dict[str, list[float]] = {}
        for number, (method, name) in enumerate((SHOWN | BESIDE).items()):
            cells = [values(rows, table, method, epsilon, "score") for epsilon in epsilons]
            points = [(e, statistics.fmean(cell)) for e, cell in zip(epsilons, cells, strict=True) if cell]
            if not points:
                continue
            heights[method] = [height for _, height in points]
            style = {"linestyle": "--", "color": "0.6" if method == "linear" else "0.3"} if method in BESIDE else {}
            style |= {} if method in BESIDE else {"marker": "o", "markersize": 4, "color": f"C{number}"}
            wide = 2.4 if method == "dpmac" else 1.3
            axis.plot(*zip(*points, strict=True), label=name, linewidth=wide, **style)
        if "dp-ebm" in heights:
            best, peer = max(max(h) for h in heights.values()), heights["dp-ebm"][0]
            axis.set_ylim(peer - 0.35 * (best - peer), best + 0.08 * (best - peer))
        axis.set(title=table, xscale="log", xlabel="ε")
        axis.set_xticks(list(epsilons), [f"{e:g}" for e in epsilons])
        axis.minorticks_off()
        task = next(row["task"] for row in rows if row["table"] == table)
        axis.set_ylabel(KINDS[task]["score"])
        axis.grid(alpha=0.3)
    figure.legend(*axes[0][0].get_legend_handles_labels(), ncols=7, loc="outside lower center", frameon=False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def slim(rows: list[Row], tables: Sequence[str], methods: Sequence[str], epsilons: Sequence[float]) -> list[Row]:
    """Mean and deviation of every cell, for a small file."""
    cells = []
    for table in tables:
        task = next(row["task"] for row in rows if row["table"] == table)
        for method in methods:
            for epsilon in epsilons:
                cell: Row = {"table": table, "method": method, "epsilon": epsilon}
                for what in (*KINDS[task], "seconds"):
                    found = values(rows, table, method, epsilon, what)
                    if found:
                        spread = statistics.stdev(found) if len(found) > 1 else 0.0
                        cell |= {
                            "fits": len(found),
                            what: [float(f"{n:.5g}") for n in (statistics.fmean(found), spread)],
                        }
                if "fits" in cell:
                    cells.append(cell)
    return cells


def limit(axis: Any, heights: dict[str, list[float]], what: str) -> None:
    """Show what matters: the best third of the way up from the constant prediction; of a loss all of it."""
    every = [height for row in heights.values() for height in row if height == height]
    if "constant" not in heights or len(heights) < 2:
        return
    worst = heights["constant"][0]
    if what == "score" and (room := max(every) - worst) > 0:
        axis.set_ylim(max(every) - 0.36 * room, max(every) + 0.02 * room)
    elif what == "loss" and (room := worst - min(every)) > 0:
        axis.set_ylim(min(every) - 0.05 * room, min(max(every), worst + 0.25 * room) + 0.03 * room)


def write(rows: list[Row], tables: Sequence[str], methods: Sequence[str], out: Path) -> list[Path]:
    """Everything that the results hold of these tables, whatever this start asked for."""
    epsilons = sorted({row["epsilon"] for row in rows if row["epsilon"] is not None}) or [1.0]
    present = [table for table in tables if any(row["table"] == table for row in rows)]
    page = out / "tables.md"
    page.write_text(markdown(rows, present, methods, epsilons), encoding="utf-8")
    paths = [out / f"{table}.png" for table in present]
    for table, path in zip(present, paths, strict=True):
        plot(rows, table, methods, epsilons, path)
    overview(rows, present, epsilons, out / "overview.png")
    lines = ",\n".join(json.dumps(cell) for cell in slim(rows, present, methods, epsilons))
    (out / "tables.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return [page, *paths, out / "overview.png", out / "tables.json"]
