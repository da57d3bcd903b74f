"""Settings keep their budgets; closed forms do what they say; one run of each kind works on small data."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.data import Dataset
from dpmac.methods import linear_classifier
from dpmac.privacy import Ledger, Mechanism, epsilon_of
from dpmac.randomness import SeededNoise
from reproduction import jobs as jobs_module
from reproduction.jobs import run_job, table_jobs
from reproduction.recipe import ClosedFormRecipe, Recipe
from reproduction.settings import (
    CLOSED_FORMS,
    DELTA,
    EPSILONS,
    GAUSSIAN,
    LINEAR_FORMS,
    PRESETS,
    ROWS,
    SUFFICIENT,
    TIGHT,
)
from reproduction.store import Job

# --- budgets ----------------------------------------------------------------------------------------------------------


def test_tight_noise_meets_its_budget_and_wastes_little():
    for (table, row, epsilon), recipe in TIGHT.items():
        if math.isfinite(epsilon):
            true = recipe.plan(ROWS[table], DELTA).epsilon()
            assert 0.99 * epsilon < true <= epsilon, (table, row, epsilon)


def test_one_release_rows_meet_their_budgets():
    for epsilon, sigma in GAUSSIAN.items():
        if math.isfinite(epsilon):
            share = CLOSED_FORMS[epsilon].share
            two = [Mechanism(sigma / math.sqrt(share)), Mechanism(sigma / math.sqrt(1 - share))]
            for mechanisms in ([Mechanism(sigma)], two):
                assert 0.99 * epsilon < epsilon_of(mechanisms, DELTA) <= epsilon + 1e-9
    assert {recipe.share for recipe in LINEAR_FORMS.values()} == {1.0}  # all of it in one release
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


def test_a_run_without_privacy_has_no_noise_anywhere_and_says_so():
    for recipes in PRESETS.values():
        for (_table, _row, epsilon), recipe in recipes.items():
            if math.isinf(epsilon):
                assert recipe.noise_multiplier == 0
                assert not recipe.pca_noise
                assert math.isinf(recipe.plan(5000, DELTA).epsilon())


# --- jobs and recipes -------------------------------------------------------------------------------------------------


def test_jobs_have_unique_keys_and_cover_the_tables():
    everything = [job for table in EPSILONS for preset in PRESETS for job in table_jobs(table, preset, 3)]
    assert len({job.key for job in everything}) == len(everything)
    assert {job.row for job in table_jobs("usps", "paper", 1)} == {"DP-MAC", "DP-SGD", "DP-SGD as published"}
    assert {job.epsilon for job in table_jobs("mnist", "tight", 1, [2.0])} == {2.0}
    assert table_jobs("usps", "tight", 1, [0.5]) == []
    for bad, message in (
        (("cifar", "paper", 1), "table="),
        (("usps", "loose", 1), "preset="),
        (("usps", "paper", 0), "runs="),
    ):
        with pytest.raises(ArgumentError, match=message):
            table_jobs(*bad)


def test_recipes_refuse_unknown_choices():
    good = {"method": "dp-mac", "hidden": (3,), "activation": "relu", "loss": "softmax", "batch_size": 10, "epochs": 1,
            "noise_multiplier": 1.0}  # fmt: skip
    for change in ({"method": "sgd"}, {"bound": "none"}, {"zstep": "newton"}, {"optimizer": "lbfgs"}):
        with pytest.raises(ArgumentError, match=next(iter(change))):
            Recipe(**{**good, **change})


# --- closed forms -----------------------------------------------------------------------------------------------------


def low_frequencies(count):
    """The public basis of 8 x 8 images, as the feature map of a closed form applies it."""
    return ClosedFormRecipe(frequencies=count, centre=0.0).method(8).feature_map(torch.eye(64, dtype=torch.float64)).T


def curved_rows(n=1500):
    """8 x 8 images on a curved two-dimensional surface: a linear code of two numbers cannot hold them."""
    draw = SeededNoise(5)
    t = 2 * draw.uniform(n)[:, None] - 1, 2 * draw.uniform(n)[:, None] - 1
    waves = low_frequencies(5)[1:]
    surface = torch.cat([t[0], t[1], 0.7 * (t[0] ** 2 - 0.3), 0.7 * t[0] * t[1]], dim=1)
    return 0.5 + 0.4 * surface @ waves


def error(recipe, x):
    model = recipe.method(8).fit(x, 0.0, SeededNoise(0), Ledger())
    return float(0.5 * (model.reconstruct(x) - x).square().sum(dim=1).mean())


def test_low_frequencies_are_an_orthonormal_basis():
    basis = low_frequencies(20)
    assert torch.allclose(basis @ basis.T, torch.eye(20, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(basis[0], torch.full((64,), 1 / 8, dtype=torch.float64))


def test_a_solved_output_layer_sees_what_a_linear_code_cannot():
    x = curved_rows()
    recipe = ClosedFormRecipe(0.5, 0.5, 20, 2, 100, 2.0, 0.5, 10.0, 1.0)
    assert error(recipe, x) < 0.6 * error(replace(recipe, share=1.0), x)


def test_the_closed_form_costs_what_one_gaussian_costs():
    ledger = Ledger()
    ClosedFormRecipe(0.3, 0.5, 20, 2, 50).method(8).fit(curved_rows(300), 4.0, SeededNoise(0), ledger)
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
    factor = 2.0 / math.sqrt(2.0 + 4.0)
    gram = factor * inputs.T @ inputs + 0.5 * torch.eye(7, dtype=torch.float64)
    assert torch.allclose(ours, torch.linalg.solve(gram, factor * inputs.T @ labels).T, atol=1e-3)
    assert len(ledger) == 1


# --- one run of every kind --------------------------------------------------------------------------------------------


def small(table, rows=120):
    draw = SeededNoise(1, f"/{table}")
    side = {"mnist": 8, "usps": 16}[table]
    x = draw.uniform(rows * side**2).reshape(rows, side**2).float()
    labels = torch.arange(rows) % 10
    return Dataset(table, x, labels, x[:30], labels[:30], (side, side), "here")


@pytest.fixture
def quick(monkeypatch):
    """Small data, narrow networks, two passes."""
    monkeypatch.setattr(jobs_module, "load", lambda table, _path: small(table))
    recipes = {key: replace(r, epochs=2, batch_size=60, hidden=r.hidden[:1]) for key, r in TIGHT.items()}
    monkeypatch.setitem(PRESETS, "tight", recipes)
    monkeypatch.setitem(CLOSED_FORMS, 8.0, replace(CLOSED_FORMS[8.0], features=50))


@pytest.mark.parametrize(
    ("table", "row", "labels"),
    [
        ("mnist", "DP-MAC", ["DP-PCA", "training step"]),
        ("mnist", "linear (sufficient statistics)", ["DP-PCA", "sufficient statistics"]),
        ("usps", "DP-MAC", ["training step"]),
        ("usps", "DP-SGD", ["training step"]),
        ("usps", "linear (DP-PCA)", ["DP-PCA"]),
        ("usps", "DP-MAC from DP-PCA", ["DP-PCA", "output layer"]),
    ],
)
def test_one_run_of_every_kind_on_small_images(table, row, labels, quick):
    job = Job(table, row, "tight", 8.0, 0)
    result, again = run_job(job, None), run_job(job, None)
    assert result["metric"] == again["metric"]  # the same job, the same figure
    assert not result["curve"] or run_job(replace(job, seed=1), None)["curve"] != result["curve"]
    assert math.isfinite(result["metric"])
    assert result["delta"] == DELTA
    assert [m["label"] for m in result["mechanisms"]] == labels
    assert [set(point) for point in result["curve"]] == [{"epoch", "train", "test"}] * len(result["curve"])
    assert len(result["curve"]) == (0 if "DP-PCA" in row or "linear" in row else 2)


def test_only_the_first_seed_keeps_a_picture_of_its_first_layer(quick):
    first, second = (run_job(Job("mnist", "DP-MAC", "tight", 8.0, seed), None) for seed in (0, 1))
    assert first["digits"] == [0, 3, 5, 6, 8]
    assert [len(image) for image in first["first_layer"]] == [64] * 5
    assert first["image_shape"] == [8, 8]
    assert not {"digits", "first_layer", "image_shape"} & set(second)


def test_every_run_has_one_thread_and_gives_the_others_back(quick, monkeypatch):
    seen = []

    def train(*_):
        seen.append(torch.get_num_threads())
        raise RuntimeError

    monkeypatch.setattr(jobs_module, "train", train)
    torch.set_num_threads(2)
    try:
        with pytest.raises(RuntimeError):
            run_job(Job("usps", "DP-MAC", "tight", 8.0, 0), None)
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(1)
