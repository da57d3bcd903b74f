"""A private linear classifier from one release of sufficient statistics: ridge regression on one-hot labels."""

from __future__ import annotations

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, number
from dpmac.mac import Polynomial
from dpmac.methods.tables import check_table
from dpmac.nets.feature_maps import FeatureMap
from dpmac.nets.layers import with_one
from dpmac.privacy import GramPart, JointClip, Ledger, OuterPart, Part, Partition, PrivateRows, Query, release
from dpmac.randomness import NoiseSource

LABEL = "sufficient statistics"
CROSS, GRAM = "labels x inputs", "inputs x inputs"


def linear_classifier(
    x: Tensor | PrivateRows,
    labels: Tensor | None,
    noise_multiplier: float,
    ridge: float,
    source: NoiseSource,
    ledger: Ledger,
    feature_map: FeatureMap | None = None,
) -> Tensor:
    """Weights (classes, d + 1) of ridge regression on one-hot ``labels``, from one release of X^T X and Y^T X.

    Raw rows go through ``feature_map`` inside the release. Every example's parts are bounded jointly, so the release
    costs one Gaussian mechanism of ``noise_multiplier``. ``x`` may be a private table of rows and labels; then
    ``labels`` is None. Scores of raw rows are ``with_one(feature_map(rows)) @ weights.T``.
    """
    number("ridge", ridge, "give a number above 0", low=1e-30, high=1e30)
    if isinstance(x, PrivateRows):
        table = x
    else:
        table = _table(x, labels)
    if len(table.shapes) != 2:
        raise ArgumentError("x", f"{len(table.shapes)} columns", "give rows and labels")
    if feature_map is not None:
        table = table.behind(feature_map)
    query = statistics(table.shapes[0][0] + 1, table.shapes[1][0])
    answer = release(table.everything(), query, noise_multiplier=noise_multiplier, source=source, ledger=ledger)
    cross, gram = answer[CROSS], answer[GRAM]
    return Polynomial(torch.zeros_like(cross), -cross, gram).floored().minimum(ridge)


def statistics(d: int, classes: int) -> Query:
    """Sums of y x^T and x x^T, x with its constant 1; both shares of an example bounded together."""
    bound = JointClip(2.0)  # rows of norm 1 with their constant: the shares have norms at most sqrt 2 and 2

    def parts(rows: Tensor, y: Tensor) -> list[Part]:
        inputs = with_one(rows)
        return bound.apply([OuterPart(y, inputs), GramPart(torch.ones_like(inputs[:, :1]), inputs)])

    asked = [Partition(CROSS, (classes, d)), Partition(GRAM, (1, d, d), symmetric=True)]
    return Query(LABEL, bound.promise(asked), parts)


def _table(x: Tensor, labels: Tensor | None) -> PrivateRows:
    check_table("x", x)
    if labels is None:
        raise ArgumentError("labels", None, "give one-hot labels (n, classes)")
    check_table("labels", labels)
    return PrivateRows(x, labels.to(x.device))
