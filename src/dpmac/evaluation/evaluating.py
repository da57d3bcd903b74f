"""``dpmac.evaluate``: private scores of a fitted model, by one release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.evaluation.asked import Asked, book_for, delta_for, epsilon_from
from dpmac.evaluation.result import Evaluation
from dpmac.extensions.provenance import origin_of
from dpmac.methods.scores import Scores
from dpmac.privacy import Ledger
from dpmac.privacy.accounting import epsilon_of
from dpmac.randomness import noise_source

PURPOSE = "evaluation"


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    delta: float | None = None,
    ledger: Ledger | str | Path | None = None,
    groups: Any = None,
    by: Sequence[str] = (),
    random_state: int | None = None,
) -> Evaluation:
    """Score ``model`` on private rows, for a price of ``epsilon``: one release, with 95 % intervals.

    ``X``, ``y`` and ``groups`` are those of ``fit`` (``y`` None takes the schema's target). The release is recorded in
    ``ledger``; None takes the model's own, which adds it to the cost of the training. For rows that were not trained
    on, divide the data set (:func:`dpmac.split`), train with the ledger of one split, and give that of the other here:
    then a row pays for the training or for the scores, not for both.

    ``delta`` None takes the account's, or the model's. ``by`` names columns of categories in the schema: subgroups,
    whose rates come from the same release. ``random_state`` makes the noise repeatable, and the scores not private
    against anyone who knows it. Everything is checked before anything is spent.
    """
    epsilon = epsilon_from(epsilon)
    asked = Asked.of(model, X, y, groups, by)
    book = book_for(model, ledger)
    delta = delta_for(model, book, delta, asked.n)
    _check_origin(model, book)
    micro_batch = getattr(model._machine, "micro_batch_size", None)
    scores = Scores.for_budget(epsilon, delta, asked.kind.tallies())
    source = noise_source(random_state)
    with book.exclusive(refusing=True):
        book.check_unit(asked.unit, asked.n)
        book.check_plan([scores.mechanism()])
        with book.noting(purpose=PURPOSE):
            found = scores.fit(asked.rows, asked.outputs, source.spawn("scores"), book, micro_batch)
    return Evaluation(
        asked.kind.score(found),
        rows=asked.n,
        epsilon=epsilon_of([scores.mechanism()], delta),
        delta=delta,
        whole=book.epsilon(delta),
        unit=asked.unit,
        noise_multiplier=scores.noise_multiplier,
        positive=asked.positive,
        split=getattr(book, "name", ""),
        seeded=source.seeded,
    )


def _check_origin(model: Any, book: Ledger) -> None:
    """Raise unless the ledger holds what has shaped the model: its rows may be the same."""
    if not origin_of(model.run_.outputs, name="model").within(book):
        fix = (
            "it does not hold what the model's training has released: give the ledger that it was trained with, or one "
            "of its splits (dpmac split); otherwise the price would leave the training out"
        )
        raise ArgumentError("ledger", book, fix)
