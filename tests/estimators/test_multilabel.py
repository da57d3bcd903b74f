"""Several labels a row: the loss against autograd, the calibration's bound, and fits with scikit-learn's manners."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import clone
from sklearn.utils import get_tags
from torch.func import grad, hessian

from contracts import assert_rows_are_alone
from dpmac import ArgumentError, DPMACClassifier, Ledger, Schema
from dpmac.analytic import layer_sensitivity
from dpmac.bounds.clipping import joint_norms
from dpmac.methods import Calibration
from dpmac.methods.calibration import REACH
from dpmac.nets import MultiLabelCrossEntropy, loss
from dpmac.privacy import PrivateRows
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise
from dpmac.tables import Category, Number
from walking import Private, sums_in

LABELS = 3
WEIGHED = MultiLabelCrossEntropy(on=(5.0, 1.0, 0.2), off=(1.0, 0.5, 3.0))


def table(n, seed=0):
    """Labels that depend on the features, each with its own frequency."""
    draw = np.random.RandomState(seed)
    X = draw.uniform(-1, 1, (n, 4))
    u = 6 * X[:, :LABELS] + 3 * X[:, [3]] + [0.0, -0.5, -1.0]
    return X, (draw.uniform(size=u.shape) < expit(u)).astype(int)


X, Y = table(1200)
UNSEEN, THEIRS = table(1200, seed=1)


def model(**more):
    """Batches of all rows: the accountant is quick then."""
    usual = {"epochs": 30, "batch_size": 1200, "feature_range": (-1, 1), "random_state": 0}
    return DPMACClassifier((16,), **{**usual, **more})


def plain(**more):
    return model(**{"epsilon": math.inf, "batch_size": None, "epochs": 5, **more})


@pytest.fixture(scope="module")
def private():
    return model(epsilon=2.0).fit(X, Y)


# --- the loss ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("g", [MultiLabelCrossEntropy(), WEIGHED, MultiLabelCrossEntropy(on=(4.0, 4.0, 4.0))], ids=repr)
def test_the_loss_is_autograds_one_example_at_a_time(g):
    draw = SeededNoise(1)
    u, y = 3 * draw.normal((8, LABELS)), (draw.uniform(8 * LABELS) < 0.5).double().reshape(8, LABELS)
    roots = g.hessian_root(u, y).transposed(torch.eye(LABELS, dtype=torch.float64).expand(8, -1, -1))
    on, off = (torch.ones(LABELS) if w is None else torch.tensor(w) for w in (g.on, g.off))
    for n in range(8):

        def one(v, n=n):
            """torch's own, and the weights by hand."""
            terms = torch.nn.functional.binary_cross_entropy_with_logits(v, y[n], reduction="none")
            return (torch.where(y[n] == 1, on, off) * terms).sum()

        bent = hessian(one)(u[n])
        assert torch.allclose(g.value(u, y)[n], one(u[n]))
        assert torch.allclose(g.slope(u, y)[n], grad(one)(u[n]), atol=1e-12)
        assert torch.allclose(g.curvature(u, y)[n], bent.diagonal(), atol=1e-12)
        assert torch.allclose(g.hessian(u, y)[n], bent, atol=1e-12)
        assert torch.allclose(roots[n] @ roots[n].T, bent, atol=1e-12)
        assert float(torch.linalg.eigvalsh(bent).max()) <= g.curvature_bound
    at_zero = max(float(g.curvature(torch.zeros(1, LABELS), torch.full((1, LABELS), t)).max()) for t in (0.0, 1.0))
    assert at_zero == pytest.approx(g.curvature_bound)


def test_no_sensitivity_is_claimed_for_it_that_is_not_proven():
    with pytest.raises(ArgumentError, match="no sensitivity is proven"):
        layer_sensitivity(WEIGHED, torch.zeros(3, 4), None, 1.0)
    with pytest.raises(ArgumentError, match=r"entries outside \[0, 1\]"):
        loss("multilabel").check_targets(torch.full((2, 3), 2.0))


