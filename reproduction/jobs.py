"""The runs behind the tables: what there is to run, and how one run is done."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from dpmac.checks import ArgumentError, integer
from dpmac.data import Dataset, load
from dpmac.methods import DPPCA, linear_classifier
from dpmac.privacy import Ledger
from dpmac.randomness import NoiseSource, SeededNoise
from reproduction.recipe import AnyRecipe, ClosedFormRecipe, Recipe, StatisticsRecipe
from reproduction.settings import CLOSED_FORMS, DELTA, EPSILONS, GAUSSIAN, LINEAR_FORMS, PRESETS, SUFFICIENT
from reproduction.store import Job
from reproduction.tasks import one_thread, train

LINEAR = "linear (DP-PCA)"
WHOLE = "DP-MAC from DP-PCA"
STATISTICS = "linear (sufficient statistics)"
ONE_RELEASE = {"usps": (LINEAR, WHOLE), "mnist": (STATISTICS,)}
PICTURE = ("first_layer", "digits", "image_shape")


def table_jobs(table: str, preset: str, runs: int, epsilons: Sequence[float] | None = None) -> list[Job]:
    """All runs of a table under a preset, seeds 0 to ``runs`` - 1; only those of the stated ``epsilons``, if given."""
    if table not in EPSILONS:
        raise ArgumentError("table", table, f"choose one of {', '.join(EPSILONS)}")
    if preset not in PRESETS:
        raise ArgumentError("preset", preset, f"choose one of {', '.join(PRESETS)}")
    integer("runs", runs, "give a number of runs, at least 1")
    wanted = [e for e in EPSILONS[table] if epsilons is None or e in epsilons]
    rows = [(row, e) for (name, row, e) in PRESETS[preset] if name == table and e in wanted]
    if preset == "tight":
        rows += [(row, e) for row in ONE_RELEASE[table] for e in wanted]
    return [Job(table, row, preset, epsilon, seed) for row, epsilon in rows for seed in range(runs)]


def recipe_of(job: Job) -> AnyRecipe:
    """Every public choice of a run."""
    if job.row == STATISTICS:
        return SUFFICIENT[job.epsilon]
    if job.row == WHOLE:
        return CLOSED_FORMS[job.epsilon]
    if job.row == LINEAR:
        return LINEAR_FORMS[job.epsilon]
    return PRESETS[job.preset][job.table, job.row, job.epsilon]


def run_job(job: Job, data_path: str | None, device: str = "cpu") -> dict[str, Any]:
    """Do one run, on one thread, and say what came of it, in plain values."""
    started = time.perf_counter()
    data, recipe, ledger = load(job.table, data_path), recipe_of(job), Ledger()
    source = SeededNoise(job.seed, f"/{job.table}/{job.row}/{job.preset}/{job.epsilon:g}")
    with one_thread():
        if isinstance(recipe, Recipe):
            result = train(recipe, data, source, ledger, device)
        elif isinstance(recipe, ClosedFormRecipe):
            result = {"metric": _closed_form(recipe, GAUSSIAN[job.epsilon], data, source, ledger), "curve": []}
        else:
            result = {"metric": _statistics(recipe, data, source, ledger), "curve": []}
    if job.seed:  # one picture of the first layer is enough
        result = {name: value for name, value in result.items() if name not in PICTURE}
    mechanisms = [
        {"label": m.label, "noise_multiplier": m.noise_multiplier, "sample_rate": m.sample_rate, "count": m.count}
        for m in ledger.mechanisms()
    ]
    said = {"recipe": asdict(recipe), "mechanisms": mechanisms, "delta": DELTA}
    return {**result, **said, "seconds": time.perf_counter() - started}


def _closed_form(recipe: ClosedFormRecipe, sigma: float, data: Dataset, source: NoiseSource, ledger: Ledger) -> float:
    side = math.isqrt(data.x_train.shape[1])
    model = recipe.method(side).fit(data.x_train, sigma, source, ledger)
    return float(0.5 * (model.reconstruct(data.x_test) - data.x_test).square().sum(dim=1).mean())


def _statistics(recipe: StatisticsRecipe, data: Dataset, source: NoiseSource, ledger: Ledger) -> float:
    pca = DPPCA(60, recipe.pca_noise, normalise=True).fit(data.x_train, source, ledger)
    feature_map, labels = pca.feature_map(length=1.0), torch.eye(10)[data.y_train]
    draw = source.spawn("statistics")
    weights = linear_classifier(
        data.x_train, labels, recipe.noise_multiplier, recipe.ridge, draw, ledger, feature_map=feature_map
    )
    outputs = feature_map(data.x_test).double() @ weights[:, :-1].transpose(0, 1) + weights[:, -1]
    return float((outputs.argmax(dim=1) == data.y_test).double().mean())
