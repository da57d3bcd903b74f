"""The tables as Markdown that also reads well as it is: one row a method, settings and stated epsilon."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from dpmac.privacy.accounting import UNIT
from dpmac.privacy.statement import round_up
from reproduction.rows import TableRow, is_quoted, rank

Published = Mapping[tuple[str, str, float], float]
"""(table, row, epsilon) -> the paper's figure."""

HEADER = ("method", "settings", "stated epsilon", "true epsilon", "ours: mean ± std (runs)", "paper")
WORDS = 2  # columns of words, to the left; numbers are to the right
_DECIMALS = {"mnist": (4, 2), "usps": (3, 1)}  # of our mean, and of the paper's figure as it is printed there
_NOTES = {
    "usps": "The paper's DP-SGD figures were made with half of the noise that their epsilon needs: what it calls "
    "8 / 4 / 2 / 1 is about 18.1 / 7.5 / 3.5 / 1.6."
}


def markdown(rows: Sequence[TableRow], published: Published, metric: Mapping[str, str]) -> str:
    """Every table that has a row; a sentence if there is none."""
    present = [table for table in metric if any(row.table == table for row in rows)]
    if not present:
        return "No run is finished yet: python -m reproduction all makes them.\n"
    return "\n".join(_table([r for r in rows if r.table == table], published, metric[table]) for table in present)


def aligned(rows: Sequence[Sequence[str]], words: int = WORDS) -> list[str]:
    """The lines of a Markdown table: columns padded to their widest cell, the first row above a rule."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    shown = [
        [cell.ljust(w) if i < words else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    ]
    rule = ["-" * w if i < words else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return [f"| {' | '.join(cells)} |" for cells in (shown[0], rule, *shown[1:])]


def decimals(table: str) -> int:
    """How many of our scores are shown."""
    return _DECIMALS.get(table, (4, 2))[0]


def _table(rows: Sequence[TableRow], published: Published, metric: str) -> str:
    table = rows[0].table
    keyed = [((r.epsilon, 0, r.preset, rank(r.row)), _cells(r, published)) for r in rows]
    present = {(r.table, r.row, r.epsilon) for r in rows}
    for (its_table, row, epsilon), figure in published.items():
        if its_table == table and (its_table, row, epsilon) not in present:
            ours = "-" if is_quoted(row) else "not run"
            cells = (row, "-", f"{epsilon:g}", "-", ours, _paper(table, figure))
            keyed.append(((epsilon, 1, "", rank(row)), cells))
    lines = aligned([HEADER, *(cells for _, cells in sorted(keyed))])
    better = "higher is better" if "accuracy" in metric else "lower is better"
    notes = [textwrap.fill(note, 120) for note in _notes(rows, table)]
    return "\n".join([f"## {table.upper()}: {metric} ({better})", "", *lines, "", "\n\n".join(notes), ""])


def _notes(rows: Sequence[TableRow], table: str) -> list[str]:
    deltas = ", ".join(f"{delta:g}" for delta in sorted({row.delta for row in rows}))
    return [
        f"True epsilon: composed from all releases that the runs recorded, at delta = {deltas}, rounded up; the unit "
        f"is {UNIT}. Paper: the figure printed there for that stated epsilon; rows marked as quoted are others' "
        "figures that it quotes, and were not run here. std: of the runs, with n - 1.",
        "All runs are seeded, and their scores and curves are read off rows without any noise: research, not releases.",
        *([_NOTES[table]] if table in _NOTES else []),
        *(f"MIXED: {r.row} ({r.preset}) at {r.epsilon:g} has runs of different recipes." for r in rows if r.mixed),
    ]


def _cells(row: TableRow, published: Published) -> tuple[str, ...]:
    figure, places = published.get((row.table, row.row, row.epsilon)), decimals(row.table)
    spread = "-" if row.std is None else f"{row.std:.{places}f}"
    ours = f"{row.mean:.{places}f} ± {spread} ({len(row.runs)})"
    paper = "-" if figure is None else _paper(row.table, figure)
    return row.row, row.preset, f"{row.epsilon:g}", round_up(row.true_epsilon, 2), ours, paper


def _paper(table: str, figure: float) -> str:
    return f"{figure:.{_DECIMALS.get(table, (4, 2))[1]}f}"
