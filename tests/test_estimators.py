"""The scikit-learn front: scikit-learn's own checks, honest privacy, errors before anything is spent."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpmac import ArgumentError, DPMACClassifier
from dpmac.privacy import PerLayerClip
from dpmac.privacy.statement import round_up


@parametrize_with_checks(
    [
        DPMACClassifier((16,), epochs=5, random_state=0),
        DPMACClassifier((), epsilon=math.inf, epochs=40, random_state=0, learning_rate=0.1),
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X, y


def small(**more):
    return DPMACClassifier(
        (20,), **{"epochs": 4, "feature_range": (0, 16), "random_state": 0, "progress": False, **more}
    )


@pytest.fixture(scope="module")
def fitted(digits):
    return small(epsilon=2.0).fit(*digits)


def test_privacy_is_composed_from_the_ledger(fitted):
    privacy = fitted.privacy_
    assert 1.99 < privacy.epsilon <= 2.0
    assert privacy.epsilon == privacy.ledger.epsilon(privacy.delta)
    assert privacy.delta == 1e-5
    assert len(privacy.ledger) == fitted.run_.plan.steps
    shown = f"({round_up(privacy.epsilon)}, 1e-05)-differentially private"
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
    model = small(epsilon=4.0, epochs=20, feature_range=([18, 0], [90, 2e5])).fit(table, churned)
    assert model.feature_names_in_.tolist() == ["age", "income"]
    assert model.score(table, churned) > 0.85
    assert set(model.predict(table)) == {"yes", "no"}


def test_a_failed_refit_leaves_the_old_model(digits):
    X, y = digits
    model = small(epochs=1).fit(X, y)
    before = model.predict_proba(X[:5])
    model.set_params(epsilon=-1.0)
    with pytest.raises(ArgumentError):
        model.fit(X, y % 2)
    assert np.array_equal(model.predict_proba(X[:5]), before)
    assert len(model.classes_) == 10


def test_seeds(digits):
    X, y = digits[0][:300], digits[1][:300]

    def proba(seed):
        return small(random_state=seed, epochs=1).fit(X, y).predict_proba(X[:20])

    assert np.array_equal(proba(1), proba(1))
    assert not np.array_equal(proba(1), proba(2))
    assert not np.array_equal(proba(None), proba(None))
    assert "seeded: not private" in str(small(epochs=1).fit(X, y).privacy_.statement())
    assert "seed" not in str(small(random_state=None, epochs=1).fit(X, y).privacy_.statement())
    assert small(random_state=np.random.RandomState(3), epochs=1).fit(X, y).privacy_.ledger.seeded


def test_labels_of_any_kind(digits):
    X, y = digits
    names = np.array([f"digit {k}" for k in range(10)])
    model = small(epsilon=math.inf, epochs=15).fit(X, names[y])
    assert model.score(X, names[y]) > 0.9


def test_known_classes_are_not_read_from_the_data(digits):
    X, y = digits
    few = y < 3
    model = small(epochs=1, classes=list(range(10))).fit(X[few], y[few])
    assert model.classes_.tolist() == list(range(10))
    assert "class labels" not in str(model.privacy_.statement())
    assert "class labels, which was read from the data" in str(small(epochs=1).fit(X, y).privacy_.statement())
    with pytest.raises(ArgumentError, match="y=9: this label is not among classes"):
        small(classes=list(range(9))).fit(X, y)


def test_it_works_in_scikit_learns_tools(digits):
    X, y = digits
    twin = clone(small(epsilon=3.0))
    assert twin.get_params()["epsilon"] == 3.0
    scores = cross_val_score(small(epsilon=8.0), X, y, cv=2)
    assert (scores > 0.3).all()
    pipeline = make_pipeline(FunctionTransformer(lambda v: v / 16), small(feature_range=(0, 1)))
    assert pipeline.fit(X, y).score(X, y) > 0.3


def test_pickle_and_plain_torch(fitted, digits):
    import torch

    X = digits[0][:50]
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))
    plain = fitted.network_.plain()
    with torch.no_grad():
        u = plain(torch.tensor(X / 8 - 1, dtype=torch.float32))
    assert np.array_equal(u.argmax(dim=1).numpy(), fitted.predict(X))


def test_public_validation_is_recorded(digits):
    X, y = digits
    model = small(epsilon=math.inf).fit(X[:1000], y[:1000], public_validation=(X[1000:], y[1000:]))
    assert model.history_[-1].metrics["validation_accuracy"] == model.score(X[1000:], y[1000:])


def test_paper_settings_run_through_the_estimator(digits):
    X, y = digits
    model = small(z_step="adam", loss="sigmoid", activation="relu", bound=PerLayerClip(0.3)).fit(X, y)
    assert model.privacy_.ledger.entries[0].scales == pytest.approx({f"layer {k}": 0.3 * 2**0.5 for k in (1, 2)})


def test_rows_outside_the_public_range_are_clipped_to_it(fitted, digits):
    X = digits[0][:10]
    inflated = np.where(X == 16, 1e9, np.where(X == 0, -1e9, X))
    assert np.array_equal(fitted.predict_proba(X), fitted.predict_proba(inflated))


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
    ({"z_step": "newton"}, "z_step='newton'"),
    ({"feature_range": (1, 1)}, "feature_range="),
    ({"feature_range": ([0, 0], [1, 1])}, "feature_range="),
    ({"random_state": -5}, "random_state=-5"),
    ({"micro_batch_size": 0}, "micro_batch=0"),
    ({"progress": "loud"}, "progress='loud'"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_arguments_are_named_and_nothing_is_spent(digits, change, message):
    model = small(**change) if "hidden_layer_sizes" not in change else small().set_params(**change)
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
