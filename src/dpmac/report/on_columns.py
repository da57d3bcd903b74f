"""The report's section on columns: the effect of each, or what comes back of a row, on synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from dpmac.report.charts import Axis, Line, dots, keys, line_chart, short, spread
from dpmac.report.effects import Effect, Effects, effects_of, way_back
from dpmac.report.markup import Markup, group, paragraph, section, table, text
from dpmac.report.run_contents import RunContents
from dpmac.report.synthetic import MISSING, Maker, maker_for

COLUMNS = 12  # of which effects are drawn
EXAMPLES = 3
SYNTHETIC = (
    "computed on synthetic rows, which were drawn evenly from the public ranges and values of the columns: nobody is "
    "in them. It is a question to the released model, so it costs no privacy."
)


def columns_section(run: RunContents) -> Markup:
    """The effect of each column, or what comes back of a row, on synthetic rows."""
    maker = maker_for(run.estimator, run.schema)
    title = "What each column does"
    if run.codes:
        title = "What comes back of a row"
    if maker is None:
        words = "Nothing public says in which range the columns lie (no schema, no feature range)"
        return section("columns", title, paragraph(f"{words}, so no rows can be made up."))
    if isinstance(getattr(run.estimator, "feature_map", None), str):
        words = "The model's feature map has a torch module in it, whose code is not in the folder"
        return section("columns", title, paragraph(f"{words}, so it cannot be asked anything here."))
    if run.codes:
        return _way_back(run, maker, title)
    return _effects(run, maker, title)


def _effects(run: RunContents, maker: Maker, title: str) -> Markup:
    found = effects_of(run.estimator, maker, run.schema)
    what = "prediction"
    if found.probabilities:
        what = "probability"
    of = ""
    if found.probabilities and len(found.outputs) == 1:
        of = f" of “{found.outputs[0]}”"
    words = paragraph(
        f"The mean {what}{of} as one column takes each of its values and the others stay as they are, {SYNTHETIC} "
        "Columns of real rows go together, and those here do not: read this as what the model does, not the world."
    )
    shown, rest = found.columns[:COLUMNS], found.columns[COLUMNS:]
    ends = spread([float(v) for one in shown for v in one.means.ravel()], 0.02 if found.probabilities else 0.0)
    y = Axis("", *ends, percent=found.probabilities)
    several = len(found.outputs) > 1
    legend = []
    if several:
        legend = [Markup(keys([(name, f"c{k + 1}") for k, name in enumerate(found.outputs)]))]
    if found.left_out:
        legend.insert(0, paragraph(f"Drawn are the outputs that move most; {found.left_out} are left out."))
    cards = [group("card", _effect(one, found, y)) for one in shown]
    small = ""
    if rest:
        small = f"The other {len(rest)} columns move it less, by {_amount(rest[0].size, y)} at most each."
    scale = f"All on one scale, from {y.write(y.low)} to {y.write(y.high)}; the columns that move it most come first, "
    scale += "and beside each stands by how much."
    note = paragraph(f"{scale} {small}", style="soft")
    return section("columns", title, words, *legend, group("cards", *cards), note)


def _effect(one: Effect, found: Effects, y: Axis) -> Markup:
    colours = list(range(1, len(found.outputs) + 1))
    named = Markup(f"<h3>{text(one.column)} <span>{_amount(one.size, y)}</span></h3>")
    rows = [(label, [float(v) for v in means]) for label, means in zip(one.cells.labels, one.means, strict=True)]
    if not one.of.ordered:
        return Markup(named + dots(rows, y, colours))
    gone = [row for row in rows if row[0] == MISSING]
    places = one.of.positions(np.array(one.cells.values, dtype=one.of.dtype))
    pairs = [(float(x), row[1]) for x, row in zip(places, rows, strict=True) if row[0] != MISSING]
    x = Axis("", pairs[0][0], pairs[-1][0], written=lambda value: one.of.tick(value, short))
    lines = [
        Line(name, [(at, values[k]) for at, values in pairs], colour=k + 1) for k, name in enumerate(found.outputs)
    ]
    chart = line_chart(f"Effect of {one.column}", lines, x, y, card=True, legend=False)
    return Markup(named + chart + (dots(gone, y, colours) if gone else ""))


def _amount(size: float, y: Axis) -> str:
    if y.percent:
        return f"{100 * size:.2g} points"
    return short(size)


def _way_back(run: RunContents, maker: Maker, title: str) -> Markup:
    found = way_back(run.estimator, maker)
    words = paragraph(
        f"A row goes to its code and back, {SYNTHETIC} The columns of these rows are independent, so a code that is "
        "shorter than the row cannot give all of them back; of rows like those that were fitted more comes back."
    )
    ranked = sorted(found.kept, key=lambda name: -found.kept[name])
    axis = Axis("", 0.0, 1.0, percent=True)
    bars = dots([(name, [round(found.kept[name], 2)]) for name in ranked[:30]], axis)
    names = list(maker.columns)[:30]
    head = ["column", *(f"{side} {k + 1}" for k in range(EXAMPLES) for side in ("row", "came back"))]
    rows = [[name, *_cells(name, found.before, found.after)] for name in names]
    cut = len(maker.columns) - 30
    note = []
    if cut > 0:
        note = [paragraph(f"{cut} more columns are left out here.", style="soft")]
    scale = "100 %: every cell comes back as it was; 0 %: no better than a guess at the middle, or at one value."
    return section(
        "columns",
        title,
        words,
        Markup("<h3>How much of each column comes back</h3>"),
        group("card wide", Markup(bars)),
        paragraph(scale, style="soft"),
        Markup(f"<h3>{EXAMPLES} synthetic rows, and what came back</h3>"),
        table(head, rows),
        *note,
    )


def _cells(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[str]:
    def shown(cell: Any) -> str:
        if cell is None or cell != cell:
            return "(missing)"
        if isinstance(cell, Real):
            return short(float(cell))
        return str(cell)

    return [shown(side[name][k]) for k in range(EXAMPLES) for side in (before, after)]
