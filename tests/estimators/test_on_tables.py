"""Estimators on tables with a public schema: what is learned, what the classes are, which errors name what."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from patients import FEATURES, FEW, SCHEMA, TABLE, UNSEEN, X, Y, model, plain, small, watched

from dpmac import ArgumentError, Machine, Network
from dpmac.nets.feature_maps import load_feature_map
from dpmac.privacy import Ledger
from dpmac.tables import Schema, TableEncoder
from dpmac.training.defaults import defaults_for, schedule_for


@pytest.fixture(scope="module")
def private():
    return watched()


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
        with pytest.raises(ArgumentError, match=f"y, row 0={strange}: this label is not among classes="):
            plain().fit(X, y)


def test_columns_that_the_schema_does_not_name_do_not_matter(private):
    wanted = private.predict_proba(UNSEEN)
    assert np.array_equal(private.predict_proba(UNSEEN[list(FEATURES)]), wanted)
    assert np.array_equal(private.predict_proba(UNSEEN.assign(name=7, more="x")[UNSEEN.columns[::-1]]), wanted)
    with pytest.raises(ArgumentError, match="column='dose': the table has no such column"):
        private.predict(UNSEEN.drop(columns="dose"))


def test_the_feature_map_is_the_encoder_and_what_is_saved_gives_the_same_outputs(private, tmp_path):
    assert isinstance(private.feature_map_, TableEncoder)
    assert private.feature_map_.schema == SCHEMA
    folder = private.run_.save(tmp_path / "run")
    feature_map, network = load_feature_map(folder / "front.safetensors"), Network.load(folder / "model.safetensors")
    assert isinstance(feature_map, TableEncoder)
    codes = feature_map.codes(UNSEEN)
    with torch.no_grad():
        u = network.double()(feature_map(codes).float().double())
    assert torch.equal(u, private.run_.outputs(codes))
    assert np.array_equal(torch.softmax(u, dim=1).numpy(), private.predict_proba(UNSEEN))  # calibrated, too


def test_auto_is_the_rule_of_the_defaults_and_sizes_may_be_given():
    fitted = plain(epochs=None).fit(FEW)
    usual, cut = defaults_for(fitted.plan_, regression=False), schedule_for(300)
    width = fitted.feature_map_.n_features_out
    assert fitted.network_.sizes == (width, *usual.hidden, 2)
    assert (fitted.plan_.steps, fitted.plan_.batch_size) == (cut.steps, cut.batch_size)
    assert plain(epochs=1, hidden_layer_sizes=(5, 4)).fit(FEW).network_.sizes == (width, 5, 4, 2)
    assert plain(epochs=1, hidden_layer_sizes=()).fit(FEW).network_.sizes == (width, 2)


def test_delta_follows_from_the_rows_where_none_is_given(private):
    assert private.privacy_.delta == 1e-5
    assert model()._delta(200_000) < 1 / 200_000
    with pytest.raises(ArgumentError, match="delta=1e-05: it must be below 1/n"):
        model(delta=1e-5)._delta(200_000)
    assert model(delta=1e-7)._delta(200_000) == 1e-7


# --- errors -----------------------------------------------------------------------------------------------------------

BAD = [
    ({"bound": "nonsense"}, "bound='nonsense': choose one of"),
    ({"feature_range": (0, 1)}, r"feature_range=\(0, 1\): the schema has the ranges: leave feature_range out"),
    ({"schema": 5}, "schema=5: give a Schema"),
    ({"hidden_layer_sizes": "wide"}, "hidden_layer_sizes='wide': .* or 'auto'"),
    ({"machine": Machine(device="nonsense")}, "device='nonsense': .*: use 'cpu'"),
    pytest.param(
        {"machine": Machine(device="cuda")},
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
