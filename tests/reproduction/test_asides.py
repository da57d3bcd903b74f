"""The asides of the results page, ``paper_inputs``, ``linear_basis`` and ``strokes``, on small data."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import torch

from dpmac.data import Dataset
from dpmac.priors import Pretraining, pretraining
from dpmac.randomness import SeededNoise
from reproduction import linear_basis, paper_inputs, strokes
from reproduction.rows import table_rows
from reproduction.settings import CLOSED_FORMS, PRESETS
from reproduction.store import Job, Store


def small(table, _path=None, rows=90):
    draw, side = SeededNoise(4, f"/{table}"), {"mnist": 8, "usps": 16}[table]
    x = draw.uniform(rows * side**2).reshape(rows, side**2).float()
    labels = torch.arange(rows) % 10
    return Dataset(table, x, labels, x[:30], labels[:30], (side, side), "here")


@pytest.mark.parametrize(("table", "epsilon"), [("mnist", 8.0), ("usps", math.inf)])
def test_unnoised_statistics_are_another_training_of_the_same_recipe(table, epsilon, monkeypatch):
    assert (table, epsilon) in paper_inputs.CASES
    monkeypatch.setattr(paper_inputs, "load", small)
    recipe = PRESETS["paper"][table, "DP-MAC", epsilon]
    quick = replace(recipe, epochs=1, batch_size=30, hidden=recipe.hidden[:1])
    monkeypatch.setitem(PRESETS["paper"], (table, "DP-MAC", epsilon), quick)
    public, unnoised = (paper_inputs.score(table, epsilon, way, 0, "cpu") for way in (False, True))
    assert public == paper_inputs.score(table, epsilon, False, 0, "cpu")
    assert math.isfinite(public)
    assert math.isfinite(unnoised)
    if table == "usps":  # without its mean image a row of uniform pixels is shorter, and so is its error
        assert unnoised < public


def test_the_basis_alone_stands_beside_the_whole(monkeypatch, capsys):
    monkeypatch.setattr(linear_basis, "load", small)
    monkeypatch.setattr(linear_basis, "CLOSED_FORMS", {8.0: replace(CLOSED_FORMS[8.0], features=20), math.inf: None})
    linear_basis.main()
    header, line = capsys.readouterr().out.splitlines()
    assert header.startswith("epsilon")
    assert re.fullmatch(r" +8 +180 +\d+\.\d{3} +\d+\.\d{3}", line)


def test_the_autoencoder_from_drawn_strokes_is_run_once_for_each_seed_and_its_budget_is_met(
    monkeypatch, capsys, tmp_path
):
    pretraining._known.clear()
    monkeypatch.setattr(strokes, "load", small)
    monkeypatch.setattr(strokes, "EPSILONS", (8.0,))
    monkeypatch.setattr(strokes, "HIDDEN", (12,))
    monkeypatch.setattr(strokes, "TRAINING", Pretraining(rows=60, steps=3))
    given = ["--runs", "2", "--out", str(tmp_path)]
    strokes.main(given)
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"epsilon 0 \(the start alone\): \d+\.\d{3}", first)
    assert re.fullmatch(r"epsilon 8: \d+\.\d{3} \+- \d+\.\d{3} \(2 runs\)", second)
    monkeypatch.setattr(strokes, "DPMACAutoencoder", None)  # a second call finds both runs
    strokes.main(given)
    assert capsys.readouterr().out.splitlines() == [first, second]
    (row,) = table_rows([Store(tmp_path).load(Job("usps", strokes.ROW, "tight", 8.0, seed)) for seed in (0, 1)])
    assert 7.9 < row.true_epsilon <= 8.0
    assert len(pretraining._known) == 1  # the start alone is that of the runs
    assert "60 rows of pictures (strokes) of 16 x 16 pixels" in row.recipe["start"]
