"""Plots of public numbers. matplotlib is imported here only, when a plot is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpmac.report.reliability import Reliability
from dpmac.training.run import Record

METRIC_LABELS = {"validation_accuracy": "accuracy on public rows"}


def training_curves(
    histories: Mapping[str, Sequence[Record]], path: Path, *, title: str, metric: str = "validation_accuracy"
) -> Path:
    """One curve of ``metric`` over epochs per history, written as PNG."""
    figure = _figure((6.4, 4.0))
    axes = figure.add_subplot()
    for name, history in histories.items():
        axes.plot([r.epoch for r in history], [r.metrics[metric] for r in history], label=name)
    axes.set(title=title, xlabel="expected passes over the training rows", ylabel=METRIC_LABELS.get(metric, metric))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)
    return path


def reliability_curves(models: Mapping[str, Reliability], path: Path, *, title: str, outcome: str) -> Path:
    """Observed over predicted, one curve per model with two standard deviations of chance, and the rows of each bin.

    Probabilities that are right lie on the diagonal.
    """
    figure = _figure((6.4, 5.6))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    upper.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle="--", label="as predicted")
    width = 1.0 / len(models)
    for place, (name, found) in enumerate(models.items()):
        predicted, observed = [b.predicted for b in found.bins], [b.observed for b in found.bins]
        chance = [2 * b.chance for b in found.bins]
        label = f"{name}: error {found.error:.3f}"
        lines = upper.errorbar(predicted, observed, yerr=chance, marker="o", markersize=4, capsize=2, label=label)
        left = [b.low + (b.high - b.low) * place * width for b in found.bins]
        sizes = [(b.high - b.low) * width for b in found.bins]
        rows = [b.rows for b in found.bins]
        lower.bar(left, rows, sizes, align="edge", color=lines[0].get_color())
    upper.set(title=title, ylabel=f"observed part: {outcome}", xlim=(0, 1), ylim=(-0.02, 1.02))
    lower.set(xlabel=f"predicted probability: {outcome}", ylabel="rows")
    upper.legend(loc="upper left")
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
    return path


def _figure(size: tuple[float, float]) -> Any:
    """A figure that needs no display and no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure
