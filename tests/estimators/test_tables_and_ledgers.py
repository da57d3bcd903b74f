"""Estimators on tables with a public schema, and budgets that several fits share by one ledger."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from dpmac import ArgumentError, DPMACClassifier, Network
from dpmac.nets.fronts import load_front
from dpmac.privacy import Ledger
from dpmac.tables import Category, Number, Schema, TableEncoder
from dpmac.training.defaults import defaults_for

FEATURES = {
    "age": Number(18, 90),
    "dose": Number(0, 5, missing=True),
    "sex": Category(["F", "M"]),
    "group": Category(["a", "b"], missing=True),
}
SCHEMA = Schema({**FEATURES, "died": Category(["0", "1"])}, target="died", positive="1")


def people(n, seed=0):
    """Numbers and strings, a tenth of two columns missing, a group that the schema does not list."""
    draw = np.random.RandomState(seed)
    age, dose, sex = draw.uniform(18, 90, n), draw.uniform(0, 5, n), draw.choice(["F", "M"], n)
    died = draw.uniform(size=n) < 1 / (1 + np.exp(-(age - 54) / 6 - 2.0 * (sex == "M") + 0.5 * dose))
    group = pd.Series(draw.choice(["a", "b", "stranger"], n)).where(draw.uniform(size=n) > 0.1, None)
    dose[draw.uniform(size=n) < 0.1] = np.nan
    died = np.where(died, "1", "0")
    return pd.DataFrame({"name": "someone", "group": group, "died": died, "sex": sex, "dose": dose, "age": age})


TABLE, UNSEEN = people(1200), people(1200, seed=1)
FEW = TABLE[:300]
X, Y = TABLE.drop(columns="died"), TABLE["died"]


def plain(**more):
    return model(**{"epsilon": math.inf, "batch_size": None, "epochs": 20, **more})


def model(**more):
    """Batches of all rows (the accountant is quick then), and always the same epochs and epsilon."""
    usual = {"epsilon": 2.0, "epochs": 30, "batch_size": 1200, "random_state": 0, "progress": False, "schema": SCHEMA}
    return DPMACClassifier(**{**usual, **more})


def small(**more):
    """For 300 rows."""
    return model(**{"batch_size": 300, **more})


class Watched(DPMACClassifier):
    """Remembers what it would have said without its calibration."""

    def _write_into_the_network(self, slope, offset):
        self.before_ = self.decision_function(UNSEEN)
        super()._write_into_the_network(slope, offset)


@pytest.fixture(scope="module")
def private():
    return Watched(**model().get_params(deep=False)).fit(TABLE)


def labels_of(ledger):
    return Counter(entry.label for entry in ledger.entries)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_of_strings_and_missing_cells_is_learned():
    fitted = plain().fit(TABLE)
    assert fitted.score(UNSEEN, UNSEEN["died"]) > 0.8
    assert fitted.classes_.tolist() == ["0", "1"]
    assert fitted.n_features_in_ == 4
    assert fitted.feature_names_in_.tolist() == list(FEATURES)


def test_and_learned_privately(private):
    assert private.score(UNSEEN, UNSEEN["died"]) > max(0.7, np.mean(UNSEEN["died"] == "1"))
    assert "class labels" not in str(private.privacy_.statement())  # they are the schema's, not the rows'


def test_the_target_may_stand_in_the_table_or_beside_it():
    inside = plain().fit(TABLE).predict_proba(UNSEEN)
    assert np.array_equal(plain().fit(X, Y).predict_proba(UNSEEN), inside)
    assert np.array_equal(plain(schema=Schema(FEATURES)).fit(X, Y).predict_proba(UNSEEN), inside)
    assert np.array_equal(plain(schema=SCHEMA.to_dict()).fit(X, list(Y)).predict_proba(UNSEEN), inside)
    with pytest.raises(ArgumentError, match="y=None: the schema names no target: give y"):
        plain(schema=Schema(FEATURES)).fit(TABLE)


@pytest.mark.parametrize("kind", ["int64", "int8", "float64", "string", "category", "object"])
def test_classes_are_of_the_labels_own_type(kind):
    y = Y.astype(int).astype(kind) if kind in ("int64", "int8", "float64") else Y.astype(kind)
    fitted = plain(epochs=5).fit(X, y)
    wanted = [0, 1] if kind in ("int64", "int8", "float64") else ["0", "1"]
    assert fitted.classes_.tolist() == wanted
    assert set(fitted.predict(X)) == set(wanted)
    assert np.array_equal(fitted.predict_proba(X), plain(epochs=5).fit(TABLE).predict_proba(X))


def test_a_class_that_no_row_has_is_still_one():
    fitted = plain(epochs=1).fit(X, np.zeros(len(X), dtype=int))
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.predict_proba(X).shape == (1200, 2)


def test_an_unknown_label_is_refused():
    for strange, y in (("2", Y.astype(int).where(Y.index > 0, 2)), ("'maybe'", Y.where(Y.index > 0, "maybe"))):
        with pytest.raises(ArgumentError, match=f"y={strange}: this label is not among classes="):
            plain().fit(X, y)


def test_columns_that_the_schema_does_not_name_do_not_matter(private):
    wanted = private.predict_proba(UNSEEN)
    assert np.array_equal(private.predict_proba(UNSEEN[list(FEATURES)]), wanted)
    assert np.array_equal(private.predict_proba(UNSEEN.assign(name=7, more="x")[UNSEEN.columns[::-1]]), wanted)
    with pytest.raises(ArgumentError, match="column='dose': the table has no such column"):
        private.predict(UNSEEN.drop(columns="dose"))


def test_the_front_is_the_encoder_and_what_is_saved_gives_the_same_outputs(private, tmp_path):
    assert isinstance(private.front_, TableEncoder)
    assert private.front_.schema == SCHEMA
    folder = private.run_.save(tmp_path / "run")
    front, network = load_front(folder / "front.safetensors"), Network.load(folder / "model.safetensors")
    assert isinstance(front, TableEncoder)
    codes = front.codes(UNSEEN)
    with torch.no_grad():
        u = network.double()(front(codes).float().double())
    assert torch.equal(u, private.run_.outputs(codes))
    assert np.array_equal(torch.softmax(u, dim=1).numpy(), private.predict_proba(UNSEEN))  # calibrated, too


def test_auto_is_the_rule_of_the_defaults_and_sizes_may_be_given():
    usual = defaults_for(300, regression=False)
    fitted = plain(epochs=None).fit(FEW)
    width = fitted.front_.n_features_out
    assert fitted.network_.sizes == (width, *usual.hidden, 2)
    assert (fitted.plan_.steps, fitted.plan_.batch_size) == (usual.steps, usual.batch_size)
    assert plain(epochs=1, hidden_layer_sizes=(5, 4)).fit(FEW).network_.sizes == (width, 5, 4, 2)
    assert plain(epochs=1, hidden_layer_sizes=()).fit(FEW).network_.sizes == (width, 2)


def test_delta_follows_from_the_rows_where_none_is_given(private):
    assert private.privacy_.delta == 1e-5
    assert model()._delta(200_000) < 1 / 200_000
    with pytest.raises(ArgumentError, match="delta=1e-05: it must be below 1/n"):
        model(delta=1e-5)._delta(200_000)
    assert model(delta=1e-7)._delta(200_000) == 1e-7


# --- calibration ------------------------------------------------------------------------------------------------------


def test_one_fit_costs_its_epsilon_with_the_calibration(private):
    assert 1.99 < private.privacy_.epsilon <= 2.0
    assert labels_of(private.privacy_.ledger) == {"training step": private.plan_.steps, "calibration": 6}


def test_the_network_says_the_calibrated_logits(private):
    slope, offset = private.calibration_
    assert slope > 0
    assert (slope, offset) != (1.0, 0.0)
    assert np.allclose(private.decision_function(UNSEEN), slope * private.before_ + offset, atol=1e-5)


def test_calibrate_false_spends_all_on_the_training(private):
    bare = model(calibrate=False).fit(TABLE)
    assert bare.calibration_ is None
    assert labels_of(bare.privacy_.ledger) == {"training step": 30}
    assert bare.plan_.noise_multiplier < private.plan_.noise_multiplier
    assert 1.99 < bare.privacy_.epsilon <= 2.0


def test_few_rows_or_no_noise_have_no_calibration():
    assert model()._calibration(999) is None
    assert model()._calibration(1000) is not None
    assert plain().fit(TABLE).calibration_ is None
    fitted = small().fit(FEW)
    assert fitted.calibration_ is None
    assert labels_of(fitted.privacy_.ledger) == {"training step": 30}


# --- ledgers ----------------------------------------------------------------------------------------------------------


def test_a_second_fit_with_the_same_ledger_states_both(private):
    ledger = Ledger()
    for entry in private.privacy_.ledger.entries:  # the first fit's, as if it had been given this ledger
        ledger.append(entry)
    second = small(ledger=ledger).fit(FEW)
    assert second.privacy_.ledger is ledger
    assert labels_of(ledger) == {"training step": 60, "calibration": 6}
    alone = small().fit(FEW)
    assert second.plan_.noise_multiplier == alone.plan_.noise_multiplier  # what was spent before costs it no noise
    assert second.privacy_.epsilon > max(private.privacy_.epsilon, alone.privacy_.epsilon) + 0.5
    assert second.privacy_.statement().epsilon == second.privacy_.epsilon
    third = clone(second)
    assert third.ledger is ledger
    third.fit(FEW)
    assert len(ledger) == 36 + 30 + 30
    assert third.privacy_.epsilon == second.privacy_.epsilon  # of one ledger, whoever asks


def test_a_ledger_of_our_own_is_new_for_every_fit():
    fitted = small()
    assert len(fitted.fit(FEW).privacy_.ledger) == len(fitted.fit(FEW).privacy_.ledger) == 30


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_a_path_is_begun_and_gone_on_with(tmp_path, kind):
    path = tmp_path / "ledger.jsonl"
    fitted = small(ledger=kind(path)).fit(FEW)
    once = fitted.privacy_.epsilon
    assert len(Ledger.load(path)) == 30
    again = clone(fitted).fit(FEW)
    assert Ledger.load(path).entries == again.privacy_.ledger.entries
    assert len(again.privacy_.ledger) == 60
    assert again.privacy_.epsilon > once + 0.5


def test_cross_validation_over_one_ledger_counts_every_fit():
    ledger = Ledger()
    scores = cross_val_score(small(ledger=ledger), X[:600], Y[:600], cv=2)
    assert (scores > 0.5).all()
    assert len(ledger) == 2 * 30


def test_total_epsilon_refuses_before_anything_is_released(private):
    ledger = Ledger()
    first = small(ledger=ledger, total_epsilon=2.0).fit(FEW)  # what fits is fitted
    before = ledger.entries
    held = first.privacy_.epsilon
    second = small(ledger=ledger, total_epsilon=held + 0.5)
    with pytest.raises(ArgumentError, match=r"total_epsilon=.*: the ledger holds .* already.*: lower epsilon"):
        second.fit(FEW)
    assert ledger.entries == before
    with pytest.raises(NotFittedError):
        second.predict(FEW)
    both = second.set_params(total_epsilon=4.0).fit(FEW).privacy_.epsilon
    assert held + 0.5 < both <= 4.0


def test_total_epsilon_counts_the_calibration_too(private):
    """Between what the training costs by itself, and what it costs with the calibration after it."""
    training = Ledger()
    for entry in private.privacy_.ledger.entries[:30]:
        training.append(entry)
    between = (training.epsilon(1e-5) + private.privacy_.epsilon) / 2
    assert training.epsilon(1e-5) < between - 0.01
    ledger = Ledger()
    with pytest.raises(ArgumentError, match="total_epsilon="):
        model(ledger=ledger, total_epsilon=between).fit(TABLE)
    assert len(ledger) == 0


# --- errors -----------------------------------------------------------------------------------------------------------

BAD = [
    ({"bound": "nonsense"}, "bound='nonsense': choose one of"),
    ({"feature_range": (0, 1)}, r"feature_range=\(0, 1\): the schema has the ranges: leave feature_range out"),
    ({"schema": 5}, "schema=5: give a Schema"),
    ({"hidden_layer_sizes": "wide"}, "hidden_layer_sizes='wide': .* or 'auto'"),
    ({"device": "nonsense"}, "device='nonsense': .*: use 'cpu'"),
    pytest.param(
        {"device": "cuda"},
        "device='cuda': .*: use 'cpu'",
        marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here"),
    ),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_a_bad_argument_is_named_and_nothing_is_spent(change, message):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=message):
        small(ledger=ledger, **change).fit(FEW)
    assert len(ledger) == 0


def test_labels_and_rows_must_be_as_many():
    with pytest.raises(ArgumentError, match="y='5 targets': there are 1200 rows"):
        plain().fit(X, Y[:5])
    with pytest.raises(ArgumentError, match=r"column 'sex', row 0=None: .* say missing=True"):
        plain().fit(TABLE.assign(sex=TABLE["sex"].where(TABLE.index > 0, None)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": "2"}, "epsilon='2': give a number above 0"),
        ({"total_epsilon": math.nan}, "total_epsilon=nan: give what the ledger may hold"),
        ({"total_epsilon": "2"}, "total_epsilon='2'"),
        ({"ledger": 5}, "ledger=5: give a Ledger, the path of one, or None"),
        ({"device": 5.5}, "device=5.5"),
    ],
)
def test_numbers_that_are_none_are_named(change, message):
    with pytest.raises(ArgumentError, match=message):
        plain(**change).fit(X, Y)


def test_labels_may_be_true_and_false():
    """What a class is called follows from the type of the labels, never from which of them the rows have."""
    for y in (Y.astype(int).astype(bool), np.ones(len(X), dtype=bool)):
        fitted = plain(epochs=1, epsilon=math.inf).fit(X, y)
        assert fitted.classes_.tolist() == [False, True]
