"""What all private estimators share: choices by name, and a base that holds a new estimator of a few lines."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.base import RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from dpmac import ArgumentError
from dpmac.estimators.base import PrivateEstimator
from dpmac.mac import Z_STEPS, GaussNewton
from dpmac.nets import LOSSES
from dpmac.privacy import BOUNDS, JointClip
from dpmac.training.defaults import defaults_for


class Regressor(RegressorMixin, PrivateEstimator):
    """All that an estimator has to say for itself."""

    def fit(self, X, y):
        X, y = self._checked(X, y)
        self._train(X, torch.as_tensor(y, dtype=torch.float32).reshape(-1, 1), LOSSES["squared"])
        return self

    def predict(self, X):
        return self._outputs(X).numpy()[:, 0]


DRAW = np.random.RandomState(0)
X = DRAW.uniform(-3, 5, (400, 3))
Y = np.tanh(X[:, 0]) - 0.3 * X[:, 1]


def regressor(**more):
    usual = {"epochs": 3, "feature_range": (-3, 5), "random_state": 0}
    return Regressor((16,), **{**usual, **more})


def test_a_regressor_of_a_few_lines_fits_and_predicts():
    model = regressor(epsilon=math.inf, epochs=80).fit(X, Y)
    assert model.score(X, Y) > 0.9
    assert model.predict(X).shape == (400,)
    assert model.network_.sizes == (3, 16, 1)
    assert "NOT PRIVATE" in str(model.privacy_.statement())
    assert np.allclose(model.predict(X)[:7], model.predict(X[:7]))  # whatever rows stand beside


@pytest.mark.filterwarnings("ignore::dpmac.PrivacyWarning")  # it fits the same rows again on purpose
def test_it_is_private_by_the_same_ledger():
    model = regressor().fit(X, Y)
    assert 1.99 < model.privacy_.epsilon <= 2.0
    assert model.privacy_.ledger.mechanisms() == model.run_.plan.mechanisms()
    assert np.array_equal(model.predict(X), regressor().fit(X, Y).predict(X))
    assert get_tags(model).estimator_type == "regressor"


def test_rows_are_taken_in_blocks_and_answered_alike(monkeypatch):
    model = regressor(epsilon=math.inf).fit(X, Y)
    whole = model.predict(X)
    monkeypatch.setattr("dpmac.estimators.base._BLOCK", 64)
    assert np.allclose(model.predict(X), whole, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::dpmac.PrivacyWarning")  # it fits the same rows again on purpose
@pytest.mark.parametrize("name", [name for name in BOUNDS if name not in ("none", "analytic")])
def test_a_bound_may_be_named(name):
    model = regressor(bound=name).fit(X, Y)
    wanted = regressor(bound=BOUNDS[name]).fit(X, Y)
    assert model.privacy_.ledger.entries == wanted.privacy_.ledger.entries
    assert np.array_equal(model.predict(X), wanted.predict(X))
    assert model.get_params()["bound"] == name  # what was given is what is kept
    if name == "joint":
        assert model.privacy_.ledger.entries[0].scales == {"layer 1": 1.0, "layer 2": 1.0}


@pytest.mark.filterwarnings("ignore::dpmac.PrivacyWarning")  # it fits the same rows again on purpose
def test_the_default_bound_is_one_flat_threshold_and_a_name_or_an_object_will_do():
    """Normalising every part, the default of 0.1, drifts to the majority class where labels are noisy."""
    fits = [regressor(bound=b).fit(X, Y) for b in (None, "joint")]
    usual, named = (fit.privacy_.ledger.entries[0].scales for fit in fits)
    hidden = fits[0].network_.sizes[1:-1]
    assert set(usual.values()) == {defaults_for(fits[0].plan_, regression=False, hidden=hidden).threshold}
    assert set(named.values()) == {1.0}
    assert set(regressor(bound=JointClip(0.5)).fit(X, Y).privacy_.ledger.entries[0].scales.values()) == {0.5}


@pytest.mark.parametrize("name", Z_STEPS)
def test_a_z_step_may_be_named(name):
    model = regressor(epsilon=math.inf, z_step=name).fit(X, Y)
    assert np.array_equal(model.predict(X), regressor(epsilon=math.inf, z_step=Z_STEPS[name]).fit(X, Y).predict(X))


def test_a_z_step_may_be_an_object():
    strong, weak = (regressor(epsilon=math.inf, z_step=GaussNewton(mu)).fit(X, Y).predict(X) for mu in (1e-3, 1.0))
    assert not np.array_equal(strong, weak)


def test_bad_arguments_are_named_and_nothing_is_spent():
    for change, message in (
        ({"bound": "nonsense"}, "bound='nonsense': choose one of"),
        ({"z_step": "newton"}, "z_step='newton': choose one of"),
        ({"feature_range": (0,)}, r"feature_range=\(0,\): .*\(low, high\)"),
        ({"feature_range": "wide"}, r"feature_range='wide': .*\(low, high\)"),
        ({"feature_range": {0: 1, 16: 2}}, r"feature_range=\{0: 1, 16: 2\}: .*\(low, high\)"),
    ):
        model = regressor(**change)
        with pytest.raises(ArgumentError, match=message):
            model.fit(X, Y)
        with pytest.raises(NotFittedError):
            model.predict(X)
    with pytest.raises(ArgumentError, match="n_samples=1"):
        regressor().fit(X[:1], Y[:1])
