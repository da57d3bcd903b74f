"""One column exchanged at a time, against whole rows through the model's own ``predict``."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dpmac
from dpmac import DPMACClassifier, DPMACRegressor, Ledger, Schema
from dpmac.nets import WideNetwork
from dpmac.nets.feature_maps import Affine, Projection
from dpmac.priors import SchemaPrior
from dpmac.report import effects
from dpmac.report.effects import effects_of
from dpmac.report.exchanged import _steps, exchanged
from dpmac.report.noise import noisy_copies
from dpmac.report.synthetic import maker_for
from dpmac.tables import Category, Number
from dpmac.tables.kinds import KINDS

SCHEMA = Schema(
    {
        "age": Number(20, 90, missing=True),
        "pay": Number(0, 1000),
        "sex": Category(["F", "M"]),
        "ward": Category(list("abcde"), missing=True),
        "y": Category(["no", "yes"]),
    },
    target="y",
)


def table(rows=300):
    draw = np.random.default_rng(1)
    ward = draw.choice([*"abcde", None], rows)
    age = np.where(draw.random(rows) < 0.1, np.nan, draw.uniform(20, 90, rows))
    found = {"age": age, "pay": draw.uniform(0, 1000, rows), "sex": draw.choice(["F", "M"], rows), "ward": ward}
    return {**found, "y": np.where(draw.random(rows) < 0.3, "yes", "no")}


def fitted(kind=DPMACClassifier, **given):
    settings = {"epsilon": 3.0, "epochs": 3, "random_state": 1, "ledger": Ledger(), **given}
    return kind(**settings)


def both(model, schema, monkeypatch):
    """Effects by exchanged columns, and by whole rows."""
    maker = maker_for(model, schema)
    copies = noisy_copies(model, model.plan_, model.privacy_.ledger, model.history_)
    quick = effects_of(model, maker, schema, copies)
    with monkeypatch.context() as patch:
        patch.setattr(effects, "exchanged", lambda *given: None)
        return quick, effects_of(model, maker, schema, copies)


def same(quick, slow):
    assert quick.outputs == slow.outputs
    assert quick.there == pytest.approx(slow.there, abs=1e-6)
    of = {one.column: one for one in slow.columns}
    assert len(quick.columns) == len(of)
    assert max(one.size for one in quick.columns) > 1e-4
    for one in quick.columns:
        other = of[one.column]
        assert one.cells.labels == other.cells.labels
        np.testing.assert_allclose(one.means, other.means, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(one.noise, other.noise, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "given",
    [
        {"prior": SchemaPrior(SCHEMA)},
        {"prior": SchemaPrior(SCHEMA), "hidden_layer_sizes": ()},
        {"hidden_layer_sizes": (6, 5), "activation": "tanh", "prior": None},
        {"prior": None, "calibrate": False},
    ],
)
def test_a_table_gives_the_effects_of_whole_rows(given, monkeypatch):
    model = fitted(schema=SCHEMA, **given).fit(table())
    assert model.plan_.noise_multiplier
    maps = [step.kind for step in _steps(model.feature_map_)]
    assert maps == ["table", "whitening"][: 2 - (given["prior"] is None)]
    same(*both(model, SCHEMA, monkeypatch))


def test_a_regressor_and_hidden_units_beside_the_inputs(monkeypatch):
    schema = Schema({**SCHEMA.features, "y": Number(0, 1)}, target="y")
    rows = {**table(), "y": np.random.default_rng(2).random(300)}
    same(*both(fitted(DPMACRegressor, schema=schema).fit(rows), schema, monkeypatch))
    monkeypatch.setattr(
        DPMACRegressor,
        "_network",
        lambda self, inputs, outputs, _, source: WideNetwork(inputs, 6, outputs, source=source),
    )
    model = fitted(DPMACRegressor, schema=schema).fit(rows)
    assert [type(one).__name__ for one in model.network_.children()] == ["Beside", "ReLUBeyond", "Dense"]
    same(*both(model, schema, monkeypatch))


@pytest.mark.parametrize("hidden", [(), (5,), "auto"])
def test_arrays(hidden, monkeypatch):
    draw = np.random.default_rng(3)
    x, y = draw.uniform(-2, 5, size=(400, 4)), draw.integers(0, 3, size=400)
    model = fitted(hidden_layer_sizes=hidden, feature_range=([-2, -3, 0, 1], 5)).fit(x, y)
    same(*both(model, None, monkeypatch))


def test_every_kind_of_column(monkeypatch):
    every = {f"{kind} {k}": one for kind in KINDS for k, one in enumerate(KINDS[kind].samples())}
    schema = Schema(every)
    rows = {name: column.examples(9) for name, column in every.items()}
    rows = {name: np.resize(cells, 200) for name, cells in rows.items()}
    model = fitted(schema=schema, prior=None, hidden_layer_sizes=(3,)).fit(rows, np.arange(200) % 2)
    same(*both(model, schema, monkeypatch))


def test_a_saved_model_gives_the_same(tmp_path, monkeypatch):
    model = fitted(schema=SCHEMA).fit(table())
    again = dpmac.load(dpmac.save(model, tmp_path / "run"))
    quick, _ = both(model, SCHEMA, monkeypatch)
    same(effects_of(again, maker_for(again, SCHEMA), SCHEMA, noisy_copies_of(model, again)), quick)


def noisy_copies_of(model, again):
    return noisy_copies(again, model.plan_, model.privacy_.ledger, model.history_)


def quick_of(model, schema):
    maker = maker_for(model, schema)
    base, tried = maker.usual({}), {name: maker.tried(name, 5) for name in maker.columns}
    return exchanged(model, [], maker, base, tried, lambda one, rows: one.predict_proba(rows), lambda *_: None)


def test_other_models_are_left_to_whole_rows(monkeypatch):
    draw = np.random.default_rng(4)
    x, y = draw.random((300, 4)), draw.integers(0, 2, 300)
    turned = Projection(torch.eye(4, dtype=torch.float64)[:2], torch.zeros(4, dtype=torch.float64), 2.0)
    for one in (turned, Affine(0.5, 2.0)):
        model = fitted(feature_range=(0, 1), feature_map=one).fit(x, y)
        assert quick_of(model, None) is None
        assert len(both(model, None, monkeypatch)[0].columns) == 4
    assert quick_of(fitted(feature_range=(0, 1)).fit(x, y), None) is not None


def test_the_columns_are_told_and_each_is_read_once(monkeypatch):
    """A hundred times the columns of one block: nothing is asked of whole rows."""
    columns = {f"x{k}": Number(0, 1, missing=True) for k in range(900)}
    schema = Schema({**columns, "y": Category(["no", "yes"])}, target="y")
    draw = np.random.default_rng(5)
    rows = {name: draw.random(60) for name in columns}
    model = fitted(schema=schema, hidden_layer_sizes=(), epochs=1).fit({**rows, "y": draw.choice(["no", "yes"], 60)})
    monkeypatch.setattr(type(model), "_raw", lambda *_: pytest.fail("a whole row was asked"))
    told, maker = [], maker_for(model, schema)
    found = effects_of(model, maker, schema, tell=lambda *now: told.append(now))
    assert len(found.columns) == 900
    assert found.not_tried == 0
    assert told == [(683, 900), (900, 900)]
