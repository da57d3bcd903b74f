"""The private PCA: the exact components without noise, near ones with it, and everything from two releases."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from dpmac import DPMACPCA, ArgumentError, DPMACAutoencoder, Ledger, Machine
from dpmac.estimators.coder import MEAN
from dpmac.tables import Category, Number, Schema
from dpmac.training.defaults import safe_delta

DRAW = np.random.RandomState(0)
MIXED = np.array([[3.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 1.0]])
X = 10 + DRAW.normal(size=(4000, 2)) @ MIXED + 0.3 * DRAW.normal(size=(4000, 4))
RANGE = (-5.0, 25.0)


def pca(n_components=2, **more):
    return DPMACPCA(n_components, **{"feature_range": RANGE, "random_state": 0, **more})


@pytest.fixture(scope="module")
def private():
    return pca().fit(X)


def in_common(first, second):
    """The cosine of the largest angle between two subspaces."""
    return np.linalg.svd(first @ second.T)[1].min()


def test_without_noise_it_is_scikit_learns():
    found, wanted = pca(epsilon=math.inf).fit(X), PCA(2).fit(X)
    assert in_common(found.components_, wanted.components_) > 1 - 1e-8
    assert np.allclose(found.explained_variance_ratio_, wanted.explained_variance_ratio_, atol=1e-4)
    assert np.allclose(found.explained_variance_ * 15**2, wanted.explained_variance_, rtol=1e-3)  # 15: half the range
    assert np.allclose(
        found.inverse_transform(found.transform(X)), wanted.inverse_transform(wanted.transform(X)), atol=1e-3
    )
    assert "NOT PRIVATE" in str(found.privacy_.statement())


def test_with_noise_it_is_near(private):
    wanted = PCA(2).fit(X)
    assert in_common(private.components_, wanted.components_) > 0.98
    assert np.allclose(private.components_ @ private.components_.T, np.eye(2))
    assert np.abs(private.explained_variance_ratio_ - wanted.explained_variance_ratio_).max() < 0.1
    exact = np.square(X - wanted.inverse_transform(wanted.transform(X))).mean()
    assert exact <= np.square(X - private.inverse_transform(private.transform(X))).mean() < 1.5 * exact


def test_the_budget_is_spent_on_two_releases_and_no_more(private):
    mean, moments = private.privacy_.ledger.mechanisms()
    assert (mean.label, moments.label) == ("mean", "DP-PCA")
    assert (moments.noise_multiplier / mean.noise_multiplier) ** 2 == pytest.approx(MEAN / (1 - MEAN))
    assert 1.99 < private.privacy_.epsilon <= 2.0
    assert private.privacy_.delta == safe_delta(len(X))


def test_codes_and_errors_are_of_each_row_alone_and_errors_tell_strangers(private):
    codes = private.transform(X)
    assert codes.shape == (4000, 2)
    assert np.allclose(private.transform(X[:7]), codes[:7], rtol=0, atol=1e-12)
    strangers = 10 + np.random.RandomState(1).normal(size=(200, 4)) * X.std(0)
    usual, strange = private.reconstruction_error(X), private.reconstruction_error(strangers)
    assert np.median(strange) > 5 * np.median(usual)
    assert private.score(X) == pytest.approx(-usual.mean())


def test_a_normalised_one_gives_every_row_the_same_say():
    rows = np.zeros((3000, 3))
    rows[:1800, 0] = 0.1 * DRAW.choice([-1, 1], 1800)  # many that are near the mean
    rows[1800:, 1] = 0.5 * DRAW.choice([-1, 1], 1200)  # fewer, and further away
    for normalise, leading in ((True, 0), (False, 1)):
        model = DPMACPCA(1, normalise=normalise, random_state=0, ledger=Ledger()).fit(rows)
        assert model.components_[0, leading] > 0.99
        assert model.privacy_.epsilon <= 2.0


def test_a_table_comes_back_as_a_table():
    schema = Schema({"age": Number(0, 90), "sex": Category(["F", "M"]), "ill": Category(["0", "1"])}, target="ill")
    age = DRAW.choice([20.0, 70.0], 3000)
    table = pd.DataFrame({"ill": "0", "sex": np.where(age > 50, "F", "M"), "age": age})
    model = DPMACPCA(1, schema=schema, epsilon=8.0, random_state=0).fit(table)
    back = model.inverse_transform(model.transform(table))
    assert list(back) == ["age", "sex"]
    assert (back["sex"] == table["sex"]).mean() > 0.99
    assert np.abs(back["age"] - age).max() < 10
    assert list(model.feature_map_.get_feature_names_out()) == ["age", "age log", "sex=F", "sex=M", "sex=other"]
    assert model.components_.shape == (1, 5)
    assert model.get_feature_names_out().tolist() == ["dpmacpca0"]


def test_fits_share_a_ledger_and_one_that_has_no_room_spends_nothing():
    ledger = Ledger()
    first = pca(ledger=ledger, total_epsilon=2.5).fit(X)
    with pytest.raises(ArgumentError, match=r"total_epsilon=2.5: the ledger holds 2.00 already"):
        pca(ledger=ledger, total_epsilon=2.5).fit(X)
    assert len(ledger) == 2
    second = pca(ledger=ledger, epsilon=1.0).fit(X)
    assert len(ledger) == 4
    assert 2.0 < second.privacy_.epsilon == first.privacy_.epsilon < 2.5


def test_in_a_pipeline_all_that_share_a_ledger_are_counted():
    ledger = Ledger()
    shared = {"method": "closed-form", "ledger": ledger, "random_state": 0}
    pipeline = make_pipeline(pca(ledger=ledger), DPMACAutoencoder(1, **shared)).fit(X)
    assert pipeline.transform(X).shape == (4000, 1)
    assert [entry.label for entry in ledger.entries] == ["mean", "DP-PCA", "mean", "DP-PCA", "output layer"]
    assert pipeline[-1].privacy_.epsilon > 2.5


@pytest.mark.filterwarnings("ignore::dpmac.PrivacyWarning")  # it fits the same rows again on purpose
def test_it_can_be_repeated_cloned_and_kept(private):
    again = clone(private).fit(X)
    assert np.array_equal(again.components_, private.components_)
    assert np.array_equal(pickle.loads(pickle.dumps(private)).transform(X), private.transform(X))
    assert not np.array_equal(pca(random_state=1).fit(X).components_, private.components_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_components": 0}, "n_components=0: give the length"),
        ({"n_components": 9}, "n_components=9: the rows have 4 inputs"),
        ({"normalise": "yes"}, "normalise='yes': give True or False"),
        ({"epsilon": 0.0}, "epsilon=0.0: give a number above 0"),
        ({"delta": 0.5}, "delta=0.5: it must be below 1/n"),
        ({"feature_range": (1, 0)}, r"feature_range=\(1, 0\): give public"),
        ({"ledger": 3}, "ledger=3: give a Ledger"),
        ({"machine": Machine(device="nonsense")}, "device='nonsense'"),
        ({"random_state": -1}, "random_state=-1"),
    ],
)
def test_bad_arguments_are_named_and_nothing_is_spent(change, message):
    ledger = Ledger()
    model = pca(**{"ledger": ledger, **change})
    with pytest.raises(ArgumentError, match=message):
        model.fit(X)
    assert not len(ledger)
    with pytest.raises(NotFittedError):
        model.transform(X)


def test_codes_of_another_length_are_refused(private):
    with pytest.raises(ArgumentError, match="X='3 columns': give codes of 2 numbers"):
        private.inverse_transform(np.zeros((5, 3)))
