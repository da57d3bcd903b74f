"""Priors in the estimators: where they whiten, what the statement says, and that fits stay what they were without."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import dpmac
from dpmac.checks import ArgumentError
from dpmac.nets import WideNetwork
from dpmac.nets.feature_maps import Affine, Chain, Whitening
from dpmac.priors import PublicRows, RangePrior, SchemaPrior
from dpmac.privacy import Ledger, Origin
from dpmac.privacy.entry import Entry
from dpmac.tables import Category, Number, Schema, TableEncoder
from dpmac.training.defaults import Defaults

COLUMNS = {"age": Number(0.0, 100.0), "ward": Category(["a", "b"]), "ill": Category(["no", "yes"])}
SCHEMA = Schema(COLUMNS, target="ill")
MANY = 20_000
QUICK = {"epochs": 0.5, "epsilon": 4.0, "random_state": 0, "calibrate": False}


def table(n, seed=0):
    draw = np.random.default_rng(seed)
    age, ward = draw.uniform(0, 100, n), draw.choice(["a", "b"], n)
    ill = np.where(draw.random(n) < 0.2 + 0.5 * (age > 50) * (ward == "a"), "yes", "no")
    return {"age": age, "ward": ward, "ill": ill}


@pytest.fixture(scope="module")
def fitted():
    return dpmac.DPMACClassifier(schema=SCHEMA, **QUICK).fit(table(MANY))


def test_a_large_table_is_whitened_and_the_statement_names_the_prior(fitted):
    assert isinstance(fitted.feature_map_, Chain)
    encoder, last = fitted.feature_map_.feature_maps
    assert isinstance(encoder, TableEncoder)
    assert isinstance(last, Whitening)
    said = str(fitted.privacy_.statement())
    assert "drawn from the schema alone" in said
    assert "20,000 rows" in said
    assert "seed 0" in said


def test_hidden_units_stand_beside_the_inputs():
    model = dpmac.DPMACClassifier(schema=SCHEMA, **QUICK | {"epsilon": float("inf")}).fit(table(MANY))
    assert isinstance(model.network_, WideNetwork)
    plain = model.network_.plain()
    inputs = model.feature_map_(torch.tensor([[30.0, 0.0], [60.0, 1.0]], dtype=torch.float64)).float()
    assert torch.allclose(plain(inputs), model.network_(inputs), atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"schema": SCHEMA, "prior": None},
        {"schema": dataclasses.replace(SCHEMA, origin=Origin())},  # and too few rows
        {"feature_range": (0.0, 100.0)},
    ],
)
def test_where_nothing_is_drawn_nothing_is_whitened(arguments):
    rows = table(300)
    given = (rows,)
    if "schema" not in arguments:
        given = (rows["age"][:, None], rows["ill"])
    model = dpmac.DPMACClassifier(**QUICK, **arguments).fit(*given)
    assert not any(isinstance(part, Whitening) for part in model.feature_map_.modules())
    assert "drawn" not in str(model.privacy_.statement())


def test_estimated_ranges_are_no_prior():
    ledger = Ledger()
    ledger.append(Entry("ranges", 5.0, 1.0))
    shaped = dataclasses.replace(SCHEMA, origin=Origin.of(ledger))
    model = dpmac.DPMACClassifier(schema=shaped, ledger=ledger, **QUICK)
    assert model._prior() is None
    assert not model._drawn


def test_a_prior_that_is_given_always_whitens():
    priors = (SchemaPrior(SCHEMA, seed=4), PublicRows(table(50), "fifty made-up people", schema=SCHEMA))
    for seed, prior in enumerate(priors):
        model = dpmac.DPMACClassifier(schema=SCHEMA, prior=prior, **QUICK).fit(table(300, seed))
        assert isinstance(model.feature_map_.feature_maps[-1], Whitening)
        assert prior.described() in str(model.privacy_.statement())
    rows = table(300, 9)
    array = dpmac.DPMACClassifier(feature_range=(0.0, 100.0), prior=RangePrior(0.0, 100.0, 1), **QUICK)
    array.fit(rows["age"][:, None], rows["ill"])
    assert isinstance(array.feature_map_.feature_maps[-1], Whitening)


def test_a_prior_behind_a_feature_map_of_the_users_own_is_saved_with_it(tmp_path):
    own = Affine(0.0, 2.0)
    model = dpmac.DPMACClassifier(schema=SCHEMA, feature_map=own, prior=SchemaPrior(SCHEMA), **QUICK).fit(table(300))
    model.save(tmp_path / "model")
    again = dpmac.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(table(20)), model.predict_proba(table(20)))
    assert isinstance(again.feature_map, Affine)


def test_a_whitened_model_is_loaded_bit_for_bit_and_exported(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = dpmac.load(tmp_path / "model")
    rows = table(40)
    assert np.array_equal(again.predict_proba(rows), fitted.predict_proba(rows))
    assert again.prior == "auto"
    assert str(again.privacy_.statement()) == str(fitted.privacy_.statement())


def test_a_metric_on_public_rows_sees_the_whitened_inputs():
    rows = table(MANY)
    public = table(200)
    asked = {**QUICK, "epochs": 1.0}
    model = dpmac.DPMACClassifier(schema=SCHEMA, **asked).fit(rows, public_validation=(public, public["ill"]))
    found = model.history_[-1].metrics["validation_accuracy"]
    averaged = float(np.mean(model.predict(public) == public["ill"]))
    assert found == pytest.approx(averaged, abs=0.1)


@pytest.mark.parametrize("prior", ["schema", 3, SchemaPrior])
def test_what_is_no_prior_is_refused_before_anything_is_spent(prior):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match="prior"):
        dpmac.DPMACClassifier(schema=SCHEMA, prior=prior, ledger=ledger, **QUICK).fit(table(50))
    assert not len(ledger)


def test_other_rows_have_the_same_whitening():
    """It follows from the schema alone: whose rows there are changes nothing of it."""
    maps = [dpmac.DPMACClassifier(schema=SCHEMA, **QUICK).fit(table(MANY, seed)).feature_map_ for seed in (5, 6)]
    assert torch.equal(maps[0].feature_maps[1].matrix, maps[1].feature_maps[1].matrix)


def test_a_table_of_many_columns_has_coarser_codes():
    columns = {f"x{k}": Number(0.0, 1.0) for k in range(40)}
    defaults = Defaults((), "relu", 0.01, 3.0, 0.95, bins=48, whitening=0.25)
    for count, wanted in ((10, 48), (20, 24), (40, 12)):
        schema = Schema({**dict(list(columns.items())[:count]), "ill": Category(["no", "yes"])}, target="ill")
        assert dpmac.DPMACClassifier(schema=schema)._bins_of(defaults) == wanted
    assert dpmac.DPMACClassifier(feature_range=(0, 1))._bins_of(defaults) == 48  # no schema, no codes
