"""Plots of public numbers. matplotlib is imported here only, when a plot is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dpmac.training.run import Record

METRIC_LABELS = {"validation_accuracy": "accuracy on public rows"}


def training_curves(
    histories: Mapping[str, Sequence[Record]], path: Path, *, title: str, metric: str = "validation_accuracy"
) -> Path:
    """One curve of ``metric`` over epochs per history, written as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, history in histories.items():
        axes.plot([r.epoch for r in history], [r.metrics[metric] for r in history], label=name)
    axes.set(title=title, xlabel="expected passes over the training rows", ylabel=METRIC_LABELS.get(metric, metric))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)
    return path
