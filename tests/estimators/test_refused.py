"""What scikit-learn's ensembles do with private estimators, and what they must not: repeat rows, or weigh them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, VotingClassifier

from dpmac import DPMACClassifier, DPMACRegressor, Ledger
from dpmac.checks import ArgumentError
from dpmac.estimators.refused import check_weights

draw = np.random.default_rng(0)
X = draw.uniform(size=(300, 3)).astype(np.float32)
Y = (X[:, 0] > 0.5).astype(int)


def classifier(ledger, **more):
    return DPMACClassifier((), epsilon=0.5, epochs=1, classes=[0, 1], feature_range=(0, 1), ledger=ledger, **more)


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_a_vote_of_two_models_is_counted_in_one_ledger(voting):
    ledger = Ledger()
    both = VotingClassifier([("one", classifier(ledger)), ("two", classifier(ledger))], voting=voting).fit(X, Y)
    assert both.predict(X[:4]).shape == (4,)
    one = Ledger()
    classifier(one).fit(X, Y)
    assert len(ledger) == 2 * len(one)


def test_bagging_draws_no_row_twice():
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=r"sample_weight=.*drawn several times"):
        BaggingClassifier(classifier(ledger), n_estimators=2, random_state=0).fit(X, Y)
    with pytest.raises(ArgumentError, match="sample_weight="):
        AdaBoostClassifier(classifier(ledger), n_estimators=2).fit(X, Y)
    assert not len(ledger)
    bag = BaggingClassifier(classifier(ledger), n_estimators=2, bootstrap=False, random_state=0).fit(X, Y)
    assert bag.predict_proba(X[:4]).shape == (4, 2)
    assert len(ledger)


@pytest.mark.parametrize("weights", [np.arange(300), [2.0] * 300, ["a"], np.full(300, np.nan), 0])
def test_weights_are_refused_with_the_reason_before_anything_is_spent(weights):
    ledger = Ledger()
    fits = [classifier(ledger), DPMACRegressor(target_range=(0, 1), feature_range=(0, 1), ledger=ledger)]
    for one in fits:
        with pytest.raises(ArgumentError, match=r"sample_weight=.*the guarantee is for one row"):
            one.fit(X, Y, sample_weight=weights)
    assert not len(ledger)
    check_weights(np.ones(300))
    check_weights(None)


def test_logarithms_of_probabilities():
    model = classifier(Ledger()).fit(X, Y)
    assert np.array_equal(np.exp(model.predict_log_proba(X[:9])), np.exp(np.log(model.predict_proba(X[:9]))))


def test_an_activation_that_is_none_is_refused_where_no_layer_has_one():
    ledger = Ledger()
    with pytest.raises(ArgumentError, match="activation='rleu': choose one of"):
        classifier(ledger, activation="rleu").fit(X, Y)
    assert not len(ledger)


def test_advice_on_missing_cells_leaks_nothing():
    ledger, spoilt = Ledger(), X.copy()
    spoilt[3, 1] = np.nan
    with pytest.raises(ArgumentError, match=r"contains NaN in 1 cell of 900.*missing=True.*outside the guarantee"):
        classifier(ledger).fit(spoilt, Y)
    assert not len(ledger)
