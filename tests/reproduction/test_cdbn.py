"""DP-CDBN: its coefficients against loops, the bounds that its epsilon rests on, and small runs of the whole."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dpmac.data import Dataset
from dpmac.randomness import SeededNoise
from reproduction import cdbn, cdbn_output, cdbn_published, cdbn_table
from reproduction.cdbn import FINE, LAG, LEVELS, WEIGHT, LayerRecipe
from reproduction.laplace import perturbed
from reproduction.slim import RESULTS
from reproduction.store import Job, Store


def pictures(n=20, channels=2, side=6, seed=0):
    draw = SeededNoise(seed, "/pictures").uniform(n * channels * side**2)
    return (draw * (LEVELS + 1)).long().view(n, channels, side, side)


def loss_of_sums(weights, bias, levels, recipe):
    """The rows' term of a layer's objective, one place at a time: the oracle of the released polynomial."""
    _, linear, square = cdbn.softplus_polynomial(recipe.interval)
    u = F.conv2d(levels.double() / LEVELS, weights, bias, padding=LAG)
    return (linear * u + square * u**2).sum() / len(levels), u


def test_coefficients_are_the_sums_of_pixels_and_of_products_at_every_lag():
    levels = pictures(n=2, channels=2, side=5)
    got = cdbn.correlations(levels)
    assert got.shape == (2, 2 + 41 + 81 + 41)
    wide = F.pad(levels, (LAG,) * 4)
    lags = list(product(range(-LAG, LAG + 1), repeat=2))
    expected = [WEIGHT * levels[:, c].sum(dim=(1, 2)) for c in range(2)]
    for one, other in ((0, 0), (0, 1), (1, 1)):
        for down, right in lags if one != other else lags[40:]:
            moved = wide[:, other, LAG + down : LAG + down + 5, LAG + right : LAG + right + 5]
            expected.append((levels[:, one] * moved).sum(dim=(1, 2)))
    assert torch.equal(got, torch.stack(expected, dim=1))


def test_the_released_polynomial_is_the_objective_of_the_rows():
    """Coefficients without noise, evaluated at some weights, give what a loop over rows and places gives."""
    levels, recipe = pictures(channels=3), LayerRecipe(filters=4, bound=1e6, share=1.0)
    answer = cdbn.release_correlations(levels, recipe, math.inf, SeededNoise(0))
    mean, second = cdbn._moments(answer, len(levels), 3)
    weights, bias = SeededNoise(1).normal((4, 3, 5, 5)), SeededNoise(2).normal((4,))
    _, linear, square = cdbn.softplus_polynomial(recipe.interval)
    u = weights.sum(dim=(2, 3)) @ mean.double()
    places = (6 + LAG) ** 2
    autocorrelations = cdbn._autocorrelations(weights)
    u_squared = (autocorrelations * second.double()).sum(dim=(1, 2, 3, 4)) + 2 * bias * u + places * bias**2
    got = (linear * (u + places * bias) + square * u_squared).sum()
    expected, _ = loss_of_sums(weights, bias, levels, recipe)
    assert float(got) == pytest.approx(float(expected), rel=1e-5)


def test_the_expansion_is_near_softplus_on_its_interval():
    for interval in (1.0, 12.0):
        at = np.linspace(-interval, interval, 101)
        constant, linear, square = cdbn.softplus_polynomial(interval)
        worst = np.abs(constant + linear * at + square * at**2 - np.logaddexp(0, at)).max()
        assert linear == pytest.approx(0.5)
        assert worst < 0.07 * interval


@pytest.mark.parametrize("bound", [1_000, 10**6, 10**8])
def test_no_share_of_a_layer_is_longer_than_its_bound(bound):
    levels = torch.cat([pictures(), torch.full((1, 2, 6, 6), LEVELS), torch.zeros(1, 2, 6, 6).long()])
    shares = cdbn.bounded_shares(levels, bound)
    assert int(shares.abs().sum(dim=1).max()) <= bound
    free = cdbn.correlations(levels)
    short = free.sum(dim=1) <= bound
    assert torch.equal(shares[short], free[short])
    one = cdbn.bounded_shares(levels[3:4], bound)
    assert torch.equal(one[0], shares[3])  # a row's share is its own


@pytest.mark.parametrize("bound", [10, 3_000, 10**6])
def test_no_share_of_the_output_layer_is_longer_than_its_bounds(bound):
    """Both parts, computed as they are summed: |f|_1 <= bound, products (i <= j) <= bound^2 / 2."""
    features = cdbn_output.with_constant((SeededNoise(3).uniform(400).view(10, 40) * 5000).long())
    kept = cdbn_output.bounded(features, bound)
    upper = torch.triu_indices(41, 41)
    for row in kept:
        assert int(row.sum()) <= bound
        assert int(torch.outer(row, row)[upper[0], upper[1]].sum()) <= bound**2 // 2
    assert torch.equal(cdbn_output.bounded(features[4:5], bound)[0], kept[4])


def test_deleting_a_row_changes_what_is_summed_by_the_sensitivity_at_most(monkeypatch):
    """The sums that reach the noise, with a row and with it blank, in every release of a network of two layers."""
    seen = []

    def noted(sums, sensitivity, epsilon, source):
        seen.append((sums, sensitivity))
        return perturbed(torch.zeros_like(sums), sensitivity, math.inf, source)  # the same layers behind both

    monkeypatch.setattr(cdbn, "perturbed", noted)
    monkeypatch.setattr(cdbn_output, "perturbed", noted)
    recipe = small_recipe(layers=2)
    data = small()
    blank = replace(data, x_train=data.x_train.clone())
    blank.x_train[7] = 0.0
    shares = []
    for rows in (data, blank):
        inputs, _, _ = cdbn_table.features_of(recipe, 1.0, rows, SeededNoise(0))
        if rows is blank:
            inputs = torch.cat([inputs[:7], inputs[8:]])
        labels = rows.y_train if rows is data else torch.cat([rows.y_train[:7], rows.y_train[8:]])
        cdbn_output.fit_output(inputs, labels, 4_000, 0.1, 0.5, 1.0, SeededNoise(0))
        shares.append(list(seen))
        seen.clear()
    assert len(shares[0]) == 4
    for (with_row, sensitivity), (without, same) in zip(*shares, strict=True):
        difference = int((with_row - without).abs().sum())
        assert 0 < difference <= sensitivity == same


def test_no_input_leaves_the_interval_of_the_expansion():
    recipe = LayerRecipe(filters=5, bound=1e3, share=1.0, interval=3.0, steps=4, chains=3)
    levels = torch.cat([pictures(channels=1), torch.full((1, 1, 6, 6), LEVELS)])
    answer = cdbn.release_correlations(levels, recipe, 0.01, SeededNoise(0))  # mostly noise
    layer = cdbn.train_layer(answer, len(levels), 1, 6, recipe, SeededNoise(1))
    _, u = loss_of_sums(layer.weights.double(), layer.bias.double(), levels, recipe)
    assert float(u.abs().max()) <= 3.0 + 1e-5
    gram = layer.weights.flatten(1) @ layer.weights.flatten(1).T
    assert float((gram - gram.diagonal().diag()).abs().max()) < 1e-5


def test_training_a_layer_finds_filters_that_fit_the_rows_better_than_random_ones():
    recipe = LayerRecipe(filters=2, bound=1e3, share=1.0, steps=60, chains=20)
    stripes = torch.zeros(30, 1, 8, 8).long()
    stripes[:, :, ::2] = LEVELS
    answer = cdbn.release_correlations(stripes, recipe, math.inf, SeededNoise(0))
    layer = cdbn.train_layer(answer, 30, 1, 8, recipe, SeededNoise(1))
    random = cdbn.untrained_layer(1, recipe, SeededNoise(1))
    fits = [float(loss_of_sums(one.weights.double(), one.bias.double(), stripes, recipe)[0]) for one in (layer, random)]
    assert fits[0] > fits[1] + 1.0


def test_features_are_whole_numbers_of_each_row_alone_and_a_blank_row_has_none():
    layer = cdbn.untrained_layer(1, LayerRecipe(filters=4, bound=1.0, share=1.0), SeededNoise(0))
    rows = torch.cat([pictures(n=5, channels=1, side=8), torch.zeros(1, 1, 8, 8).long()])
    features = layer.pooled(rows, 4, FINE)
    assert features.shape == (6, 4, 2, 2)
    assert 0 <= int(features.min()) <= int(features.max()) <= FINE
    assert not features[5].any()
    hidden = layer.hidden(rows)
    assert int((hidden > 0).sum(dim=1).max()) == 1  # one unit a place
    other = torch.cat([rows[:1], torch.zeros_like(rows[1:])])
    assert torch.equal(layer.pooled(other, 4, FINE)[0], features[0])


def test_the_output_layer_is_the_ridge_solution_where_there_is_no_noise():
    features = (SeededNoise(3).uniform(2000).view(200, 10) * 5000).long()
    labels = features[:, :3].argmax(dim=1)
    output = cdbn_output.fit_output(features, labels, 10**6, 0.0, 0.5, math.inf, SeededNoise(0))
    rows = cdbn_output.with_constant(features).double()
    truth = F.one_hot(labels, 10).double() - 0.5
    gram = rows.T @ rows
    expected = torch.linalg.solve(gram + 1e-4 * gram.diagonal().mean() * torch.eye(11), rows.T @ truth)
    torch.testing.assert_close(output.weights, expected, rtol=1e-6, atol=1e-12)
    assert output.accuracy(features, labels) > 0.8
    with pytest.raises(ValueError, match="add up exactly"):
        cdbn_output.fit_output(features, labels, 10**8, 0.0, 0.5, 1.0, SeededNoise(0))


def small(_name="mnist", _path=None, rows=60, side=8):
    draw = SeededNoise(4, "/mnist")
    labels = torch.arange(rows) % 10
    x = (draw.uniform(rows * side**2).reshape(rows, side**2) < 0.2 + 0.06 * labels[:, None]).float()
    return Dataset("mnist", x, labels, x[:30], labels[:30], (side, side), "here")


def small_recipe(layers=1):
    first = LayerRecipe(filters=3, bound=2.0, share=0.1, steps=2, chains=2)
    stack = (first, replace(first, filters=2, share=0.2))[:layers]
    return cdbn.NetworkRecipe(stack, pool=4, length=4.0, ridge=0.1)


def test_a_run_spends_its_epsilon_and_no_more():
    for layers in (1, 2):
        recipe = small_recipe(layers)
        accuracy, cost = cdbn_table.score(recipe, cdbn_table.ONE, 2.0, small(), SeededNoise(0))
        assert 0 <= accuracy <= 1
        assert 1.999 < cost <= 2.0
    untrained = replace(recipe, trained=False)
    assert 1.999 < cdbn_table.score(untrained, cdbn_table.UNTRAINED, 2.0, small(), SeededNoise(0))[1] <= 2.0


def test_the_published_output_layer_learns_and_claims_no_epsilon(monkeypatch):
    monkeypatch.setattr(cdbn_published, "EPOCHS", 3)
    accuracy, cost = cdbn_table.score(small_recipe(), cdbn_table.UNPROVED, 2.0, small(), SeededNoise(0))
    assert cost == "none"
    assert 0 <= accuracy <= 1


def test_the_command_runs_each_seed_once_and_prints_the_table(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(cdbn_table, "load", small)
    monkeypatch.setattr(cdbn_table, "recipe_of", lambda row, epsilon: small_recipe())
    monkeypatch.setattr(cdbn_published, "EPOCHS", 1)
    monkeypatch.setattr(cdbn_table, "EPSILONS", (0.5, 2.0))
    given = ["--runs", "2", "--out", str(tmp_path)]
    cdbn_table.main(given)
    shown = capsys.readouterr().out
    lines = [line for line in shown.splitlines() if line.startswith("| DP-CDBN, one layer")]
    assert len(lines) == 2
    assert re.fullmatch(r"\| DP-CDBN, one layer \| 0\.5 \| 0\.50 \| 0\.\d+ ± 0\.\d+ \(2\) \| 0\.92 \|", lines[0])
    assert "outside the package's guarantee" in shown
    monkeypatch.setattr(cdbn_table, "score", None)  # a second call finds every run
    cdbn_table.main(given)
    assert capsys.readouterr().out == shown
    assert Store(tmp_path).load(Job("mnist", cdbn_table.UNPROVED, "laplace", 2.0, 1)) is not None


def test_the_page_has_the_table_of_the_runs_and_their_recipes_are_todays():
    content = json.loads((RESULTS / "cdbn.json").read_text())
    page = (RESULTS / "cdbn.md").read_text()
    assert cdbn_table.markdown(content) in page
    assert "outside the package's guarantee" in " ".join(page.split())
    (made,) = content["made_with"]
    assert made["command"] in page
    for row in content["rows"]:
        epsilon = float(row["epsilon"])
        recipe = cdbn_table.recipe_of(row["row"], epsilon)
        assert row["recipe"] == json.loads(json.dumps(cdbn_table.asdict(recipe)))
        assert row["paper"] == cdbn_table.published(row["row"], epsilon)
        if row["row"] != cdbn_table.UNPROVED and math.isfinite(epsilon):
            assert len(row["scores"]) >= 3
            assert 0.999 * epsilon < row["true_epsilon"] <= epsilon
