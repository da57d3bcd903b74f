"""One picture of both tables: the score over the true epsilon, ours beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reproduction.rows import TableRow
from reproduction.settings import PUBLISHED

# (row, preset): label, colour, marker
SHOWN: Mapping[str, Mapping[tuple[str, str], tuple[str, str, str]]] = {
    "mnist": {
        ("DP-MAC", "tight"): ("DP-MAC", "tab:blue", "o"),
        ("linear (sufficient statistics)", "tight"): ("linear, one release", "tab:gray", "s"),
    },
    "usps": {
        ("DP-MAC", "tight"): ("DP-MAC from a random start", "tab:blue", "o"),
        ("linear (DP-PCA)", "tight"): ("linear, one DP-PCA release", "tab:gray", "s"),
        ("DP-MAC from DP-PCA", "tight"): ("DP-MAC from DP-PCA, two releases", "tab:green", "D"),
    },
}
TITLES = {"mnist": "MNIST classifier: test accuracy", "usps": "USPS autoencoder: test error"}


def draw_overview(rows: Sequence[TableRow], figure: Any, path: Path) -> Path | None:
    """Private rows of preset tight with one standard deviation, and what the paper prints at its stated epsilon."""
    private = [row for row in rows if math.isfinite(row.epsilon) and (row.row, row.preset) in SHOWN.get(row.table, {})]
    tables = [table for table in SHOWN if any(row.table == table for row in private)]
    if not tables:
        return None
    for axes, table in zip(figure.subplots(1, len(tables), squeeze=False)[0], tables, strict=True):
        stated = sorted(
            (e, v) for (t, row, e), v in PUBLISHED.items() if (t, row) == (table, "DP-MAC") and e < math.inf
        )
        if stated:
            axes.plot(*zip(*stated, strict=True), "x--", color="tab:red", label="the paper's DP-MAC, epsilon as stated")
        for key, (label, colour, marker) in SHOWN[table].items():
            here = sorted((row for row in private if (row.table, row.row, row.preset) == (table, *key)), key=_epsilon)
            if here:
                spread = [row.std or 0.0 for row in here]
                means = [row.mean for row in here]
                axes.errorbar(
                    [row.true_epsilon for row in here], means, spread, color=colour, marker=marker, label=label
                )
        axes.set(title=TITLES[table], xlabel="epsilon, at delta 1e-5", xscale="log")
        ticks = sorted({row.epsilon for row in private if row.table == table})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)
    return path


def _epsilon(row: TableRow) -> float:
    return row.true_epsilon
