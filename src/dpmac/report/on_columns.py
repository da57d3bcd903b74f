"""The report's section on columns: the effect of each, or what comes back of a row, on synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from dpmac.checks import how_many
from dpmac.report.charts import Axis, Line, dots, keys, line_chart, short, spread
from dpmac.report.effects import Effect, Effects, effects_of, way_back
from dpmac.report.markup import Markup, group, paragraph, section, table, text
from dpmac.report.noise import COPIES, noisy_copies
from dpmac.report.run_contents import RunContents
from dpmac.report.synthetic import MISSING, Maker, maker_for
from dpmac.showing import shown

COLUMNS = 12  # of which effects are drawn
FOLDED = 12  # values of a category that are drawn
NAMED = 30  # columns that are listed
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
    known, whence = _reference(run)
    copies = noisy_copies(run.estimator, run.plan, run.ledger, run.history)
    with shown("effects of columns") as tell:
        found = effects_of(run.estimator, maker, run.schema, copies, known, tell)
    what = "prediction"
    if found.probabilities:
        what = "probability"
    of = ""
    if found.probabilities and len(found.outputs) == 1:
        of = f" of “{found.outputs[0]}”"
    y = _axis(found)
    cells = ", ".join(f"{name} {cell}" for name, cell in list(found.reference.items())[:COLUMNS])
    more = ""
    if len(found.reference) > COLUMNS:
        more = f" and {len(found.reference) - COLUMNS:,} more"
    there = ", ".join(y.write(float(value)) for value in found.there)
    words = paragraph(
        f"The {what}{of} as one column takes each of its values and the others stay at a reference row, {whence}: "
        f"{cells}{more}. There the model says {there}. It is a question to the released model, so it costs no privacy. "
        "Around another row, or where columns go together, effects differ: read this as what the model does, not the "
        "world."
    )
    several = len(found.outputs) > 1
    legend = []
    if several:
        legend = [Markup(keys([(name, f"c{k + 1}") for k, name in enumerate(found.outputs)]))]
    if found.left_out:
        legend.insert(0, paragraph(f"Drawn are the outputs that move most; {found.left_out} are left out."))
    cards = [group("card", _effect(one, found, y)) for one in found.columns[:COLUMNS]]
    notes = [paragraph(line, style="soft") for line in _notes(found, bool(copies), y)]
    return section("columns", title, words, *legend, group("cards", *cards), *notes)


def _reference(run: RunContents) -> tuple[Mapping[str, float], str]:
    """Codes of a public reference row, and where it is from."""
    scores = run.scores
    if scores is not None and scores.get("public") is True and isinstance(scores.get("reference"), Mapping):
        known = {str(name): float(code) for name, code in scores["reference"].items() if isinstance(code, Real)}
        return known, "the middle of the public rows that it was scored on"
    words = "the middle of each range and the first of a category's values, by the schema; scores on public rows "
    return {}, f"{words}(dpmac evaluate --public) give a more usual one"


def _axis(found: Effects) -> Axis:
    every = [float(v) for one in found.columns for v in one.means.ravel()]
    return Axis("", *spread(every, 0.02 if found.probabilities else 0.0), percent=found.probabilities)


def _notes(found: Effects, known: bool, y: Axis) -> list[str]:
    """What stands below the drawings: the scale, the columns that are not drawn, and what the bands are."""
    lines = [
        f"All on one scale, from {y.write(y.low)} to {y.write(y.high)}; the columns that move it most come first, and "
        "beside each stands by how much."
    ]
    rest = found.columns[COLUMNS:]
    if rest:
        most = max(one.size for one in rest)
        lines[0] += f" Not drawn: {how_many(len(rest), 'column')} that move it by {_amount(most, y)} at most."
    if found.not_tried:
        lines.append(
            f"Not tried: the schema's last {how_many(found.not_tried, 'column')}. This kind of model has to be asked "
            "with whole rows, which would take too long for all."
        )
    drowned = [one.column for one in found.columns if one.drowned]
    if drowned:
        more = f" and {len(drowned) - NAMED:,} more" if len(drowned) > NAMED else ""
        lines.append(
            "Last come columns that cannot be told from the noise of the training, which alone would have moved the "
            f"prediction as far: {', '.join(drowned[:NAMED])}{more}. Read nothing into their drawings."
        )
    if known:
        lines.append(
            f"Dashed lines and ± show two deviations of what that noise has done, by {COPIES} made-up trainings on "
            "noise alone. It is an upper estimate: what is learned pulls weights back, and noise alone does not."
        )
    elif found.columns:
        lines.append("How much of this is the noise of the training is not known of this kind of model.")
    return lines


def _effect(one: Effect, found: Effects, y: Axis) -> Markup:
    colours = list(range(1, len(found.outputs) + 1))
    named = Markup(f"<h3>{text(one.column)} <span>{_amount(one.size, y)}</span></h3>")
    if one.drowned:
        named = Markup(named + '<p class="aside">not told from noise</p>')
    rows = [(label, [float(v) for v in means]) for label, means in zip(one.cells.labels, one.means, strict=True)]
    band = one.band
    if not one.of.ordered:
        return Markup(named + _folded(rows, band, y, colours))
    gone = [row for row in rows if row[0] == MISSING]
    places = one.of.positions(np.array(one.cells.values, dtype=one.of.dtype))
    pairs = [(float(x), k, row[1]) for k, (x, row) in enumerate(zip(places, rows, strict=True)) if row[0] != MISSING]
    x = Axis("", pairs[0][0], pairs[-1][0], written=lambda value: one.of.tick(value, short))
    lines = []
    for k, name in enumerate(found.outputs):
        lines.append(Line(name, [(at, values[k]) for at, _, values in pairs], colour=k + 1))
        if band is not None and len(found.outputs) == 1:
            for side in (-1, 1):
                edge = [(at, _within(y, values[k] + side * float(band[row, k]))) for at, row, values in pairs]
                lines.append(Line("noise", edge, colour=k + 1, dashed=True, thin=True))
    chart = line_chart(f"Effect of {one.column}", lines, x, y, card=True, legend=False)
    return Markup(named + chart + (dots(gone, y, colours) if gone else ""))


def _folded(rows: Sequence[tuple[str, list[float]]], band: Any, y: Axis, colours: Sequence[int]) -> str:
    """A track for each value; of many values those at both ends, and how many lie between."""
    marked = [(label, values, 0.0 if band is None else float(band[k].max())) for k, (label, values) in enumerate(rows)]
    if len(marked) > FOLDED:
        marked.sort(key=lambda row: -row[1][0])
    shown_ = [(_with(label, noise, y), values) for label, values, noise in marked]
    if len(shown_) <= FOLDED:
        return dots(shown_, y, colours)
    half = FOLDED // 2
    between = f'<p class="aside">{len(shown_) - 2 * half:,} more values between</p>'
    return dots(shown_[:half], y, colours) + between + dots(shown_[-half:], y, colours)


def _with(label: str, noise: float, y: Axis) -> str:
    if not noise:
        return label
    return f"{label} ±{_amount(noise, y).removesuffix(' points')}"


def _within(y: Axis, value: float) -> float:
    return min(y.high, max(y.low, value))


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
        note = [paragraph(f"{cut:,} more columns are left out here.", style="soft")]
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
