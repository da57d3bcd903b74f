"""The autoencoder: better than any linear one on curved rows, strangers told apart, both methods, one ledger."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from dpmac import ArgumentError, DPMACAutoencoder, Ledger, Machine
from dpmac.tables import Category, Number, Schema

DRAW = np.random.RandomState(0)


def curved(n, draw=DRAW):
    """Rows on a curve in four dimensions, with a little noise, in units of their own: no line holds them."""
    t = draw.uniform(-1, 1, n)
    rows = np.stack([t, 1.2 * t**2 - 0.6, 0.4 * np.cos(5 * t), 0.4 * np.sin(6 * t)], axis=1)
    rows += 0.03 * draw.normal(size=rows.shape)
    return 50 + 20 * rows


X, UNSEEN = curved(8000), curved(1000)
STRANGERS = 50 + 20 * np.random.RandomState(1).uniform(-1, 1, (1000, 4))
RANGE = (20.0, 80.0)
USUAL = {"feature_range": RANGE, "method": "closed-form", "random_state": 0}


def autoencoder(code_size=1, **more):
    return DPMACAutoencoder(code_size, **{**USUAL, **more})


@pytest.fixture(scope="module")
def private():
    return autoencoder().fit(X)


@pytest.fixture(scope="module")
def network():
    """Trained by gradients, without noise: a few seconds are enough."""
    return autoencoder(method="gradient", epsilon=math.inf, hidden_layer_sizes=(16,), epochs=30).fit(X[:3000])


def explained(model, rows):
    back = model.inverse_transform(model.transform(rows))
    return 1 - np.square(rows - back).sum() / np.square(rows - rows.mean(0)).sum()


def test_it_gives_back_more_than_any_linear_code_of_its_size(private):
    linear = explained(PCA(1).fit(X), UNSEEN)
    assert explained(private, UNSEEN) > linear + 0.15
    assert explained(autoencoder(epsilon=math.inf).fit(X), UNSEEN) > linear + 0.2


def test_a_share_of_one_is_the_linear_case():
    model = autoencoder(share=1.0).fit(X)
    assert explained(model, UNSEEN) == pytest.approx(explained(PCA(1).fit(X), UNSEEN), abs=0.02)
    assert [entry.label for entry in model.privacy_.ledger.entries] == ["mean", "DP-PCA"]


def test_the_budget_is_spent_on_three_releases(private):
    assert [entry.label for entry in private.privacy_.ledger.entries] == ["mean", "DP-PCA", "output layer"]
    assert 1.99 < private.privacy_.epsilon <= 2.0
    assert "epsilon" in str(private.privacy_.statement())


@pytest.mark.parametrize("which", ["private", "network"])
def test_strangers_are_given_back_worse(which, request):
    model = request.getfixturevalue(which)
    usual, strange = model.reconstruction_error(UNSEEN), model.reconstruction_error(STRANGERS)
    assert np.mean(strange[:, None] > usual[None, :]) > 0.85  # the area under the curve of a detector
    assert model.score(UNSEEN) == pytest.approx(-usual.mean())
    assert np.allclose(model.reconstruction_error(UNSEEN[:5]), usual[:5], rtol=0, atol=1e-12)
    unit = 2 * (UNSEEN - 20) / 60 - 1  # what lies in the range is scaled, not clipped: errors can be had by hand
    back = 2 * (model.inverse_transform(model.transform(UNSEEN)) - 20) / 60 - 1
    assert np.allclose(np.square(unit - back).mean(1), usual, atol=1e-5)


def test_by_gradients_codes_are_the_networks(network):
    assert network.network_.sizes == (4, 16, 1, 16, 4)
    assert explained(network, UNSEEN) > explained(PCA(1).fit(X), UNSEEN) + 0.1
    inputs = network.feature_map_(network._raw(UNSEEN)).float()
    assert np.allclose(
        network._inputs_of(network._code_of(inputs.double())), network.network_(inputs).detach(), atol=1e-5
    )
    assert network.transform(UNSEEN).shape == (1000, 1)


def test_the_method_follows_from_public_numbers():
    """Few rows or a small budget for many inputs: the closed form."""
    for rows, epsilon, method in ((300, 2.0, "closed-form"), (300, 8.1, "gradient"), (300, math.inf, "gradient")):
        model = autoencoder(method="auto", epsilon=epsilon, epochs=1, batch_size=300, ledger=Ledger()).fit(X[:rows])
        assert model.method_ == method
        assert (model.autoencoder_ is None) == (method == "gradient")


def test_by_gradients_it_is_private_by_its_plan():
    few = X[:300]
    model = autoencoder(method="gradient", epochs=3, batch_size=300, hidden_layer_sizes=()).fit(few)
    assert model.network_.sizes == (4, 1, 4)
    assert 1.99 < model.privacy_.epsilon <= 2.0
    assert model.privacy_.ledger.mechanisms() == model.plan_.mechanisms()
    assert model.inverse_transform(model.transform(few)).shape == (300, 4)


def test_a_table_comes_back_as_a_table_and_an_odd_row_is_seen():
    schema = Schema(
        {"age": Number(0, 90), "pupil": Category(["no", "yes"]), "group": Category(["a", "b"], missing=True)}
    )
    age = DRAW.uniform(0, 90, 4000)
    group = np.where(age > 60, "a", "b").astype(object)
    group[age < 5] = None
    table = pd.DataFrame({"age": age, "pupil": np.where((age > 6) & (age < 18), "yes", "no"), "group": group})
    model = DPMACAutoencoder(2, method="closed-form", schema=schema, epsilon=8.0, random_state=0).fit(table)
    back = model.inverse_transform(model.transform(table))
    assert (back["pupil"] == table["pupil"]).mean() > 0.95
    assert np.mean(back["group"] == table["group"].to_numpy()) > 0.9
    assert np.median(np.abs(back["age"] - age)) < 10
    odd = pd.DataFrame({"age": [70.0], "pupil": ["yes"], "group": ["b"]})
    assert model.reconstruction_error(odd)[0] > np.quantile(model.reconstruction_error(table), 0.9)
    assert np.isfinite(model.transform(pd.DataFrame(back))).all()


@pytest.mark.filterwarnings("ignore::dpmac.PrivacyWarning")  # it fits the same rows again on purpose
def test_it_can_be_repeated_cloned_and_kept(private):
    assert np.array_equal(clone(private).fit(X).transform(UNSEEN), private.transform(UNSEEN))
    assert np.array_equal(pickle.loads(pickle.dumps(private)).transform(UNSEEN), private.transform(UNSEEN))
    changed = clone(private).fit(X).set_params(method="gradient")  # of the next fit, not of this one
    assert np.array_equal(changed.transform(UNSEEN), private.transform(UNSEEN))


def test_the_code_is_as_long_as_asked_or_as_there_are_inputs(private):
    assert private.get_feature_names_out().tolist() == ["dpmacautoencoder0"]
    whole = autoencoder(None, epsilon=math.inf).fit(X)
    assert whole.code_size_ == 4
    assert np.allclose(whole.inverse_transform(whole.transform(UNSEEN)), np.clip(UNSEEN, *RANGE), atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"code_size": 5}, "code_size=5: the rows have 4 inputs"),
        ({"code_size": 1.5}, "code_size=1.5: give the length"),
        ({"method": "magic"}, "method='magic': choose 'auto', 'closed-form' or 'gradient'"),
        ({"share": 0.0}, "share=0.0: give the part"),
        ({"epsilon": -1}, "epsilon=-1: give a number above 0"),
        ({"delta": 0.1}, "delta=0.1: it must be below 1/n"),
        ({"total_epsilon": 1.0}, "total_epsilon=1.0: the ledger holds 0.00 already"),
        ({"total_epsilon": 1.0, "method": "gradient", "batch_size": 8000, "epochs": 1}, "total_epsilon=1.0"),
        ({"hidden_layer_sizes": "wide", "method": "gradient"}, "hidden_layer_sizes='wide'"),
        ({"machine": Machine(device="nonsense")}, "device='nonsense'"),
    ],
)
def test_bad_arguments_are_named_and_nothing_is_spent(change, message):
    ledger = Ledger()
    model = autoencoder(**{"ledger": ledger, **change})
    with pytest.raises(ArgumentError, match=message):
        model.fit(X)
    assert not len(ledger)
    with pytest.raises(NotFittedError):
        model.transform(X)
