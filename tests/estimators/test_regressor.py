"""The regressor: it learns, keeps to its public range, knows how far off it is, and says what is wrong."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpmac import ArgumentError
from dpmac.estimators import DPMACRegressor
from dpmac.tables import Category, Number, Schema
from dpmac.tables.agreement import SchemaWarning
from small_modules import skip_if_weighed

RANGE = (-150.0, 150.0)
COLUMNS = {name: Number(-1, 1) for name in "abc"}


def rows(n, seed=0):
    """A simple function of two of three features, and noise of deviation 25."""
    draw = np.random.RandomState(seed)
    X = draw.uniform(-1, 1, (n, 3))
    return X, 100 * np.tanh(2 * X[:, 0]) - 30 * X[:, 1] + 25 * draw.normal(size=n)


X, Y = rows(2000)
UNSEEN, THEIRS = rows(2000, seed=1)


def regressor(**more):
    usual = {"epsilon": math.inf, "epochs": 20, "random_state": 0}
    ranges = {} if "schema" in more else {"feature_range": (-1, 1), "target_range": RANGE}
    return DPMACRegressor(**{**usual, **ranges, **more})


def table(X, y):
    return pd.DataFrame(X, columns=list("abc")).assign(y=y)


@pytest.fixture(scope="module")
def plain():
    return regressor().fit(X, Y)


@pytest.fixture(scope="module")
def private():
    """Batches of all rows: the accountant is quick then."""
    return regressor(epsilon=8.0, batch_size=2000, epochs=100).fit(X, Y)


def test_it_learns_a_simple_function_without_noise(plain):
    assert plain.score(UNSEEN, THEIRS) > 0.8
    assert "NOT PRIVATE" in str(plain.privacy_.statement())
    assert get_tags(plain).estimator_type == "regressor"


def test_at_a_generous_budget_it_is_better_than_the_mean(private):
    assert private.score(UNSEEN, THEIRS) > 0.5


def test_its_budget_covers_training_and_residuals(private):
    assert 7.99 < private.privacy_.epsilon <= 8.0
    assert {m.label: m.count for m in private.privacy_.ledger.mechanisms()} == {
        "training step": private.plan_.steps,
        "residual scale": 1,
    }


def test_the_deviation_that_it_states_is_that_of_its_residuals(private):
    found, deviation = private.predict(UNSEEN, return_std=True)
    assert np.array_equal(found, private.predict(UNSEEN))
    assert deviation.shape == found.shape
    assert set(deviation) == {private.residual_std_}
    assert private.residual_std_ == pytest.approx(np.sqrt(np.mean((found - THEIRS) ** 2)), rel=0.25)


def test_without_a_release_there_is_no_deviation(plain):
    assert plain.residual_std_ is None
    with pytest.raises(ArgumentError, match=r"return_std=True: .* fit with residuals=True"):
        plain.predict(X, return_std=True)
    model = regressor(epsilon=0.5, batch_size=300, epochs=5, residuals=False).fit(X[:300], Y[:300])
    assert model.residual_std_ is None
    assert [m.label for m in model.privacy_.ledger.mechanisms()] == ["training step"]
    assert 0.499 < model.privacy_.epsilon <= 0.5  # all of it went into the training


def test_predictions_are_within_the_range():
    with pytest.warns(SchemaWarning, match="column 'y': of .* cells .* lie outside -20 to 10 and are clipped"):
        model = regressor(target_range=(-20, 10)).fit(X, Y)
    found = model.predict(UNSEEN)
    assert found.min() == -20
    assert found.max() == 10


def test_targets_outside_the_range_are_clipped_to_it():
    outrageous = np.where(Y > 100, 1e12, Y)
    wild, clipped, tame = (
        regressor(epochs=2).fit(X, y).predict(X) for y in (outrageous, np.minimum(outrageous, RANGE[1]), Y)
    )
    assert np.array_equal(wild, clipped)
    assert not np.array_equal(clipped, tame)


def test_predictions_are_on_the_scale_of_the_targets(plain):
    moved = regressor(target_range=(RANGE[0] / 100 + 7, RANGE[1] / 100 + 7)).fit(X, Y / 100 + 7)
    assert np.allclose(moved.predict(UNSEEN), plain.predict(UNSEEN) / 100 + 7, atol=0.05)


def test_the_range_is_the_schemas_unless_one_is_given():
    schema = Schema({**COLUMNS, "y": Number(*RANGE)}, target="y")
    inside = regressor(schema=schema).fit(table(X, Y))
    assert inside.target_range_ == RANGE
    assert inside.score(table(UNSEEN, THEIRS), THEIRS) > 0.8
    beside = regressor(schema=schema).fit(table(X, Y).drop(columns="y"), Y)
    assert np.array_equal(beside.predict(table(UNSEEN, 0)), inside.predict(table(UNSEEN, THEIRS)))
    low, high = RANGE
    given = {"target_range": (low - 1, high), "epochs": 1}
    assert regressor(schema=schema, **given).fit(table(X, Y)).target_range_ == (low - 1, high)
    assert regressor(schema=Schema(COLUMNS), **given).fit(table(X, Y), Y).target_range_ == (low - 1, high)


BAD = [
    (None, "target_range=None: give the target's public .*, or a schema whose target is a number"),
    ((1, 0), r"target_range=\(1, 0\): give public, finite numbers \(low, high\) with low < high"),
    ((1, 1), r"target_range=\(1, 1\): give public"),
    ((0, math.inf), "target_range=inf: give public"),
    ((0, math.nan), "target_range=nan: give public"),
    ((0, "1"), "target_range='1': give public"),
    ((0, 1, 2), r"target_range=\(0, 1, 2\): give public"),
    (5, "target_range=5: give public"),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=[str(given) for given, _ in BAD])
def test_a_bad_range_is_named_and_nothing_is_spent(given, message):
    model = regressor(target_range=given)
    with pytest.raises(ArgumentError, match=message):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_category_is_no_range():
    schema = Schema({**COLUMNS, "y": Category(["low", "high"])}, target="y")
    with pytest.raises(ArgumentError, match=r"target_range=None: .* a schema whose target is a number"):
        regressor(schema=schema).fit(table(X, "low"))


def test_targets_that_are_no_numbers_are_named():
    spoilt = np.where(np.arange(2000) == 3, np.nan, Y)
    with pytest.raises(ValueError, match="y contains NaN"):
        regressor().fit(X, spoilt)
    schema = Schema({**COLUMNS, "y": Number(*RANGE)}, target="y")
    with pytest.raises(ArgumentError, match="column 'y', row 3=None: the target is missing in this row"):
        regressor(schema=schema).fit(table(X, spoilt))
    with pytest.raises(ArgumentError, match=r"y=.*U4.*: give numbers, one for each row"):
        regressor().fit(X, np.full(2000, "much"))
    with pytest.raises(ArgumentError, match="y='5 targets': there are 2000 rows"):
        regressor(schema=schema).fit(table(X, Y), Y[:5])
    with pytest.raises(ValueError, match="requires y"):
        regressor().fit(X)


@parametrize_with_checks(
    [DPMACRegressor((), epsilon=math.inf, epochs=20, random_state=0, learning_rate=0.2, target_range=(-300, 300))]
)
def test_scikit_learns_own_checks_of_a_regressor(estimator, check):
    """Of a private one: test_scikit_learn.py."""
    skip_if_weighed(check)
    check(estimator)
