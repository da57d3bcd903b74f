"""Settings keep their budgets; closed forms do what they say; one run of each kind works on small data."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.data import Dataset
from dpmac.experiments import jobs as jobs_module
from dpmac.experiments.closed_form import ClosedForm, linear_classifier, low_frequencies
from dpmac.experiments.jobs import Job, jobs, run_job
from dpmac.experiments.recipe import Recipe
from dpmac.experiments.settings import CLOSED_FORMS, DELTA, EPSILONS, GAUSSIAN, PRESETS, ROWS, SUFFICIENT, TIGHT
from dpmac.privacy import Ledger, Mechanism, SeededNoise, epsilon_of

PRIVATE = [key for key in TIGHT if math.isfinite(key[2])]


@pytest.mark.parametrize("key", PRIVATE, ids=str)
def test_tight_noise_meets_its_budget_and_wastes_little(key):
    table, _row, epsilon = key
    true = TIGHT[key].plan(ROWS[table], DELTA).epsilon()
    assert 0.99 * epsilon < true <= epsilon


def test_one_release_rows_meet_their_budgets():
    for epsilon, sigma in GAUSSIAN.items():
        if math.isfinite(epsilon):
            share = CLOSED_FORMS[epsilon].share
            two = [Mechanism(sigma / math.sqrt(share)), Mechanism(sigma / math.sqrt(1 - share))]
            for mechanisms in ([Mechanism(sigma)], two):
                assert 0.99 * epsilon < epsilon_of(mechanisms, DELTA) <= epsilon + 1e-9
    for epsilon, choices in SUFFICIENT.items():
        mechanisms = [Mechanism(choices.pca_noise), Mechanism(choices.noise_multiplier)]
        if math.isinf(epsilon):
            assert {m.noise_multiplier for m in mechanisms} == {0.0}
        else:
            assert 0.99 * epsilon < epsilon_of(mechanisms, DELTA) <= epsilon


def test_the_published_dp_sgd_has_half_the_noise_and_its_true_epsilon():
    """method.md, 7.1: really about 18.1, 7.5, 3.5 and 1.6."""
    for epsilon, true in ((8.0, 18.1), (4.0, 7.5), (2.0, 3.5), (1.0, 1.6)):
        recipe = PRESETS["paper"]["usps", "DP-SGD as published", epsilon]
        assert recipe.noise_multiplier == PRESETS["paper"]["usps", "DP-SGD", epsilon].noise_multiplier / 2
        assert recipe.plan(5000, DELTA).epsilon() == pytest.approx(true, rel=0.02)


def test_jobs_have_unique_keys_and_cover_the_tables():
    everything = [job for table in EPSILONS for preset in PRESETS for job in jobs(table, preset, 3)]
    assert len({job.key for job in everything}) == len(everything)
    assert {job.row for job in jobs("usps", "paper", 1)} == {"DP-MAC", "DP-SGD", "DP-SGD as published"}
    assert {job.epsilon for job in jobs("mnist", "tight", 1, [2.0])} == {2.0}
    assert jobs("usps", "tight", 1, [0.5]) == []
    for bad, message in (
        (("cifar", "paper", 1), "table="),
        (("usps", "loose", 1), "preset="),
        (("usps", "paper", 0), "runs="),
    ):
        with pytest.raises(ArgumentError, match=message):
            jobs(*bad)


def test_recipes_refuse_unknown_choices():
    good = {"method": "dp-mac", "hidden": (3,), "activation": "relu", "loss": "softmax", "batch_size": 10, "epochs": 1,
            "noise_multiplier": 1.0}  # fmt: skip
    for change in ({"method": "sgd"}, {"bound": "none"}, {"zstep": "newton"}, {"optimizer": "lbfgs"}):
        with pytest.raises(ArgumentError, match=next(iter(change))):
            Recipe(**{**good, **change})


def test_low_frequencies_are_an_orthonormal_basis():
    basis = low_frequencies(8, 20)
    assert torch.allclose(basis @ basis.T, torch.eye(20, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(basis[0], torch.full((64,), 1 / 8, dtype=torch.float64))


def curved_rows(n=1500):
    """8 x 8 images on a curved two-dimensional surface: a linear code of two numbers cannot hold them."""
    draw = SeededNoise(5)
    t = 2 * draw.uniform(n)[:, None] - 1, 2 * draw.uniform(n)[:, None] - 1
    waves = low_frequencies(8, 5)[1:]
    surface = torch.cat([t[0], t[1], 0.7 * (t[0] ** 2 - 0.3), 0.7 * t[0] * t[1]], dim=1)
    return 0.5 + 0.4 * surface @ waves


def error(model, x):
    return float(0.5 * (model.reconstruct(x) - x).square().sum(dim=1).mean())


def test_a_solved_output_layer_sees_what_a_linear_code_cannot():
    x = curved_rows()
    choices = ClosedForm(0.5, 0.5, 20, 2, 100, 2.0, 0.5, 10.0, 1.0)
    linear = replace(choices, share=1.0).fit(x, 0.0, SeededNoise(0), Ledger())
    curved = choices.fit(x, 0.0, SeededNoise(0), Ledger())
    assert error(curved, x) < 0.6 * error(linear, x)


def test_the_closed_form_costs_what_one_gaussian_costs():
    ledger = Ledger()
    ClosedForm(0.3, 0.5, 20, 2, 50).fit(curved_rows(300), 4.0, SeededNoise(0), ledger)
    assert [e.label for e in ledger.entries] == ["DP-PCA", "output layer"]
    assert [e.sample_rate for e in ledger.entries] == [1.0, 1.0]
    assert ledger.epsilon(1e-5) == pytest.approx(epsilon_of([Mechanism(4.0)], 1e-5), rel=1e-3)


def test_the_linear_classifier_is_ridge_regression_without_noise():
    draw = SeededNoise(0)
    x = draw.normal((300, 6))
    x = x / x.norm(dim=1, keepdim=True)
    labels = torch.eye(3, dtype=torch.float64)[(draw.uniform(300) * 3).long()]
    ledger = Ledger()
    ours = linear_classifier(x, labels, 0.0, 0.5, SeededNoise(1), ledger)
    inputs = torch.cat([x, torch.ones(300, 1, dtype=torch.float64)], dim=1)
    # the joint bound scales every example by one factor: the same for all rows of one norm and one label each
    factor = 2.0 / math.sqrt(2.0 + 4.0) if math.sqrt(2.0 + 4.0) > 2.0 else 1.0
    gram = factor * inputs.T @ inputs + 0.5 * torch.eye(7, dtype=torch.float64)
    assert torch.allclose(ours, torch.linalg.solve(gram, factor * inputs.T @ labels).T, atol=1e-3)
    assert len(ledger) == 1


def test_a_run_without_privacy_has_no_noise_anywhere_and_says_so():
    for preset in PRESETS:
        for (_table, _row, epsilon), recipe in PRESETS[preset].items():
            if math.isinf(epsilon):
                assert recipe.noise_multiplier == 0
                assert not recipe.pca_noise
                assert math.isinf(recipe.plan(5000, DELTA).epsilon())


def test_only_the_first_seed_keeps_a_picture_of_its_features(monkeypatch):
    draw = SeededNoise(2)
    x = draw.uniform(120 * 64).reshape(120, 64).float()
    labels = torch.arange(120) % 10
    monkeypatch.setattr(
        jobs_module, "load", lambda *_: Dataset("mnist", x, labels, x[:30], labels[:30], (8, 8), "here")
    )
    key = ("mnist", "DP-MAC", 8.0)
    quick = replace(TIGHT[key], epochs=1, batch_size=60, hidden=(12,))
    monkeypatch.setitem(PRESETS, "tight", {key: quick})
    first, second = (run_job(Job("mnist", "DP-MAC", "tight", 8.0, seed), None) for seed in (0, 1))
    assert first["digits"] == [0, 3, 5, 6, 8]
    assert [len(image) for image in first["first_layer"]] == [64] * 5
    assert first["image_shape"] == [8, 8]
    assert not {"digits", "first_layer", "image_shape"} & set(second)
    assert [m["label"] for m in first["mechanisms"]] == ["DP-PCA", "training step"]


@pytest.mark.parametrize("row", ["DP-MAC", "DP-SGD", "linear (DP-PCA)", "DP-MAC from DP-PCA"])
def test_one_run_of_every_kind_on_small_images(row, monkeypatch):
    draw = SeededNoise(1)
    x = draw.uniform(200 * 256).reshape(200, 256).float()
    small = Dataset(
        "usps", x, torch.zeros(200, dtype=torch.int64), x[:50], torch.zeros(50, dtype=torch.int64), (16, 16), "here"
    )
    monkeypatch.setattr(jobs_module, "load", lambda _name, _path: small)
    key = ("usps", "DP-MAC" if row == "DP-MAC" else "DP-SGD", 8.0)
    quick = {**TIGHT, key: replace(TIGHT[key], epochs=2, batch_size=50)}
    monkeypatch.setitem(PRESETS, "tight", quick)
    result = run_job(Job("usps", row, "tight", 8.0, 0), None)
    again = run_job(Job("usps", row, "tight", 8.0, 0), None)
    assert result["metric"] == again["metric"]  # the same job, the same figure
    assert math.isfinite(result["metric"])
    assert result["delta"] == DELTA
    assert result["mechanisms"]
    assert all(set(point) == {"epoch", "train", "test"} for point in result["curve"])
