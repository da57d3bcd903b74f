"""The classifier: honest privacy, scikit-learn's manners, errors before anything is spent."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from dpmac import ArgumentError, DPMACClassifier, Network
from dpmac.nets.feature_maps import load_feature_map
from dpmac.privacy import PerLayerClip
from dpmac.privacy.statement import round_up


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


def small(**more):
    """Always the same rows, batches and epochs at epsilon 2, unless a test needs others: a plan is calibrated once."""
    usual = {"epochs": 4, "feature_range": (0, 16), "random_state": 0}
    return DPMACClassifier((20,), **{**usual, **more})


@pytest.fixture(scope="module")
def fitted(digits):
    return small(epsilon=2.0).fit(*digits)


def test_privacy_is_composed_from_the_ledger(fitted):
    privacy = fitted.privacy_
    assert 1.99 < privacy.epsilon <= 2.0
    assert privacy.epsilon == privacy.ledger.epsilon(privacy.delta)
    assert privacy.delta == 1e-5
    labels = [entry.label for entry in privacy.ledger.entries]
    assert labels == ["training step"] * fitted.plan_.steps + ["calibration"] * 6
    shown = f"differentially private with epsilon = {round_up(privacy.epsilon, 2)} at delta = 1e-05"
    assert f"With unpredictable noise the model would be {shown}" in str(privacy.statement())
    assert str(privacy.statement()) == str(fitted.run_.statement())


def test_fitted_attributes_and_predictions(fitted, digits):
    X, y = digits
    assert fitted.classes_.tolist() == list(range(10))
    assert fitted.n_features_in_ == 64
    assert fitted.network_.sizes == (64, 20, 10)
    assert len(fitted.history_) == 4
    p = fitted.predict_proba(X)
    assert p.shape == (len(X), 10)
    assert np.allclose(p.sum(axis=1), 1)
    assert np.array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(X))
    assert np.array_equal(fitted.decision_function(X).argmax(axis=1), p.argmax(axis=1))
    assert fitted.score(X, y) == np.mean(fitted.predict(X) == y)


def test_it_learns_at_a_generous_and_at_no_budget(digits):
    X, y = digits
    assert small(epsilon=8.0, epochs=20).fit(X, y).score(X, y) > 0.85
    plain = small(epsilon=math.inf, epochs=20).fit(X, y)
    assert plain.score(X, y) > 0.95
    assert "NOT PRIVATE" in str(plain.privacy_.statement())
    assert math.isinf(plain.privacy_.epsilon)


def test_a_data_frame_of_people():
    """What a data scientist has: named columns, strings for labels, public bounds column by column."""
    import pandas as pd

    draw = np.random.RandomState(0)
    table = pd.DataFrame({"age": draw.uniform(18, 90, 600), "income": draw.uniform(0, 2e5, 600)})
    churned = np.where(table["income"] / 2e5 + table["age"] / 90 > 1.1, "yes", "no")
    model = small(epsilon=math.inf, epochs=20, feature_range=([18, 0], [90, 2e5])).fit(table, churned)
    assert model.feature_names_in_.tolist() == ["age", "income"]
    assert model.score(table, churned) > 0.85
    assert set(model.predict(table)) == {"yes", "no"}
    assert np.array_equal(model.decision_function(table) > 0, model.predict(table) == "yes")


def test_a_failed_refit_leaves_the_old_model(fitted, digits):
    X, y = digits
    model = copy.deepcopy(fitted)
    model.set_params(epsilon=-1.0)
    with pytest.raises(ArgumentError):
        model.fit(X, y % 2)
    assert np.array_equal(model.predict_proba(X[:5]), fitted.predict_proba(X[:5]))
    assert len(model.classes_) == 10


@pytest.mark.filterwarnings("ignore::dpmac.PrivacyWarning")  # it fits the same rows again on purpose
def test_seeds(digits, fitted):
    X, y = digits

    def proba(seed):
        return small(random_state=seed).fit(X, y).predict_proba(X[:20])

    assert np.array_equal(proba(0), fitted.predict_proba(X[:20]))
    assert not np.array_equal(proba(0), proba(1))
    fresh = small(random_state=None).fit(X, y)
    assert not np.array_equal(proba(None), fresh.predict_proba(X[:20]))
    assert "seeded: not private" in str(fitted.privacy_.statement())
    assert "seed" not in str(fresh.privacy_.statement())
    assert small(random_state=np.random.RandomState(3)).fit(X, y).privacy_.ledger.seeded


def test_labels_of_any_kind(digits):
    X, y = digits
    names = np.array([f"digit {k}" for k in range(10)])
    model = small(epsilon=math.inf, epochs=15).fit(X, names[y])
    assert model.score(X, names[y]) > 0.9


def test_known_classes_are_not_read_from_the_data(fitted, digits):
    X, y = digits
    model = small(classes=list(range(10))).fit(X, y % 3)
    assert model.classes_.tolist() == list(range(10))
    assert "class labels" not in str(model.privacy_.statement())
    assert "class labels, which was read from the data" in str(fitted.privacy_.statement())
    with pytest.raises(ArgumentError, match="y=9: this label is not among classes"):
        small(classes=list(range(9))).fit(X, y)


def test_it_works_in_scikit_learns_tools(digits):
    X, y = digits
    twin = clone(small(epsilon=3.0))
    assert twin.get_params()["epsilon"] == 3.0
    scores = cross_val_score(small(epsilon=math.inf), X, y, cv=2)
    assert (scores > 0.5).all()
    pipeline = make_pipeline(FunctionTransformer(lambda v: v / 16), small(feature_range=(0, 1)))
    assert pipeline.fit(X, y).score(X, y) > 0.3


def test_pickle_and_plain_torch(fitted, digits):
    X = digits[0][:50]
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))
    plain = fitted.network_.plain()
    with torch.no_grad():
        u = plain(torch.tensor(X / 8 - 1, dtype=torch.float32))
    assert np.array_equal(u.argmax(dim=1).numpy(), fitted.predict(X))


def test_what_is_saved_predicts_the_same_from_raw_rows(fitted, digits, tmp_path):
    """Network and feature map read back from the run's folder, by someone who has neither rows nor estimator."""
    X = torch.from_numpy(digits[0][:50]).float()
    assert torch.allclose(fitted.feature_map_(X), X.double() / 8 - 1)
    assert fitted.feature_map_ is fitted.run_.feature_map
    folder = fitted.run_.save(tmp_path / "run")
    feature_map, network = load_feature_map(folder / "front.safetensors"), Network.load(folder / "model.safetensors")
    with torch.no_grad():
        u = network.double()(feature_map(X).float().double())
    assert np.array_equal(torch.softmax(u, dim=1).numpy(), fitted.predict_proba(X.numpy()))
    bare = small(epsilon=math.inf, epochs=1, feature_range=None).fit(digits[0] / 16, digits[1])
    assert bare.feature_map_ is None
    assert "front.safetensors" not in {p.name for p in bare.run_.save(tmp_path / "bare").iterdir()}


