"""The runs behind the tables: what there is to run, and how one run is done."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from dpmac.checks import ArgumentError, integer
from dpmac.data import Dataset, load
from dpmac.experiments.closed_form import ClosedForm, Statistics, linear_classifier
from dpmac.experiments.recipe import Recipe
from dpmac.experiments.settings import (
    CLOSED_FORMS,
    DELTA,
    EPSILONS,
    GAUSSIAN,
    METRIC,
    PRESETS,
    PUBLISHED,
    SUFFICIENT,
)
from dpmac.experiments.store import Job
from dpmac.experiments.tasks import train, unit_codes
from dpmac.features.pca import DPPCA
from dpmac.privacy.ledger import Ledger
from dpmac.privacy.noise import NoiseSource, SeededNoise

__all__ = ["METRIC", "PUBLISHED", "Job", "jobs", "recipe_of", "run_job"]

LINEAR = "linear (DP-PCA)"
WHOLE = "DP-MAC from DP-PCA"
STATISTICS = "linear (sufficient statistics)"
PICTURE = ("first_layer", "digits", "image_shape")
ONE_RELEASE = {"usps": (LINEAR, WHOLE), "mnist": (STATISTICS,)}


def jobs(table: str, preset: str, runs: int, epsilons: Sequence[float] | None = None) -> list[Job]:
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


def recipe_of(job: Job) -> Recipe | ClosedForm | Statistics:
    """Every public choice of a run."""
    if job.row == STATISTICS:
        return SUFFICIENT[job.epsilon]
    if job.row == WHOLE:
        return CLOSED_FORMS[job.epsilon]
    if job.row == LINEAR:  # plain DP-PCA: no public basis, nothing but the one release
        return ClosedForm(share=1.0, frequencies=256, centre=0.25 if job.epsilon <= 1 else 0.15)
    return PRESETS[job.preset][job.table, job.row, job.epsilon]


def run_job(job: Job, data_path: str | None, device: str = "cpu") -> dict[str, Any]:
    """Do one run and say what came of it, in plain values."""
    started = time.perf_counter()
    data, recipe, ledger = load(job.table, data_path), recipe_of(job), Ledger()
    source = SeededNoise(job.seed, f"/{job.table}/{job.row}/{job.preset}/{job.epsilon:g}")
    if isinstance(recipe, Recipe):
        result = train(recipe, data, source, ledger, device)
        if job.seed:  # one picture of the features is enough
            result = {name: value for name, value in result.items() if name not in PICTURE}
    elif isinstance(recipe, ClosedForm):
        result = {"metric": _closed_form(recipe, GAUSSIAN[job.epsilon], data, source, ledger), "curve": []}
    else:
        result = {"metric": _statistics(recipe, data, source, ledger), "curve": []}
    mechanisms = [
        {"label": m.label, "noise_multiplier": m.noise_multiplier, "sample_rate": m.sample_rate, "count": m.count}
        for m in ledger.mechanisms()
    ]
    said = {"recipe": asdict(recipe), "mechanisms": mechanisms, "delta": DELTA}
    return {**result, **said, "seconds": time.perf_counter() - started}


def _closed_form(recipe: ClosedForm, sigma: float, data: Dataset, source: NoiseSource, ledger: Ledger) -> float:
    model = recipe.fit(data.x_train, sigma, source, ledger)
    return float(0.5 * (model.reconstruct(data.x_test) - data.x_test).square().sum(dim=1).mean())


def _statistics(recipe: Statistics, data: Dataset, source: NoiseSource, ledger: Ledger) -> float:
    pca = DPPCA(60, recipe.pca_noise, normalise=True).fit(data.x_train, source, ledger)
    x, x_test = (unit_codes(pca, rows) for rows in (data.x_train, data.x_test))
    labels = torch.eye(10)[data.y_train]
    draw = source.spawn("statistics")
    weights = linear_classifier(x, labels, recipe.noise_multiplier, recipe.ridge, draw, ledger)
    winners = (x_test.double() @ weights[:, :-1].transpose(0, 1) + weights[:, -1]).argmax(dim=1)
    return float((winners == data.y_test).double().mean())
