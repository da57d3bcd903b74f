"""What the finished fits say: a Markdown table and a picture for every table. Means over fits, their number beside."""

from __future__ import annotations

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
        "Test rows: the first fifth of `numpy.random.RandomState(0).permutation(n)`. δ = 1e-6 (diffprivlib: 0). Means "
        "over fits. boosting, linear and constant are not private: the same figure stands under every ε.",
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
    return [page, *paths]
