"""A public feature map of the user's own in an estimator: fitted behind it, saved, loaded and exported with it."""

from __future__ import annotations

import json
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn
from typer.testing import CliRunner

import dpmac
from dpmac import DPMACAutoencoder, DPMACClassifier, DPMACRegressor, Ledger
from dpmac.cli import app
from dpmac.modules import FrozenModule
from dpmac.nets.feature_maps import Affine, Chain, Projection, ToRange
from dpmac.privacy import Origin
from dpmac.saving import export_torch
from dpmac.tables import Category, Number, Schema

ROWS, WIDTH = 240, 5
QUICK = {"epsilon": 8.0, "random_state": 0, "epochs": 2, "machine": dpmac.Machine(progress=False)}


def encoder():
    torch.manual_seed(0)
    return nn.Sequential(nn.Unflatten(1, (1, WIDTH)), nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten())


def rows(seed=0):
    x = np.random.default_rng(seed).uniform(-3, 3, (ROWS, WIDTH)).astype(np.float32)
    return x, (x[:, 0] > x[:, 1]).astype(int)


def frozen():
    return FrozenModule(encoder(), "drawn numbers")


@pytest.fixture(scope="module")
def fitted():
    x, y = rows()
    return DPMACClassifier((), feature_range=(-3, 3), feature_map=frozen(), classes=[0, 1], **QUICK).fit(x, y), x


def test_the_network_sees_what_the_feature_map_gives(fitted):
    model, x = fitted
    inputs = encoder()(ToRange(-3.0, 3.0)(torch.from_numpy(x)).float()).detach()
    assert model.network_.sizes[0] == inputs.shape[1] == 12
    expected = torch.softmax(model.network_(inputs).detach().double(), dim=1)
    np.testing.assert_allclose(model.predict_proba(x), expected, atol=1e-6)
    assert "a frozen module, Sequential, trained on drawn numbers" in str(model.privacy_.statement())


def test_mapping_rows_has_a_bar_where_the_machine_shows_any(monkeypatch):
    seen: list[tuple[object, ...]] = []

    @contextmanager
    def bar(work, show, **_):
        yield lambda done, total: seen.append((work, show, done, total))

    monkeypatch.setattr("dpmac.estimators.mapped.progress_bar", bar)
    x, y = rows()
    given = {**QUICK, "machine": dpmac.Machine(progress="auto")}
    DPMACClassifier((), feature_range=(-3, 3), feature_map=frozen(), classes=[0, 1], **given).fit(x, y)
    assert seen[-1] == ("mapping rows", "auto", ROWS, ROWS)


def test_what_was_given_stays_as_it_was_and_is_cloned(fitted):
    model, x = fitted
    again = clone(model).fit(x, rows()[1])
    assert again.feature_map is not model.feature_map
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


def test_it_comes_back_with_the_code_that_is_handed_in(fitted, tmp_path):
    model, x = fitted
    folder = model.save(tmp_path / "model")
    start = encoder()
    start[1].weight.data.zero_()  # its numbers do not matter
    again = dpmac.load(folder, module=start)
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    assert isinstance(again.feature_map, FrozenModule)
    np.testing.assert_array_equal(clone(again).fit(x, rows()[1]).predict_proba(x), model.predict_proba(x))
    assert not start[1].weight.any()


@pytest.mark.parametrize("handed", [None, nn.ReLU(), [encoder(), encoder()]])
def test_without_its_code_there_is_no_model(fitted, tmp_path, handed):
    folder = fitted[0].save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"module=.*weights of Sequential.*dpmac\.load\(folder, module=Sequential"):
        dpmac.load(folder, module=handed)


def test_a_folder_is_shown_and_reported_without_the_code(fitted, tmp_path):
    folder = fitted[0].save(tmp_path / "model")
    shown = CliRunner().invoke(app, ["inspect", str(folder), "--json"])
    assert json.loads(shown.output)["epsilon"] <= 8.0
    told = CliRunner().invoke(app, ["report", str(folder)])
    assert told.exit_code == 0, told.output


@pytest.mark.parametrize(
    ("feature_map", "width"),
    [
        (Affine(0.5, 2.0), WIDTH),
        (Projection(torch.eye(WIDTH)[:3], torch.zeros(WIDTH), 9.0), 3),
        (Chain((Affine(0.1, 1.0), frozen())), 12),
    ],
)
def test_any_feature_map_is_saved_and_exported(feature_map, width, tmp_path):
    x, y = rows()
    model = DPMACRegressor((), feature_map=feature_map, target_range=(0, 1), residuals=False, **QUICK).fit(x, y)
    assert model.network_.sizes[0] == width
    code = encoder() if width == 12 else None
    again = dpmac.load(model.save(tmp_path / "model"), module=code)
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    program = torch.export.load(export_torch(again, tmp_path / "model.pt2")).module()
    np.testing.assert_allclose(program(torch.from_numpy(x)), model.predict(x), atol=1e-6)


def test_behind_a_schema(tmp_path):
    table = {"a": np.linspace(0, 10, ROWS), "b": np.array(["x", "y"])[np.arange(ROWS) % 2]}
    schema = Schema({"a": Number(0, 10), "b": Category(["x", "y"])})
    inputs = DPMACClassifier(schema=schema)._feature_map(2).shape_after((2,))[0]
    torch.manual_seed(0)
    feature_map = FrozenModule(nn.Linear(inputs, 4), "drawn numbers")
    model = DPMACClassifier((), schema=schema, feature_map=feature_map, **QUICK).fit(table, table["a"] > 5)
    again = dpmac.load(model.save(tmp_path / "model"), module=nn.Linear(inputs, 4))
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    export_torch(model, tmp_path / "model.pt2")
    assert [one["name"] for one in json.loads((tmp_path / "model.pt2.json").read_text())["input"]["columns"]] == [
        "a",
        "b",
    ]


def test_a_feature_map_of_the_same_rows_is_refused_without_their_ledger():
    x, y = rows()
    feature_map, ledger = frozen(), Ledger()
    first = DPMACClassifier((), ledger=ledger, feature_range=(-3, 3), **QUICK).fit(x, y)
    feature_map.origin = Origin.of(first.privacy_.ledger)
    with pytest.raises(ValueError, match="ledger"):
        DPMACClassifier((), feature_map=feature_map, **QUICK).fit(x, y)
    DPMACClassifier((), feature_map=feature_map, ledger=ledger, **QUICK).fit(x, y)


@pytest.mark.parametrize("given", ["scattering", encoder(), 3])
def test_anything_else_is_refused_before_anything_is_spent(given):
    x, y = rows()
    ledger = Ledger()
    with pytest.raises(ValueError, match=r"feature_map=.*give a dpmac\.nets\.feature_maps\.FeatureMap"):
        DPMACClassifier(feature_map=given, ledger=ledger, **QUICK).fit(x, y)
    with pytest.raises(ValueError, match="rows of shape"):
        DPMACClassifier(feature_map=frozen(), ledger=ledger, **QUICK).fit(x[:, :2], y)
    assert not ledger.entries


def test_estimators_that_give_rows_back_take_none():
    with pytest.raises(TypeError, match="feature_map"):
        DPMACAutoencoder(feature_map=frozen())
