"""The head of the report: what the model is, and the figures that are seen first."""

from __future__ import annotations

import math
from typing import Any

from dpmac.checks import how_many
from dpmac.disclosure.spent import said
from dpmac.privacy.statement import not_less
from dpmac.report.attack import Attack
from dpmac.report.markup import Markup, facts, paragraph, text
from dpmac.report.on_privacy import bound_above
from dpmac.report.on_scores import beside, figure_of, scores_in
from dpmac.report.run_contents import RunContents


def head_section(run: RunContents, attack: Attack | None) -> Markup:
    """Name, what was trained, when, and the figures that are seen first."""
    statement = run.statement
    if statement.noisy:
        epsilon, words = said(statement.epsilon), f"at delta = {not_less(run.delta)}"
    else:
        epsilon, words = "none", "NOT PRIVATE: a release without noise"
    if statement.noisy and run.ledger.seeded:
        words += "; seeded, for research only"
    shown = [("epsilon", epsilon, f"for one {run.one}, {words}; all that the ledger holds")]
    own = run.spent.own
    if own is not None and math.isfinite(own):
        shown.append(("this model alone", said(own), f"of a budget of {run.spent.budget:g}, for one {run.one}"))
    shown.append(("releases", f"{len(run.ledger):,}", "all in one ledger"))
    if attack is not None:
        sure = bound_above(attack.posterior(0.5, run.delta)[1])
        shown.append(("from 50 % sure to", sure, f"at most, that one {run.one} is in the table"))
    if run.plan is not None:
        shown.append((f"{run.one}s", f"{run.plan.n:,}", "their number is public"))
    for name, value, other in _first_scores(run):
        words = "on public rows"
        if run.scores is not None and run.scores.get("paid") is True:
            words = "on private rows, by a release"
        if other:
            words += f"; {other}"
        shown.append((name.replace("_", " "), figure_of(value), words))
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
        width = f" {side} {how_many(columns, 'column')}{table_}"
    if hasattr(estimator, "takes"):  # pictures have no columns
        width = f": it takes {estimator.takes()}"
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


def _first_scores(run: RunContents) -> list[tuple[str, Any, str]]:
    """Two scores of what was measured, and what they are to be seen beside."""
    if run.scores is None:
        return []
    found = scores_in(run.scores)
    return [(name, value, beside(name, found)) for name, value in list(found.items())[:2]]
