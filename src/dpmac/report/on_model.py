"""The report's sections on the model: what it is, what it scores, and its calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpmac.privacy.statement import not_less, round_up
from dpmac.report.attack import Attack
from dpmac.report.charts import Axis, Line, line_chart, spread
from dpmac.report.markup import Markup, facts, figure, group, paragraph, section, table, text
from dpmac.report.on_privacy import bound_above
from dpmac.report.reliability import Bin, Reliability
from dpmac.report.run_contents import RunContents

NO_SCORES = Markup(
    "There are no scores here. A score on the rows that the model was trained on, or on other private rows, is "
    "a release of its own and is not covered by the guarantee. "
    "<code>dpmac evaluate RUN FILE --public</code> keeps scores on rows that are public, and they will stand here."
)


def head_section(run: RunContents, attack: Attack | None) -> Markup:
    """Name, what was trained, when, and the figures that are seen first."""
    statement = run.statement
    if statement.noisy:
        epsilon, words = round_up(statement.epsilon, 3), f"at delta = {not_less(run.delta)}"
    else:
        epsilon, words = "none", "NOT PRIVATE: a release without noise"
    if statement.noisy and run.ledger.seeded:
        words += "; seeded, for research only"
    shown = [("epsilon", epsilon, f"for one {run.one}, {words}; all that the ledger holds")]
    own = run.spent.own
    if own is not None and math.isfinite(own):
        shown.append(("this model alone", round_up(own, 3), f"of a budget of {run.spent.budget:g}, for one {run.one}"))
    shown.append(("releases", f"{len(run.ledger):,}", "all in one ledger"))
    if attack is not None:
        sure = bound_above(attack.posterior(0.5, run.delta)[1])
        shown.append(("from 50 % sure to", sure, f"at most, that one {run.one} is in the table"))
    if run.plan is not None:
        shown.append((f"{run.one}s", f"{run.plan.n:,}", "their number is public"))
    shown += [(name.replace("_", " "), _figure(value), "on public rows") for name, value in _first_scores(run)]
    made = "Trained"
    if run.created:
        made += f" {run.created[:10]}"
    if run.version:
        made += f" by dpmac {run.version}"
    return Markup(
        f"<header>{paragraph('Report on a model trained with differential privacy', style='kicker')}"
        f"<h1>{text(run.name)}</h1>{paragraph(_what(run), style='lead')}{paragraph(made, style='soft')}"
        f"{facts(shown)}</header>"
    )


def _what(run: RunContents) -> str:
    schema, estimator = run.schema, run.estimator
    columns, of, table_ = getattr(estimator, "n_features_in_", None), "", ""
    if schema is not None:
        columns = len(schema.features)
        if schema.target and not run.codes:
            of = f" of “{schema.target}”"
        if schema.name:
            table_ = f" (table “{schema.name}”)"
    article = "A"
    if run.kind[0] in "aeiou":
        article = "An"
    side = "from"
    if run.codes:
        side = "of"
    width = ""
    if columns:
        width = f" {side} {columns} columns{table_}"
    words = [f"{article} {run.kind}{of}{width}."]
    classes = getattr(estimator, "classes_", None)
    if classes is not None and not run.codes:
        named = [str(label) for label in classes]
        more = ""
        if len(named) > 8:
            more = f" and {len(named) - 8} more"
        words.append(f"Classes: {', '.join(named[:8])}{more}.")
    network = getattr(estimator, "network_", None)
    if network is not None:
        sizes = getattr(network, "sizes", None)
        if sizes:
            words.append(f"Its network has {' → '.join(f'{size:,}' for size in sizes)} units.")
    elif isinstance(getattr(estimator, "module", None), str):
        words.append(f"Its model is the torch module {estimator.module}, whose code is not in the folder.")
    elif run.codes:
        code = getattr(estimator, "code_size_", getattr(estimator, "n_components_", None))
        words.append(f"A row becomes a code of {code} numbers, by a closed form.")
    return " ".join(words)


# --- scores -----------------------------------------------------------------------------------------------------------


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
    rows = [(name.replace("_", " "), _figure(value)) for name, value in _scores(found).items()]
    trained = "the rows that it was trained on"
    if run.one != "row":
        trained = "the persons whose rows it was trained on"
    words = paragraph(f"Measured on {count}{where} {said}. The guarantee is about {trained}, not about these rows.")
    return section("scores", title, words, table(("score", "value"), rows, numeric=(1,)), *_progress(run))


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
    unit = (0.0, 1.0)
    positive = (run.scores or {}).get("positive")
    of = ""
    if positive:
        of = f": {positive}"
    line = Line("observed", [(b.predicted, b.observed) for b in bins], dots=True)
    chart = line_chart(
        "Predicted against observed probabilities",
        [line, Line("as predicted", [(0.0, 0.0), (1.0, 1.0)], colour=0, dashed=True)],
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


def _scores(found: Mapping[str, Any]) -> dict[str, Any]:
    scores = found.get("scores")
    if isinstance(scores, Mapping):
        return dict(scores)
    return {}


def _first_scores(run: RunContents) -> list[tuple[str, Any]]:
    if run.scores is not None:
        return list(_scores(run.scores).items())[:2]
    return []


def _figure(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.4g}"
    return str(value)
