"""The linear classifier from one release of sufficient statistics: ridge regression, in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.kernels.chunks import SINGLE_MARGIN
from dpmac.methods import linear_classifier
from dpmac.nets.feature_maps import Projection, ToRange
from dpmac.nets.layers import with_one
from dpmac.privacy import Ledger, PrivateRows
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise

DRAW = SeededNoise(0)
X = 0.7 * DRAW.normal((300, 6)) / math.sqrt(6)
Y = torch.eye(3, dtype=torch.float64)[(DRAW.uniform(300) * 3).long()]


def ridge_by_hand(rows, labels, ridge):
    """Every example's two shares scaled by one factor to a joint norm of 2, then the normal equations."""
    inputs = np.concatenate([rows.numpy(), np.ones((len(rows), 1))], axis=1)
    y = labels.double().numpy()
    lengths = np.linalg.norm(inputs, axis=1)
    joint = np.sqrt((np.linalg.norm(y, axis=1) * lengths) ** 2 + lengths**4)
    factors = np.minimum(1.0, 2.0 * (1 - SLACK) / joint)[:, None]
    assert (factors < 1).any()
    gram = (factors * inputs).T @ inputs + ridge * np.eye(inputs.shape[1])
    return torch.from_numpy(np.linalg.solve(gram, (factors * inputs).T @ y).T)


def fit(x=X, labels=Y, sigma=0.0, ridge=0.5, ledger=None, seed=1, **more):
    return linear_classifier(x, labels, sigma, ridge, SeededNoise(seed), Ledger() if ledger is None else ledger, **more)


@pytest.mark.parametrize("ridge", [0.5, 30.0])
def test_without_noise_it_is_ridge_regression(ridge):
    wanted = ridge_by_hand(X, Y, ridge)
    lengths = with_one(X).norm(dim=1)
    assert (lengths.square() + lengths.pow(4) < 4).any()  # rows that are not clipped, too
    found = fit(ridge=ridge)
    assert found.shape == (3, 7)
    assert torch.allclose(found, wanted, atol=1e-9)
    assert torch.equal(fit(PrivateRows(X, Y), None, ridge=ridge), found)
    assert torch.allclose(fit(X.float(), Y.float(), ridge=ridge), wanted, atol=SINGLE_MARGIN)  # of each clipped share


@pytest.mark.parametrize(
    "feature_map",
    [ToRange(-1.0, 1.0), Projection(torch.eye(6)[:4], torch.full((6,), 0.1), 0.5, length=1.5)],
    ids=["a", "b"],
)
def test_raw_rows_go_through_the_feature_map_on_the_private_way(feature_map):
    raw = 3 * X
    for table in ((raw, Y), (PrivateRows(raw, Y), None), (raw.float(), Y)):
        found = fit(*table, feature_map=feature_map)
        assert torch.allclose(found, ridge_by_hand(feature_map(raw), Y, 0.5), atol=1e-4)
    scores = with_one(feature_map(raw)) @ fit(raw, feature_map=feature_map).T
    assert scores.shape == (300, 3)


def test_it_learns_and_noise_is_added_once_at_the_stated_scale():
    x = X + 0.8 * torch.cat([Y, Y], dim=1)
    ledger = Ledger()
    weights = fit(x, Y, 2.0, 20.0, ledger)
    assert float(((with_one(x) @ weights.T).argmax(dim=1) == Y.argmax(dim=1)).double().mean()) > 0.9
    (entry,) = ledger.entries
    assert (entry.label, entry.noise_multiplier, entry.sample_rate) == ("sufficient statistics", 2.0, 1.0)
    assert entry.scales == {"labels x inputs": 2.0, "inputs x inputs": 2.0}
    assert entry.seeded
    assert torch.equal(weights, fit(x, Y, 2.0, 20.0))
    assert not torch.equal(weights, fit(x, Y, 2.0, 20.0, seed=2))


def test_noise_that_makes_the_moments_indefinite_still_gives_a_finite_answer():
    assert fit(X[:20], Y[:20], 50.0, 1e-3).isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": None}, r"labels=None: give one-hot labels \(n, classes\)"),
        ({"x": X[0]}, r"x='shape \(6,\)'"),
        ({"x": X.long()}, "x=torch.int64"),
        ({"x": X.index_fill(1, torch.tensor([2]), math.inf)}, "x=inf: row 0, column 2 is not finite"),
        ({"labels": Y.long()}, "labels=torch.int64"),
        ({"labels": Y[:, 0]}, r"labels='shape \(300,\)'"),
        ({"labels": Y * math.nan}, "labels=nan"),
        ({"labels": Y[:9]}, "columns="),
        ({"x": PrivateRows(X), "labels": None}, "x='1 columns': give rows and labels"),
        ({"ridge": 0.0}, "ridge=0.0: give a number above 0"),
        ({"ridge": math.inf}, "ridge=inf"),
        ({"sigma": -1.0}, "noise_multiplier=-1.0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_arguments_are_named_and_spend_nothing(arguments, message):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=message):
        fit(**arguments, ledger=ledger)
    assert len(ledger) == 0
