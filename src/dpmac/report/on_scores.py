"""The report's sections on scores: what the model scores and beside what, thresholds to choose, and its calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpmac.report.charts import Axis, Line, line_chart, spread
from dpmac.report.markup import Markup, figure, group, paragraph, section, table
from dpmac.report.reliability import Bin, Reliability
from dpmac.report.run_contents import RunContents

NO_SCORES = Markup(
    "There are no scores here. A score on the rows that the model was trained on, or on other private rows, is "
    "a release of its own and is not covered by the guarantee. "
    "<code>dpmac evaluate RUN FILE --epsilon 0.5 --ledger LEDGER</code> pays for private scores, "
    "<code>--public</code> keeps scores on rows that are public, and either will stand here."
)


BESIDE: Mapping[str, tuple[str, str]] = {
    "accuracy": ("accuracy_of_commonest_class", "{} for always saying the commonest class"),
    "log_loss": ("log_loss_of_base_rate", "{} for always saying the base rate; lower is better"),
    "average_precision": ("base_rate", "{} for drawing lots, the base rate"),
}
"""A score that says little by itself, the score beside which it is shown, and the words for that."""
TOPS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)  # of the axes of probabilities
RATES = ("sensitivity", "specificity", "precision", "called")


def scores_section(run: RunContents) -> Markup:
    """Scores on public or paid-for rows, or why there are none."""
    found = run.scores
    title = "What it scores"
    if found is None:
        return section("scores", title, paragraph(NO_SCORES), *_progress(run))
    where = ""
    if found.get("file"):
        where = f" of {found['file']}"
    said = "that were paid for in the ledger"
    if found.get("public") is True:
        said = "that the user called public"
    rows_ = found.get("rows")
    count = "rows"
    if isinstance(rows_, int):
        count = f"{rows_:,} rows"
    scores = scores_in(found)
    shown_beside = {other for name, (other, _) in BESIDE.items() if name in scores}
    rows = [
        (name.replace("_", " "), figure_of(value) + _interval(name, found), beside(name, scores))
        for name, value in scores.items()
        if name not in shown_beside or name == "base_rate"
    ]
    trained = "the rows that it was trained on"
    if run.one != "row":
        trained = "the persons whose rows it was trained on"
    about = f"The guarantee is about {trained}, not about these rows."
    if found.get("paid") is True and found.get("price"):
        about = (
            f"{found['price']} In brackets: 95 % intervals, for the noise of the release and the chance of these rows."
        )
    words = paragraph(f"Measured on {count}{where} {said}. {about}")
    kept = [0, 1] + [2] * any(row[2] for row in rows)
    shown = table(("score", "value", "to be seen beside")[: len(kept)], [[row[k] for k in kept] for row in rows], (1,))
    return section("scores", title, words, shown, *_thresholds(found), *_progress(run))


def _interval(name: str, found: Mapping[str, Any]) -> str:
    """The interval of a private score, in brackets; empty if there is none."""
    known = found.get("intervals")
    if not isinstance(known, Mapping) or name not in known:
        return ""
    ends = known[name]
    if not isinstance(ends, list) or len(ends) != 2:
        raise ValueError(f"evaluation.json: its interval of {name!r} is not two numbers")
    return f" ({figure_of(ends[0])} to {figure_of(ends[1])})"


def beside(name: str, scores: Mapping[str, Any]) -> str:
    """What a score must be seen beside; empty if it speaks for itself, or the other was not measured."""
    other, words = BESIDE.get(name, ("", ""))
    if other not in scores:
        return ""
    return words.format(figure_of(scores[other]))


def _thresholds(found: Mapping[str, Any]) -> list[Markup]:
    """What each of some thresholds does, to choose one; nothing where there are none."""
    listed = found.get("thresholds") or ()
    try:
        rows = [(figure_of(float(one["threshold"])), *(_rate(one[name]) for name in RATES)) for one in listed]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"evaluation.json: its thresholds are not a list of rates ({error})") from None
    if not rows:
        return []
    positive = found.get("positive")
    words = (
        f"A row is called “{positive}” if its probability is the threshold or more. A rare outcome is seldom more "
        "likely than one half, so a threshold near the base rate finds more of those who have it, and calls more who "
        "have not. Which of the two errors weighs more is not a question of statistics: choose, and give the threshold "
        "to "
    )
    head = ("threshold", "sensitivity: found, of those who are", "specificity: left alone, of those who are not",
            "precision: right, of those called", "called, of all")  # fmt: skip
    return [
        Markup("<h3>A threshold to choose</h3>"),
        paragraph(words, Markup("<code>dpmac predict --threshold</code>.")),
        table(head, rows, numeric=range(5)),
    ]


def _rate(value: Any) -> str:
    if value is None:
        return "nobody"
    rate = float(value)
    if not 0 <= rate <= 1:
        raise ValueError(f"{value!r:.40} is no rate")
    return _tenths(rate)


def _progress(run: RunContents) -> list[Markup]:
    """Metrics that the history has, which are of rows the user handed over as public."""
    names = sorted({name for record in run.history for name in record.metrics})
    made = []
    for name in names[:3]:
        points = [(record.epoch, float(record.metrics[name])) for record in run.history if name in record.metrics]
        values = [value for _, value in points if math.isfinite(value)]
        if len(values) < 2:
            continue
        y = Axis(name.replace("_", " "), *spread(values, 1e-3))
        chart = line_chart(
            name, [Line(name, points)], Axis(f"expected passes over the {run.one}s", 0.0, points[-1][0]), y
        )
        made.append(figure(chart, "On public rows, while the model was trained."))
    return made


def calibration_section(run: RunContents) -> Markup | None:
    """Predicted against observed; None without an evaluation that has it."""
    bins = _bins(run.scores or {})
    if not bins:
        return None
    found = Reliability(tuple(bins))
    unit = (0.0, _top(bins))
    positive = (run.scores or {}).get("positive")
    of = ""
    if positive:
        of = f" of “{positive}”"
    line = Line("observed", [(b.predicted, b.observed) for b in bins], dots=True)
    chart = line_chart(
        "Predicted against observed probabilities",
        [line, Line("as predicted", [(0.0, 0.0), (unit[1], unit[1])], colour=0, dashed=True)],
        Axis(f"predicted probability{of}", *unit, percent=True),
        Axis("part that came about", *unit, percent=True),
    )
    head = ("predicted", "came about", "rows", "chance, 2 dev.")
    rows = [(_tenths(b.predicted), _tenths(b.observed), f"{b.rows:,}", f"± {_tenths(2 * b.chance)}") for b in bins]
    words = paragraph(
        f"The mean difference is {_tenths(found.error)}; probabilities that are right would show "
        f"{_tenths(found.error_by_chance)} by chance, as rows are few."
    )
    both = group("pair", figure(chart, "Points on the dashed line are probabilities that mean what they say."),
                 group("", words, table(head, rows, numeric=(0, 1, 2, 3))))  # fmt: skip
    return section("calibration", "What its probabilities are worth", both)


def _top(bins: Sequence[Bin]) -> float:
    """Where the axes end: a rare outcome's probabilities would all lie in one corner of the whole."""
    most = max(max(b.predicted, b.observed) for b in bins)
    return next(top for top in TOPS if most <= top)


def _tenths(part: float) -> str:
    return f"{100 * part:.1f} %"


def _bins(found: Mapping[str, Any]) -> list[Bin]:
    """The bins of an evaluation. The file has no digest that speaks for it, so it is read with care."""
    numbers = ("low", "high", "predicted", "observed")
    try:
        made = [
            Bin(rows=int(one["rows"]), **{key: float(one[key]) for key in numbers})
            for one in found.get("reliability") or ()
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"evaluation.json: its reliability is not a list of bins ({error})") from error
    if any(not 0 <= b.predicted <= 1 or not 0 <= b.observed <= 1 for b in made):
        raise ValueError("evaluation.json: its reliability has a probability outside 0 to 1")
    return [one for one in made if one.rows > 0]


def scores_in(found: Mapping[str, Any]) -> dict[str, Any]:
    scores = found.get("scores")
    if isinstance(scores, Mapping):
        return dict(scores)
    return {}


def figure_of(value: Any) -> str:
    """A score in four digits; anything else as it is."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.4g}"
    return str(value)
