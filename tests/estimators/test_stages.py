"""Two private estimators in a row: composed in one ledger, else a warning, and a line in the statement."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import dpmac
from dpmac import DPMACPCA, DPMACAutoencoder, DPMACClassifier, DPMACRegressor, Ledger, PrivacyWarning
from dpmac.kernels.moments import merged
from dpmac.privacy.accounting import epsilon_of
from dpmac.privacy.statement import round_up
from dpmac.tables import Number, Schema, TableEncoder

DRAW = np.random.RandomState(0)
X = DRAW.uniform(-1, 1, (300, 5))
Y = (X[:, 0] + 0.3 * DRAW.normal(size=300) > 0).astype(int)
ADDS_UP = r"made by another private estimator.*adds up.*Give both the same ledger"


def pca(**more):
    return DPMACPCA(**{"n_components": 2, "epsilon": 2.0, "feature_range": (-1, 1), **more})


def classifier(**more):
    usual = {"epsilon": 2.0, "epochs": 2, "batch_size": 150, "classes": (0, 1), "calibrate": False}
    return DPMACClassifier((), **{**usual, **more})


@pytest.fixture
def silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        yield


def of(*estimators, delta=1e-5):
    """The epsilon of all that these fits have released."""
    return epsilon_of(merged(m for one in estimators for m in one.privacy_.ledger.mechanisms()), delta)


def lines(fitted):
    return [line for line in fitted.privacy_.statement().not_covered() if "how the rows were made" in line]


def test_a_pipeline_without_a_ledger_is_warned_of_before_it_spends_and_its_statement_says_so():
    with pytest.warns(PrivacyWarning, match=ADDS_UP) as told:
        pipe = make_pipeline(pca(), classifier()).fit(X, Y)
    first, second = pipe[0], pipe[1]
    both = of(first, second)
    assert 2.5 < both < 4.0
    (line,) = lines(second)
    for text in (line, str(told[0].message)):
        for epsilon in (first.privacy_.epsilon, both):
            assert round_up(epsilon) in text
    assert line in str(second.privacy_.statement())
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        again = classifier(delta=1e-6)  # not the fit that was warned of
        with pytest.raises(PrivacyWarning, match=ADDS_UP):
            again.fit(first.transform(X), Y)
    assert not hasattr(again, "privacy_")


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("kind", ["object", "path"])
def test_with_one_ledger_the_statement_composes_both_in_silence(kind, tmp_path):
    ledger = Ledger() if kind == "object" else tmp_path / "ledger.jsonl"
    pipe = make_pipeline(pca(ledger=ledger), classifier(ledger=ledger)).fit(X, Y)
    statement = pipe[1].privacy_.statement()
    assert [m.label for m in statement.mechanisms] == ["mean", "DP-PCA", "training step"]
    assert statement.epsilon == epsilon_of(statement.mechanisms, 1e-5)
    assert statement.epsilon > 2.5
    assert not lines(pipe[1])


def by_hand(first, second):
    second.fit(first.fit(X).transform(X), Y)


def in_single_precision(first, second):
    second.fit(first.fit_transform(X).astype(np.float32), Y)


def some_rows(first, second):
    second.fit(first.fit(X).transform(X)[:200], Y[:200])


def shuffled(first, second):
    places = DRAW.permutation(300)
    second.fit(first.fit(X).transform(X)[places], Y[places])


def in_a_pipeline(first, second):
    Pipeline([("codes", first), ("model", second)]).fit(X, Y)


def in_a_union(first, second):
    union = FeatureUnion([("codes", first), ("as they are", FunctionTransformer())])
    make_pipeline(union, second).fit(X, Y)


def in_some_columns(first, second):
    columns = ColumnTransformer([("codes", first, [0, 1, 2]), ("as they are", "passthrough", [3, 4])])
    make_pipeline(columns, second).fit(X, Y)


def in_frames(first, second):
    pipe = make_pipeline(first, second).set_output(transform="pandas")
    pipe.fit(pd.DataFrame(X, columns=list("abcde")), Y)


def scaled(first, second):
    make_pipeline(first, FunctionTransformer(lambda codes: codes / 3 + 1), StandardScaler(), second).fit(X, Y)


def in_folds(first, second):
    cross_val_score(second, first.fit(X).transform(X), Y, cv=2)


def by_schema(first, second):
    table = first.set_output(transform="pandas").fit_transform(pd.DataFrame(X, columns=list("abcde")))
    second.set_params(schema=Schema({name: Number(-3, 3) for name in table})).fit(table, Y)


WAYS = [by_hand, in_single_precision, some_rows, shuffled, in_a_pipeline, in_a_union, in_some_columns, in_frames,
        scaled, in_folds, by_schema]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_codes_are_known_again(way):
    with pytest.warns(PrivacyWarning, match=ADDS_UP):
        way(pca(), classifier())


@pytest.mark.parametrize("way", WAYS)
def test_and_one_ledger_is_enough(way):
    ledger = Ledger()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        way(pca(ledger=ledger), classifier(ledger=ledger))
    assert not [one for one in told if "another private estimator" in str(one.message)]


AUTOENCODERS = [{"method": "closed-form"}, {"method": "gradient", "epochs": 1, "batch_size": 300}]


@pytest.mark.parametrize("how", AUTOENCODERS, ids=lambda how: how["method"])
def test_codes_of_autoencoders_are_known_again(how):
    with pytest.warns(PrivacyWarning, match=ADDS_UP):
        make_pipeline(DPMACAutoencoder(2, feature_range=(-1, 1), **how), classifier()).fit(X, Y)


def test_every_estimator_looks_at_its_rows():
    codes = pca().fit(X).transform(X)
    ledger = Ledger()  # one for all of these: it lacks the first one's releases
    for second in (
        DPMACPCA(1),
        DPMACAutoencoder(1, method="closed-form"),
        DPMACAutoencoder(1, method="gradient", epochs=1, batch_size=300),
        DPMACRegressor((), target_range=(0, 1), epochs=1, batch_size=300),
    ):
        with pytest.warns(PrivacyWarning, match=ADDS_UP):
            second.set_params(ledger=ledger).fit(codes, Y)
        assert lines(second)


def test_three_in_a_row_cost_all_three():
    with pytest.warns(PrivacyWarning, match=ADDS_UP) as told:
        pipe = make_pipeline(pca(n_components=3), DPMACAutoencoder(2, method="closed-form"), classifier()).fit(X, Y)
    assert len(told) == 2
    (line,) = lines(pipe[2])
    assert round_up(of(*pipe)) in line


def test_stacked_predictions_are_known_again():
    first = classifier(ledger=Ledger()).fit(X, Y)
    with pytest.warns(PrivacyWarning, match=ADDS_UP):
        StackingClassifier([("a", first)], final_estimator=classifier(), cv="prefit").fit(X, Y)
    with pytest.warns(PrivacyWarning, match=ADDS_UP):
        classifier(ledger=Ledger()).fit(first.decision_function(X)[:, None], Y)
    ranges = {"target_range": (0, 1), "epochs": 1, "batch_size": 300, "ledger": Ledger()}
    predicted = DPMACRegressor((), **ranges).fit(X, Y).predict(X)
    with pytest.warns(PrivacyWarning, match=ADDS_UP):
        classifier(ledger=Ledger()).fit(np.column_stack([X, predicted]), Y)


def test_a_model_that_was_saved_makes_codes_with_the_same_origin(tmp_path):
    pca().fit(X).save(tmp_path / "model")
    dpmac.extensions.outputs.forget()
    again = dpmac.load(tmp_path / "model")
    with pytest.warns(PrivacyWarning, match=ADDS_UP):
        classifier().fit(again.transform(X), Y)


def test_inputs_of_a_schema_that_was_estimated_are_known_again():
    table = {"a": X[:, 0], "b": X[:, 1]}
    ledger = Ledger()
    encoder = TableEncoder(Schema.estimate(table, epsilon=3.0, delta=1e-4, ledger=ledger))
    with pytest.warns(PrivacyWarning, match=ADDS_UP):
        classifier().fit(encoder.transform(table), Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        classifier(ledger=ledger).fit(encoder.transform(table), Y)


def test_the_network_of_the_second_knows_the_first():
    first = pca().fit(X)
    with pytest.warns(PrivacyWarning, match=ADDS_UP):
        second = classifier(calibrate=True, epsilon=4.0).fit(first.transform(X), Y)
    known = second.network_.origin
    assert not known.within(second.privacy_.ledger)
    assert first.pca_.origin.beyond(second.privacy_.ledger) == known.beyond(second.privacy_.ledger)


def test_an_exact_first_stage_makes_the_sum_infinite():
    with pytest.warns(PrivacyWarning, match="epsilon inf"):
        make_pipeline(pca(epsilon=math.inf), classifier()).fit(X, Y)


@pytest.mark.usefixtures("silent")
def test_no_false_alarms():
    """Public steps, rows of their own beside codes that went elsewhere, predictions, no privacy, other rows."""
    first = pca().fit(X)
    first.transform(X)
    other = np.random.RandomState(7).uniform(-1, 1, (300, 5))
    model = classifier().fit(other, Y)
    model.predict_proba(X)
    make_pipeline(FunctionTransformer(lambda rows: rows / 2), clone(model)).fit(0.9 * other + 0.05 * other**2, Y)
    classifier(epsilon=math.inf).fit(first.transform(X), Y)
    classifier().fit(np.random.RandomState(8).randint(0, 2, (300, 4)), Y)
