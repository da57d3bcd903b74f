"""Public weights of classes: in the loss before the bound, kept by the calibration, never read from the rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from torch.func import grad, hessian

from contracts import assert_rows_are_alone
from dpmac import ArgumentError, DPMACClassifier, Ledger
from dpmac.analytic import layer_sensitivity
from dpmac.bounds.clipping import joint_norms
from dpmac.mac import FixedPrediction
from dpmac.methods import Calibration, Gradients
from dpmac.methods.calibration import REACH
from dpmac.nets import DenseNetwork, WeightedClasses, loss
from dpmac.privacy import JointClip, PrivateRows
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise
from dpmac.training import Step
from dpmac.training.defaults import PENALTY_CLASSES

WEIGHTS = (0.25, 3.0, 1.0)


def table(n, seed=0):
    """One row in seven is of the second class."""
    draw = np.random.RandomState(seed)
    X = draw.uniform(-1, 1, (n, 3))
    return X, (draw.uniform(size=n) < expit(3 * X[:, 0] + X[:, 1] - 2.8)).astype(int)


X, Y = table(1200)
RARE = {0: 0.1, 1: 1.0}


def model(**more):
    usual = {"epochs": 30, "batch_size": 1200, "feature_range": (-1, 1), "random_state": 0}
    return DPMACClassifier((), **{**usual, "epsilon": 8.0, **more})


def plain(**more):
    return model(**{"epsilon": math.inf, "batch_size": None, "epochs": 40, **more})


@pytest.mark.parametrize("name", ["softmax", "sigmoid"])
def test_the_weighted_loss_is_autograds_one_example_at_a_time(name):
    inner, g = loss(name), WeightedClasses(loss(name), WEIGHTS)
    u, codes = 2 * SeededNoise(1).normal((9, 3)), torch.arange(9) % 3
    y = torch.eye(3, dtype=torch.float64)[codes]
    roots = g.hessian_root(u, y).transposed(torch.eye(3, dtype=torch.float64).expand(9, -1, -1))
    for n in range(9):

        def one(v, n=n):
            return WEIGHTS[codes[n]] * inner.value(v[None], y[n : n + 1])[0]

        bent = hessian(one)(u[n])
        assert torch.allclose(g.value(u, y)[n], one(u[n]))
        assert torch.allclose(g.slope(u, y)[n], grad(one)(u[n]), atol=1e-12)
        assert torch.allclose(g.curvature(u, y)[n], bent.diagonal(), atol=1e-12)
        assert torch.allclose(g.hessian(u, y)[n], bent, atol=1e-12)
        assert torch.allclose(roots[n] @ roots[n].T, g.weight * bent, atol=1e-12)
        assert float(torch.linalg.eigvalsh(bent).max()) <= g.curvature_bound
    assert g.curvature_bound == 3.0 * inner.curvature_bound
    assert not g.slope(u, torch.zeros_like(y)).any()  # a blank place weighs nothing
    assert torch.equal(g.predict(u), inner.predict(u))
    with pytest.raises(ArgumentError, match="no sensitivity is proven"):  # the inner loss's would be too small
        layer_sensitivity(g, torch.zeros(3, 4), None, 1.0)


def test_weights_come_before_the_bound_and_every_row_is_alone():
    network = DenseNetwork([5, 6, 3], "tanh", source=SeededNoise(1))
    x, y = SeededNoise(2).normal((67, 5)).float(), torch.eye(3)[torch.arange(67) % 3]
    for weights in ((1e-6, 1e6, 1.0), WEIGHTS):
        step = Step(network, WeightedClasses(loss("softmax"), weights), FixedPrediction(), Gradients(), JointClip(0.5))
        query = step.query()
        norms = joint_norms(query.parts(x, y), [p.scale for p in query.partitions])
        assert (norms <= 1 - SLACK / 2).all()
        assert_rows_are_alone(query.parts, x, y)
    bare = Step(network, loss("softmax"), FixedPrediction(), Gradients(), JointClip(1e9)).query().parts(x, y)
    weighed = WeightedClasses(loss("softmax"), WEIGHTS)
    heavy = Step(network, weighed, FixedPrediction(), Gradients(), JointClip(1e9)).query().parts(x, y)
    wanted = torch.tensor(WEIGHTS)[torch.arange(67) % 3].double()
    for one, other in zip(bare, heavy, strict=True):  # in every layer: the whole gradient of the example
        assert torch.allclose(other.norms(), wanted * one.norms(), rtol=1e-5)


LEAST = 2 / (PENALTY_CLASSES * X.shape[1])  # the penalty without noise, of two logits, as that of one margin


def test_without_noise_it_is_the_weighted_logistic_regression():
    fitted = plain(class_weight=RARE, epochs=60, learning_rate=0.1).fit(X, Y)
    oracle = LogisticRegression(C=LEAST, class_weight=RARE).fit(X, Y)
    assert np.abs(fitted.predict_proba(X) - oracle.predict_proba(X)).mean() < 0.03
    odds = fitted.predict_proba(X) / [RARE[0], RARE[1]]  # divided by the weights: the rows' own probabilities again
    own = odds / odds.sum(axis=1, keepdims=True)
    assert np.abs(own - LogisticRegression(C=LEAST).fit(X, Y).predict_proba(X)).mean() < 0.05
    assert np.abs(own - oracle.predict_proba(X)).mean() > 0.2


@pytest.fixture(scope="module")
def weighed():
    return model(class_weight=RARE).fit(X, Y)


def test_under_noise_the_calibration_keeps_the_weights(weighed):
    """Calibrated on rows as they are, its offset would be that of the frequencies, and the weights would be undone."""
    assert weighed.calibration_ is not None
    assert 7.98 < weighed.privacy_.epsilon <= 8.0
    p = weighed.predict_proba(X)
    assert Y.mean() < 0.2 < 0.35 < p[:, 1].mean() < 0.7  # a weighted logistic regression has 0.43
    assert np.array_equal(weighed.predict(X), p.argmax(axis=1))


def test_a_weighted_calibration_is_the_weighted_fit():
    draw = np.random.RandomState(0)
    margin = 2 * draw.normal(size=1500)
    y = (draw.uniform(size=1500) < expit(margin)).astype(int)
    u, weights = np.stack([-margin / 2, margin / 2], axis=1), torch.tensor([0.5, 4.0])
    clipped = np.clip(margin, -REACH, REACH)

    def objective(theta):
        z = theta[0] * clipped + theta[1]
        return float(np.sum(np.where(y == 1, 4.0, 0.5) * (np.logaddexp(0, z) - y * z)))

    wanted = minimize(objective, [1.0, 0.0], method="BFGS", options={"gtol": 1e-2}).x
    rows = PrivateRows(torch.from_numpy(u), torch.eye(2)[torch.from_numpy(y)])
    found = Calibration(0.0, rounds=300).fit(rows, lambda x: x, SeededNoise(0), Ledger(), weights=weights)
    assert found == pytest.approx(tuple(wanted), abs=2e-3)


def test_a_class_left_out_weighs_one_and_labels_may_be_texts():
    names = np.where(Y == 1, "rare", "common")
    some = plain(class_weight={"rare": 10.0}, epochs=10).fit(X, names)
    whole = plain(class_weight={"rare": 10.0, "common": 1}, epochs=10).fit(X, names)
    assert np.array_equal(some.predict_proba(X), whole.predict_proba(X))
    alike = plain(class_weight={}, epochs=10).fit(X, Y).predict_proba(X)
    assert np.allclose(alike, plain(epochs=10).fit(X, Y).predict_proba(X), atol=1e-6)


def test_labels_have_their_own_weights():
    both = np.stack([Y, 1 - Y], axis=1)
    lifted = plain(class_weight=[{1: 9.0}, {}]).fit(X, both).predict(X).mean(axis=0)
    bare = plain().fit(X, both).predict(X).mean(axis=0)
    assert lifted[0] > bare[0] + 0.1
    assert abs(lifted[1] - bare[1]) < 0.05


BAD = [
    ("balanced", "class_weight='balanced': the frequencies of the classes are private .* public weights .* ledger"),
    ([1, 2], r"class_weight=\[1, 2\]: give public weights \{class: weight\}"),
    ({2: 1.0}, r"class_weight=2: this class is not among classes=\[0, 1\]"),
    ({0: 0.0}, "class_weight=0.0: a weight is a number from 1e-6"),
    ({0: -1}, "class_weight=-1: a weight"),
    ({0: math.nan}, "class_weight=nan: a weight"),
    ({0: "2"}, "class_weight='2': a weight"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_bad_weights_are_named_and_nothing_is_spent(given, message):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=message):
        model(class_weight=given, ledger=ledger).fit(X, Y)
    assert len(ledger) == 0


@pytest.mark.parametrize("given", [{0: 1.0, 1: 2.0}, [{1: 2.0}], "balanced"])
def test_labels_need_one_dict_each(given):
    message = "private numbers of the rows" if given == "balanced" else "y has 2 labels a row: give a list of 2 dicts"
    with pytest.raises(ArgumentError, match=message):
        model(class_weight=given).fit(X, np.stack([Y, 1 - Y], axis=1))


def test_a_bound_that_would_undo_the_weights_is_refused():
    with pytest.raises(ArgumentError, match="bound='normalise': it gives every example the same length"):
        model(class_weight=RARE, bound="normalise").fit(X, Y)