# --- the calibration --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights", [None, torch.tensor([[1.0, 5.0], [0.5, 1.0], [3.0, 0.2]])], ids=["alike", "weighed"]
)
def test_without_noise_the_calibration_is_the_best_temperature(weights):
    u, y = 3 * SeededNoise(2).normal((1500, LABELS)), torch.from_numpy(table(1500)[1]).double()
    y = (SeededNoise(3).uniform(1500 * LABELS).reshape(1500, LABELS) < torch.sigmoid(u / 3)).double()
    clipped = u.clamp(-REACH, REACH)
    on, off = (None, None) if weights is None else (tuple(weights[:, 1].tolist()), tuple(weights[:, 0].tolist()))
    g = MultiLabelCrossEntropy(on, off)
    wanted = minimize_scalar(lambda s: float(g.value(s * clipped, y).sum()), bounds=(0.1, 20), method="bounded").x
    found = Calibration(0.0, rounds=150).fit(
        PrivateRows(u, y), lambda x: x, SeededNoise(0), Ledger(), several=True, weights=weights
    )
    assert found == (pytest.approx(wanted, rel=1e-4), 0.0)


@pytest.mark.parametrize("weights", [None, torch.tensor([[1e-6, 1e6]] * 5)], ids=["alike", "weighed"])
def test_every_row_of_the_calibration_is_alone_and_keeps_the_promise(weights):
    wild = torch.tensor([math.inf, -math.inf, math.nan, 1e30, REACH, -REACH, 0.0], dtype=torch.float64)
    u = torch.cat([torch.cartesian_prod(wild, wild), torch.full((49, 3), -REACH)], dim=1)
    u = torch.cat([u, torch.full((1, 5), REACH), torch.full((1, 5), -REACH)])
    largest = 0.0
    for slope in (0.1, 1.0, 20.0):
        query = Calibration(1.0).query(lambda x: x, torch.tensor([slope]).double(), 5, several=True, weights=weights)
        scales = [p.scale for p in query.partitions]
        for y in (torch.zeros(51, 5), torch.ones(51, 5)):
            norms = joint_norms(query.parts(u, y), scales)
            assert (norms <= 1 - SLACK / 2).all()
            assert (norms[u.isnan().any(dim=1)] == 0).all()
            largest = max(largest, float(norms.max()))
        assert_rows_are_alone(query.parts, SeededNoise(4).normal((67, 5)), torch.ones(67, 5).double())
    assert largest > 0.7  # of a slope at its bound: it is not slack by orders of magnitude
    with Private() as watch:
        query.parts(u, torch.zeros(51, 5))
    assert not [
        name for name, function in watch.functions().items() if name[0].startswith("methods") and sums_in(function)
    ]


# --- fits -------------------------------------------------------------------------------------------------------------


def test_a_private_fit_learns_every_label(private):
    assert 1.99 < private.privacy_.epsilon <= 2.0
    right = (private.predict(UNSEEN) == THEIRS).mean(axis=0)
    usual = np.maximum(THEIRS.mean(axis=0), 1 - THEIRS.mean(axis=0))
    assert (right > usual + 0.05).all()
    assert private.score(UNSEEN, THEIRS) == np.mean((private.predict(UNSEEN) == THEIRS).all(axis=1))
    assert "class labels" not in str(private.privacy_.statement())  # their number is in y's shape


def test_prediction_probability_and_decision_agree(private):
    u, p, found = private.decision_function(UNSEEN), private.predict_proba(UNSEEN), private.predict(UNSEEN)
    assert u.shape == p.shape == found.shape == (1200, LABELS)
    assert np.allclose(p, expit(u))
    assert np.array_equal(found, u > 0)
    assert np.array_equal(found, p > 0.5)
    assert private.classes_.tolist() == [0, 1, 2]
    assert get_tags(private).classifier_tags.multi_label


