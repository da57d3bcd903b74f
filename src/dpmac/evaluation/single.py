"""One private score: the mean of one bounded number, by a plain Gaussian release. For comparing models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.evaluation import classes
from dpmac.evaluation import numbers as errors
from dpmac.evaluation.asked import Asked
from dpmac.methods.scores import Scores, Tally, means, numbers
from dpmac.privacy import Ledger
from dpmac.randomness import NoiseSource

NAME = "score"
OF_CLASSES, OF_NUMBERS = ("accuracy", "log_loss", "brier_score"), ("absolute_error",)


def tally_for(kind: classes.Classes | errors.Numbers, metric: str) -> Tally:
    """The tally of one number from 0 to 1 for each row, with all of the release. A smaller one is better, but for
    accuracy. A log-loss counts up to 5, and is divided by 5; an error is divided by the target's range."""
    of: Callable[[Tensor, Tensor], Tensor] | None = None
    if isinstance(kind, classes.Classes):
        known: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
            "accuracy": kind._right,
            "log_loss": partial(classes._loss, kind.predict, kind.classes),
            "brier_score": partial(classes._brier, kind.predict, kind.classes),
        }
        of = known.get(metric)
    elif metric in OF_NUMBERS:
        of = errors._size
    if of is None:
        names = OF_CLASSES if isinstance(kind, classes.Classes) else OF_NUMBERS
        raise ArgumentError("metric", metric, f"choose one of {', '.join(names)}")
    return numbers(NAME, 1.0, [of])


def private_score(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    metric: str,
    noise_multiplier: float,
    ledger: Ledger,
    source: NoiseSource,
    groups: Any = None,
) -> float:
    """The mean of ``metric`` over the rows, from 0 to 1 but for noise of ``noise_multiplier`` / (2 n).

    (The noise is half of the multiplier over n, because the mean of a number from 0 to 1 is released about 1/2.)
    Adds exactly one entry to ``ledger``: a plain Gaussian release of ``Mechanism(noise_multiplier)``.
    """
    asked = Asked.of(model, X, y, groups)
    scores = Scores(noise_multiplier, (tally_for(asked.kind, metric),))
    ledger.check_unit(asked.unit, asked.n)
    found = scores.fit(asked.rows, asked.outputs, source, ledger)
    return float(means(found, NAME)[0][0])