def test_public_validation_is_recorded(digits):
    X, y = digits
    model = small(epsilon=math.inf).fit(X[:1000], y[:1000], public_validation=(X[1000:], y[1000:]))
    assert model.history_[-1].metrics["validation_accuracy"] == model.score(X[1000:], y[1000:])
    with pytest.raises(ArgumentError, match="public_validation='3 labels': there are 5 rows"):
        small().fit(X, y, public_validation=(X[:5], y[:3]))


def test_paper_settings_run_through_the_estimator(digits):
    X, y = digits
    model = small(z_step="adam", loss="sigmoid", activation="relu", bound=PerLayerClip(0.3)).fit(X, y)
    assert model.privacy_.ledger.entries[0].scales == pytest.approx({f"layer {k}": 0.3 * 2**0.5 for k in (1, 2)})


def test_rows_outside_the_public_range_are_clipped_to_it(fitted, digits):
    X = digits[0][:10]
    inflated = np.where(X == 16, 1e9, np.where(X == 0, -1e9, X))
    assert np.array_equal(fitted.predict_proba(X), fitted.predict_proba(inflated))


def test_a_private_model_says_that_its_scores_may_be_poor():
    assert get_tags(small()).classifier_tags.poor_score
    assert not get_tags(small(epsilon=math.inf)).classifier_tags.poor_score
    assert get_tags(small(random_state=None)).non_deterministic
    assert not get_tags(small()).non_deterministic


