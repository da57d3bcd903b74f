"""The search's trainings on a GPU are those of the simulation, and its inputs those of the package."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from dpmac.priors import SchemaPrior, WhiteningOptions, whitened
from dpmac.tables import Category, Number, Schema, TableEncoder

SEARCH = Path(__file__).parents[2] / "benchmarks" / "search"
ROWS, WIDTH = 40, 5


@pytest.fixture(autouse=True)
def _beside_the_search(monkeypatch):
    """Its modules, which have names that other benchmarks have, too: they go again with the test."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(SEARCH))
    monkeypatch.syspath_prepend(str(SEARCH / "side"))
    yield
    for name in set(sys.modules) - before:
        if str(SEARCH) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize(("classes", "hidden", "wide"), [(c, *net) for c, net in product(
    (True, False), [((), False), ((8,), False), ((8,), True), ((8, 6), False)]
)])  # fmt: skip
def test_a_step_is_that_of_the_simulation(classes, hidden, wide):
    """The same weights and rows, next to no noise, thresholds that clip all rows, some and none."""
    from gpu_models import Each, Group, Models
    from simulation import Models as Simulated
    from simulation import Settings, Shape, WideModels

    draw = torch.Generator().manual_seed(3)
    x = torch.randn(ROWS, WIDTH, generator=draw)
    y = torch.rand(ROWS, generator=draw)
    y = (y > 0.5).float() if classes else 2 * y - 1
    lr, clip, noise = torch.tensor([0.01, 0.02, 0.03]), torch.tensor([0.1, 1.0, 50.0]), torch.full((3,), 1e-12)
    found = Models(Group(hidden, wide, 0.1, 100, classes), WIDTH + 1, Each(lr, clip, noise))
    settings = Settings(lr, clip, noise, torch.ones(3, WIDTH), torch.ones(3))
    kind = WideModels if wide else Simulated
    wanted = kind(Shape(hidden, "relu", 0.1, 100), WIDTH, 1 + classes, settings, draw)
    for w in wanted.weights:
        w.copy_(0.5 * torch.randn(w.shape, generator=draw))
    names = [*(f"hidden {place}" for place in range(len(hidden))), "top" if hidden else "direct"]

    def stacked(weights, place):
        return torch.cat(weights[wide + 2 * place : wide + 2 * place + 2], dim=1).transpose(0, 1)

    for place, name in enumerate(names):
        found.layers[name].copy_(stacked(wanted.weights, place))
    if wide:
        found.layers["direct"].copy_(wanted.weights[0].transpose(0, 1))
    targets = torch.stack([1 - y, y], dim=1) if classes else y[:, None]
    found.step(torch.cat([x, torch.ones(ROWS, 1)], dim=1), y, 0.3, 1)
    wanted.step(x, lambda u: (torch.softmax(u, -1) if classes else u) - targets, ROWS, 0.3, 1)
    for place, name in enumerate(names):
        torch.testing.assert_close(found.mean[name], stacked(wanted.mean, place), rtol=1e-4, atol=1e-7)
        torch.testing.assert_close(found.square[name], stacked(wanted.square, place), rtol=1e-4, atol=1e-10)
    if wide:
        torch.testing.assert_close(found.mean["direct"], wanted.mean[0].transpose(0, 1), rtol=1e-4, atol=1e-7)


def test_scores_are_scikit_learns_and_ties_count_half():
    from gpu_models import Each, Group, Models, scores

    draw = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randint(0, 4, (300, 3), generator=draw).float(), torch.ones(300, 1)], dim=1)
    y = (torch.rand(300, generator=draw) > 0.6).float()
    models = Models(Group((), False, 0.1, 1, True), 4, Each(torch.ones(2), torch.ones(2), torch.ones(2)))
    margins = models.forward(x, models.kept)[0]
    wanted = [roc_auc_score(y, margins[:, k]) for k in range(2)]
    assert scores(models, x, y).tolist() == pytest.approx(wanted, abs=1e-9)


def test_inputs_of_a_bundle_are_those_of_the_package(tmp_path):
    """Codes exactly; the whitening but for the 16 bits in which drawn rows travel."""
    from bundle import DRAWN, columns_of, packed
    from gpu_inputs import inputs, load, moments

    schema = Schema(
        {
            "age": Number(0, 100),
            "share": Number(0, 1, missing=True),
            "ward": Category(["A", "B", "C"]),
            "sick": Category(["no", "yes"], missing=True),
        }
    )
    columns = columns_of(schema)
    codes = SchemaPrior(schema, seed=5).drawn(50).numpy().astype(np.float32)
    drawn = packed(SchemaPrior(schema).drawn(DRAWN).numpy(), columns)
    about = {"name": "small", "classes": True, "columns": columns}
    np.savez(tmp_path / "small.npz", codes=codes, y=np.zeros(50, np.float32), drawn=drawn)
    (tmp_path / "small.json").write_text(json.dumps(about))
    data = load(tmp_path, "small", "cpu")
    encoder = TableEncoder(schema, bins=7)
    wanted = encoder(torch.from_numpy(codes).double())
    found = inputs(data, 7, 0.0, None, None)
    assert torch.equal(found[:, :-1], wanted.float())
    assert torch.equal(found[:, -1], torch.ones(50))
    chain = whitened(encoder, SchemaPrior(schema), WhiteningOptions(power=0.5))
    wanted = chain(torch.from_numpy(codes).double()).float()
    found = inputs(data, 7, 0.5, None, moments(data.drawn, columns, 7))
    assert found[:, :-1].sub(wanted).abs().max() < 0.05 * wanted.abs().max()