def test_the_calibration_mends_probabilities_and_no_prediction(private):
    slope, offset = private.calibration_
    assert slope > 0
    assert offset == 0.0
    labels = [entry.label for entry in private.privacy_.ledger.entries]
    assert labels == ["training step"] * 30 + ["calibration"] * 6

    def log_loss(u):
        return np.mean(np.logaddexp(0, u) - THEIRS * u)

    u = private.decision_function(UNSEEN)
    assert log_loss(u) < log_loss(u / slope)


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.float64, bool])
def test_predictions_are_of_the_indicators_own_type(kind):
    assert plain(epochs=1).fit(X, Y.astype(kind)).predict(X).dtype == kind


def test_an_indicator_may_come_in_any_form():
    wanted = plain().fit(X, Y).predict_proba(X)
    for y in (Y.tolist(), pd.DataFrame(Y, columns=list("abc")), csr_array(Y), Y.astype(object), Y.astype(bool)):
        assert np.array_equal(plain().fit(X, y).predict_proba(X), wanted)


def test_two_labels_are_not_two_classes():
    fitted = model(epsilon=2.0).fit(X, Y[:, :2])
    assert fitted.decision_function(X).shape == fitted.predict_proba(X).shape == fitted.predict(X).shape == (1200, 2)
    assert fitted.calibration_[1] == 0.0
    assert not np.allclose(fitted.predict_proba(X).sum(axis=1), 1)


def test_the_loss_of_classes_has_no_say_and_one_label_a_row_still_works():
    assert np.array_equal(plain(loss="sigmoid").fit(X, Y).predict(X), plain().fit(X, Y).predict(X))
    again = clone(plain().fit(X, Y))
    for y in (Y[:, 0], np.where(Y[:, 0] == 1, "yes", "no")):
        again.fit(X, y)
        assert again.predict_proba(X).shape == (1200, 2)
        assert set(again.predict(X)) <= set(y)


def test_labels_may_be_named_and_validated_on_public_rows():
    fitted = plain(classes=["a", "b", "c"]).fit(X, Y, public_validation=(UNSEEN, THEIRS))
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    assert fitted.history_[-1].metrics["validation_accuracy"] == pytest.approx(fitted.score(UNSEEN, THEIRS))


def test_a_table_with_a_schema_may_have_several_labels():
    columns = {"a": Number(-1, 1), "b": Number(-1, 1), "c": Number(-1, 1), "d": Number(-1, 1)}
    rows = pd.DataFrame(X, columns=list("abcd"))
    fitted = plain(schema=Schema(columns), feature_range=None, epochs=20).fit(rows, Y)
    assert (fitted.predict(rows) == Y).mean() > 0.75
    one = Schema({**columns, "e": Category(["0", "1"])}, target="e")
    with pytest.raises(ArgumentError, match=r"y='shape \(1200, 3\)': the schema's target is one column"):
        plain(schema=one, feature_range=None).fit(rows, Y)


BAD = [
    (lambda: (X, Y + 1), {}, r"y='shape \(1200, 3\), entries other than 0 and 1': give one label"),
    (lambda: (X, Y.astype(str)), {}, "entries other than 0 and 1"),
    (lambda: (X, Y[:, :, None]), {}, r"y='shape \(1200, 3, 1\), int64': give one label for each row, or a matrix"),
    (lambda: (X, Y[:, :0]), {}, r"y='shape \(1200, 0\)"),
    (lambda: (X, [[1, 0], [1]] * 600), {}, "y='list': give one label for each row"),
    (lambda: (X, np.where(Y == 1, np.nan, 0.0)), {}, "y, row 0=nan: a label is missing or not finite"),
    (lambda: (X, Y), {"classes": ["a", "b"]}, r"classes=\['a', 'b'\]: y has 3 labels a row"),
    (lambda: (X, Y), {"classes": ["a", "a", "b"]}, "y has 3 labels a row: name each of them"),
]


@pytest.mark.parametrize(("rows", "more", "message"), BAD, ids=[message for _, _, message in BAD])
def test_what_is_no_indicator_is_named_and_nothing_is_spent(rows, more, message):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=message):
        model(ledger=ledger, **more).fit(*rows())
    assert len(ledger) == 0
    with pytest.raises(ArgumentError, match=r"public_validation='shape \(9,\)': y has 3 labels a row"):
        plain().fit(X, Y, public_validation=(X[:9], Y[:9, 0]))
