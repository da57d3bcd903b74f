"""The report's section on the terms of an additive model: what it makes of every column, exactly, and who edited it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpmac.report.charts import Axis, Line, dots, keys, line_chart, short, spread
from dpmac.report.markup import Markup, bullets, group, paragraph, section, table, text
from dpmac.report.run_contents import RunContents

MANY = 4  # outputs that are drawn at most
LEVELS = 40  # values of a category that are drawn at most


def is_additive(run: RunContents) -> bool:
    return hasattr(run.estimator, "edits_")


def terms_section(run: RunContents) -> Markup:
    """Every term drawn with the band of the known noise, the intercept, and the edits."""
    terms = run.estimator.terms()
    drawn, shown = terms.ranked(), _shown(terms)
    y = Axis("", *spread([end for term in drawn for end in _ends(term, shown, len(terms.outputs))]))
    cards = [group("card", _term(term, terms, shown, y, run)) for term in drawn if len(term.columns) == 1]
    wide = [group("card", _term(term, terms, shown, y, run)) for term in drawn if len(term.columns) > 1]
    return section(
        "columns",
        "What each column does",
        paragraph(_words(terms)),
        *_legend(terms, shown),
        group("cards", *cards),
        *wide,
        paragraph(
            f"All on one scale, from {y.write(y.low)} to {y.write(y.high)}; the terms that can move the sum furthest "
            "come first, and beside each stands by how much. The shaded band is one standard deviation of the noise "
            "that was added, as far as it is known: in repeated fits values stay within it more often than not. "
            "A term that is smaller than its band says nothing.",
            style="soft",
        ),
        *_edits(run),
    )


def _words(terms: Any) -> str:
    what = f"the logit of “{terms.outputs[0]}”"
    if len(terms.outputs) > 1:
        what = "a score of each class or label"
    if terms.model.link == "number":
        what = f"“{terms.outputs[0]}”"
    start = ", ".join(short(float(value)) for value in np.atleast_1d(terms.intercept)[:MANY])
    return (
        f"The model is a sum of terms: {what} is {start} plus one number for each term below, and nothing else. These "
        "are the model's own numbers, not an approximation of them. Each is 0 on average over its points. They say "
        "what the model does, not what causes what."
    )


def _shown(terms: Any) -> list[int]:
    """The outputs that are drawn: those that any term moves most."""
    count = len(terms.outputs)
    if count <= MANY:
        return list(range(count))
    reach = np.ptp(terms.model.values, axis=1)
    found: list[int] = sorted(np.argsort(-reach)[:MANY].tolist())
    return found


def _legend(terms: Any, shown: Sequence[int]) -> list[Markup]:
    found = []
    if len(shown) < len(terms.outputs):
        left = len(terms.outputs) - len(shown)
        found.append(paragraph(f"Drawn are the outputs that move most; {left} are left out."))
    if len(shown) > 1:
        found.append(Markup(keys([(terms.outputs[k], f"c{place + 1}") for place, k in enumerate(shown)])))
    return found


def _ends(term: Any, shown: Sequence[int], outputs: int) -> list[float]:
    found = [0.0]
    for part in term.parts:
        values = _of_outputs(part.values, part, outputs)[:, shown]
        found += [float(values.min()), float(values.max())]
    return found


def _of_outputs(numbers: Any, part: Any, outputs: int) -> Any:
    """Numbers of a part as (points, outputs)."""
    points = int(np.prod([len(labels) for labels in part.labels]))
    return np.reshape(numbers, (points, outputs))


def _term(term: Any, terms: Any, shown: Sequence[int], y: Axis, run: RunContents) -> Markup:
    made = ""
    if term.by_hand:
        made = ", set by hand"
    head = Markup(f"<h3>{text(term.name)} <span>{short(term.size)}{made}</span></h3>")
    colours, rows, drawn = [k + 1 for k in range(len(shown))], [], Markup("")
    for part in term.parts:
        values = _of_outputs(part.values, part, len(terms.outputs))[:, shown]
        if len(part.labels) > 1:
            return Markup(head + _grid(term, part, values[:, 0], y))
        if part.knots[0] is None:
            rows += [(label, [float(v) for v in one]) for label, one in zip(part.labels[0], values, strict=True)]
            continue
        band = None
        if part.band is not None:
            band = _of_outputs(part.band, part, len(terms.outputs))[:, shown]
        drawn = Markup(drawn + _curve(term, part, values, band, y, run))
    cut = rows[:LEVELS]
    more = ""
    if len(rows) > LEVELS:
        more = paragraph(f"and {len(rows) - LEVELS} more values", style="soft")
    if cut:
        drawn = Markup(drawn + dots(cut, y, colours) + more)
    return Markup(head + drawn)


def _curve(term: Any, part: Any, values: Any, band: Any, y: Axis, run: RunContents) -> str:
    knots = part.knots[0]
    column = None
    if run.schema is not None:
        column = run.schema.features.get(term.name)
    written: Callable[[float], str] = short
    if column is not None:
        written = partial(column.tick, written=short)
    x = Axis("", float(knots[0]), float(knots[-1]), written=written)
    lines = []
    for place in range(values.shape[1]):
        points = [(float(at), float(v)) for at, v in zip(knots, values[:, place], strict=True)]
        around: list[float] = []
        if band is not None and band.any():
            around = [float(b) for b in band[:, place]]
        lines.append(Line("", points, colour=place + 1, band=around))
    return line_chart(f"Term of {term.name}", lines, x, y, card=True, legend=False)


def _grid(term: Any, part: Any, values: Any, y: Axis) -> str:
    """A pair as a table of shaded numbers: rows are the first column's points."""
    first, second = part.labels
    numbers = values.reshape(len(first), len(second))
    most = max(abs(y.low), abs(y.high), 1e-300)
    rows = []
    for label, line in zip(first[:LEVELS], numbers[:LEVELS], strict=True):
        cells = [Markup(_cell(float(value), most)) for value in line[:LEVELS]]
        rows.append([label, *cells])
    across, down = term.columns[1], term.columns[0]
    words = paragraph(f"Down: {down}; across: {across}.", style="soft")
    return Markup(words + table(["", *second[:LEVELS]], rows))


def _cell(value: float, most: float) -> str:
    colour = "var(--c1)"
    if value < 0:
        colour = "var(--c2)"
    part = round(100 * min(1.0, abs(value) / most))
    style = f"background:color-mix(in srgb,{colour} {part}%,transparent);padding:.1rem .3rem;white-space:nowrap"
    return f'<span style="{style}">{text(f"{value:.2g}")}</span>'


def _edits(run: RunContents) -> list[Markup]:
    edits = run.estimator.edits_
    if not edits:
        return []
    words = (
        "Terms were edited after the training. An edit of released numbers costs no privacy, and the guarantee is the "
        "same, unless somebody looked at private rows to choose it."
    )
    lines = [f"{edit.sentence()}." for edit in edits]
    return [Markup("<h3>What was edited</h3>"), paragraph(words), bullets(lines)]
