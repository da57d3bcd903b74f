"""The demonstration on a table of people: how well a private model ranks them, and what its probabilities are worth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmac.cli.demo import Shown, fit_both, names

if TYPE_CHECKING:
    from rich.console import Console

    from dpmac.data import TableOfPeople
    from dpmac.estimators import DPMACClassifier
    from dpmac.report.reliability import Reliability

OUTCOME = "more than 50,000 dollars a year"


@dataclass(frozen=True)
class Scores:
    """Of predicted probabilities on test rows."""

    auroc: float
    log_loss: float
    reliability: Reliability

    def result(self) -> dict[str, Any]:
        """For ``result.json``."""
        return {
            "auroc": self.auroc,
            "log_loss": self.log_loss,
            "calibration_error": self.reliability.error,
            "calibration_error_by_chance": self.reliability.error_by_chance,
            "reliability": [asdict(b) for b in self.reliability.bins],
        }


def show(console: Console, epsilon: float, settings: dict[str, Any]) -> Shown:
    """Train with the defaults, a schema and a budget, and show ranking, log-loss and reliability on test rows."""
    import numpy as np

    from dpmac.cli.data import clear_errors
    from dpmac.cli.scores import evaluation_of
    from dpmac.data import load_table

    with clear_errors():
        table = load_table()
    _introduce(console, table)
    labels = table.test[str(table.schema.target)]
    happened = np.asarray(labels) == table.schema.positive
    chosen = {"schema": table.schema, **settings}
    private, plain = fit_both(console, epsilon, chosen, table.train, None, (table.test, labels))
    scores = [_scores(model, table, happened) for model in (private, plain)]
    base = _scores_of(happened, np.full(len(happened), happened.mean()))
    _compare(console, private, scores, base)
    _explain(console, scores[0].reliability)

    def draw(folder: Path) -> None:
        from dpmac.report.plots import reliability_curves, training_curves

        title = f"{table.name}: {len(happened):,} people who were not trained on"
        found = dict(zip(names(private), (s.reliability for s in scores), strict=True))
        reliability_curves(found, folder / "reliability.png", title=title, outcome=OUTCOME)
        curves = dict(zip(names(private), (private.history_, plain.history_), strict=True))
        training_curves(curves, folder / "curves.png", title=f"Test accuracy on {table.name}")

    result = {
        "data": table.name,
        "test": scores[0].result(),
        "test_not_private": scores[1].result(),
        "base_rate": float(happened.mean()),
        "base_rate_log_loss": base.log_loss,
    }
    test = evaluation_of(private, table.schema, table.test, f"the test rows of {table.name}", public=True)
    return Shown(private, result, draw, test)


def _introduce(console: Console, table: TableOfPeople) -> None:
    rows, columns = len(table.train[str(table.schema.target)]), len(table.schema.features)
    console.print(
        f"{table.name}: {rows:,} people to train on, {len(table.test[str(table.schema.target)]):,} to test on, "
        f"{columns} columns; who earned {OUTCOME}?\n"
        f"UCI Adult, US census of 1994 (Becker and Kohavi, CC BY 4.0); the file and its licence: {table.source}\n",
        highlight=False,
        soft_wrap=True,
    )


def _scores(model: DPMACClassifier, table: TableOfPeople, happened: Any) -> Scores:
    place = list(model.classes_).index(table.schema.positive)
    return _scores_of(happened, model.predict_proba(table.test)[:, place])


def _scores_of(happened: Any, p: Any) -> Scores:
    from sklearn.metrics import log_loss, roc_auc_score

    from dpmac.report.reliability import reliability

    return Scores(float(roc_auc_score(happened, p)), float(log_loss(happened, p)), reliability(happened, p))


def _compare(console: Console, private: DPMACClassifier, scores: list[Scores], base: Scores) -> None:
    from rich.table import Table

    from dpmac.privacy.statement import round_up

    table = Table(
        title="On the test rows", caption="AUROC: 0.5 is a guess, 1 the perfect order. Log-loss: less is better."
    )
    table.add_column("model")
    for name in ("epsilon", "AUROC", "log-loss", "calibration error"):
        table.add_column(name, justify="right")
    kinds = ("private (DP-MAC)", "same network, not private", "the base rate for everyone")
    spent = (round_up(private.privacy_.epsilon), "none", "none")
    for kind, epsilon, found in zip(kinds, spent, (*scores, base), strict=True):
        error = ""
        if found is not base:
            error = f"{found.reliability.error:.3f}"
        table.add_row(kind, epsilon, f"{found.auroc:.3f}", f"{found.log_loss:.3f}", error)
    console.print(table)


def _explain(console: Console, found: Reliability) -> None:
    """Predicted against observed, by bin."""
    from rich.table import Table

    caption = (
        f"Calibration error {found.error:.3f}: the mean distance. "
        f"Right probabilities would show {found.error_by_chance:.3f}, by chance."
    )
    table = Table(title="What the private model's probabilities are worth", caption=caption)
    table.add_column("it said")
    for name in ("people", "mean of what it said", "it was so", "chance (+-)"):
        table.add_column(name, justify="right")
    for b in found.bins:
        said = f"{b.low:.0%} to {b.high:.0%}"
        table.add_row(said, f"{b.rows:,}", f"{b.predicted:.1%}", f"{b.observed:.1%}", f"{b.chance:.1%}")
    console.print(table)
