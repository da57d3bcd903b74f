"""What scikit-learn's own ensembles would hand to ``fit`` and a private fit cannot take: weights of single rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmac.checks import ArgumentError

REASON = (
    "the guarantee is for one row, and a row that weighs more, or is drawn several times (BaggingClassifier, "
    "AdaBoost), says more than one: leave it out. Public weights of whole classes are class_weight=. Several models of "
    "all rows are a VotingClassifier, or bagging with bootstrap=False, with one ledger"
)


def check_weights(sample_weight: Any) -> None:
    """Raise unless every row weighs 1, which is the same as no weights.

    ``fit`` has the argument so that bagging hands over how often it drew each row. Without it, it would hand over a
    table in which a person's row stands several times, and no guarantee for a row would hold for that person.
    """
    if sample_weight is None:
        return
    try:
        weights = np.asarray(sample_weight)
        ones = weights.ndim == 1 and bool(np.all(weights == 1))
    except (TypeError, ValueError):
        ones = False
    if not ones:
        raise ArgumentError("sample_weight", f"a {type(sample_weight).__name__}", REASON)