BAD = [
    ({"epsilon": 0}, "epsilon=0"),
    ({"epsilon": -1}, "epsilon=-1"),
    ({"delta": 0.01}, r"delta=0\.01: it must be below 1/n"),
    ({"delta": 0}, "delta=0"),
    ({"batch_size": 5000}, "batch_size=5000: it cannot exceed n=1797"),
    ({"batch_size": 0}, "batch_size=0"),
    ({"epochs": 0}, "epochs=0"),
    ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes=0"),
    ({"hidden_layer_sizes": "300"}, "hidden_layer_sizes='300'"),
    ({"activation": "swish"}, "activation='swish'"),
    ({"loss": "hinge"}, "loss='hinge'"),
    ({"loss": "squared"}, "loss='squared'"),
    ({"learning_rate": 0}, "lr=0"),
    ({"z_step": "newton"}, "z_step='newton': choose one of fixed, adam, error, gauss-newton, or give an object"),
    ({"bound": "nonsense"}, "bound='nonsense': choose one of normalise, clip, joint, .*, or give an object"),
    ({"bound": "none"}, r"bound=Unbounded\(\): noise needs a bound"),
    ({"bound": "analytic"}, r"bound=Analytic.*use Projected\(radius\), or a bound that clips"),
    ({"feature_range": (1, 1)}, r"feature_range=\(1, 1\): give public, finite bounds with low < high"),
    ({"feature_range": (0, math.inf)}, r"feature_range=\(0, inf\): give public, finite bounds"),
    ({"feature_range": ([0, 0], [1, 1])}, r"feature_range=.*: give two numbers, or 64 a side"),
    ({"feature_range": {"low": 0, "high": 16}}, r"feature_range=\{.*\}: give public, finite .*: \(low, high\)"),
    ({"feature_range": 16}, r"feature_range=16: give public, finite bounds with low < high: \(low, high\)"),
    ({"feature_range": (0, 8, 16)}, r"feature_range=\(0, 8, 16\): give public, finite .*: \(low, high\)"),
    ({"random_state": -5}, "random_state=-5"),
    ({"machine": 3}, "machine=3: give a dpmac.Machine"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[str(change) for change, _ in BAD])
def test_bad_arguments_are_named_and_nothing_is_spent(digits, change, message):
    model = small().set_params(**change)
    with pytest.raises(ArgumentError, match=message):
        model.fit(*digits)
    with pytest.raises(NotFittedError):
        model.predict(digits[0])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (np.where(X == 3, np.nan, X), y), "X contains NaN"),
        (lambda X, y: (np.where(X == 3, np.inf, X), y), "X contains infinity"),
        (lambda X, y: (X[:, 0], y), "Expected 2D array"),
        (lambda X, y: (X[:5], y), "inconsistent numbers of samples"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X[:1], y[:1]), "n_samples=1"),
        (lambda X, y: (X, np.zeros_like(y)), "1 class"),
        (lambda X, y: (X, y + 0.5), "Unknown label type"),
    ],
)
def test_bad_rows_are_named_and_nothing_is_spent(digits, spoil, message):
    model = small()
    with pytest.raises(ValueError, match=message):
        model.fit(*spoil(*digits))
    assert not hasattr(model, "privacy_")
