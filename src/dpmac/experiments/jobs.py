"""The runs behind the tables: what there is to run, and how one run is done."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer
from dpmac.data import Dataset, load
from dpmac.experiments.closed_form import ClosedForm, linear_classifier
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
from dpmac.features.pca import DPPCA, ReleasedPCA
from dpmac.nets.network import DenseNetwork
from dpmac.privacy.ledger import Ledger
from dpmac.privacy.noise import NoiseSource, SeededNoise
from dpmac.training.run import Run

__all__ = ["METRIC", "PUBLISHED", "Job", "jobs", "run_job"]

LINEAR = "linear (DP-PCA)"
WHOLE = "DP-MAC from DP-PCA"
STATISTICS = "linear (sufficient statistics)"
ONE_RELEASE = {"usps": (LINEAR, WHOLE), "mnist": (STATISTICS,)}


@dataclass(frozen=True)
class Job:
    """One run: a row of a table, at one stated epsilon, with one seed."""

    table: str
    row: str
    preset: str
    epsilon: float
    seed: int

    @property
    def key(self) -> str:
        """A name for its file: unique, and safe on any disk."""
        row = "".join(c if c.isalnum() else "-" for c in self.row.lower()).strip("-")
        return f"{self.table}_{self.preset}_{row}_eps{self.epsilon:g}_seed{self.seed}"


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


def run_job(job: Job, data_path: str | None, device: str = "cpu") -> dict[str, Any]:
    """Do one run and say what came of it, in plain values."""
    started = time.perf_counter()
    data = load(job.table, data_path)
    source = SeededNoise(job.seed, f"/{job.table}/{job.row}/{job.preset}/{job.epsilon:g}")
    ledger = Ledger()
    if job.row in (LINEAR, WHOLE):
        result = _closed_form(job, data, source, ledger)
    elif job.row == STATISTICS:
        result = _statistics(job, data, source, ledger)
    elif job.table == "mnist":
        result = _classifier(job, data, source, ledger, device)
    else:
        result = _autoencoder(job, data, source, ledger, device)
    mechanisms = [
        {"label": m.label, "noise_multiplier": m.noise_multiplier, "sample_rate": m.sample_rate, "count": m.count}
        for m in ledger.mechanisms()
    ]
    return {**result, "mechanisms": mechanisms, "delta": DELTA, "seconds": time.perf_counter() - started}


def _classifier(job: Job, data: Dataset, source: NoiseSource, ledger: Ledger, device: str) -> dict[str, Any]:
    """60 components of DP-PCA, then the network; inputs are scaled to one length, each example by itself."""
    recipe = PRESETS[job.preset][job.table, job.row, job.epsilon]
    assert recipe.pca_noise is not None
    pca = DPPCA(60, recipe.pca_noise, normalise=True).fit(data.x_train.to(device), source, ledger)
    x, x_test = (unit_codes(pca, rows.to(device)) * recipe.input_scale for rows in (data.x_train, data.x_test))
    labels = torch.eye(10)

    def accuracy(network: DenseNetwork, rows: Tensor, wanted: Tensor) -> float:
        with torch.no_grad():
            return float((network(rows.to(network.device)).argmax(dim=1).cpu() == wanted).double().mean())

    def evaluate(network: DenseNetwork) -> Mapping[str, float]:
        return {
            "train": 1 - accuracy(network, x[:10_000], data.y_train[:10_000]),
            "test": 1 - accuracy(network, x_test, data.y_test),
        }

    trainer = recipe.trainer(60, 10, len(x), DELTA, source, evaluate, device)
    run = trainer.fit(x, labels[data.y_train], ledger)
    result = {"metric": accuracy(run.model, x_test, data.y_test), "curve": curve(run), "recipe": recipe.to_dict()}
    if job.seed == 0:
        result |= {"first_layer": features(run.model, pca), "image_shape": list(data.shape)}
    return result


def _autoencoder(job: Job, data: Dataset, source: NoiseSource, ledger: Ledger, device: str) -> dict[str, Any]:
    recipe = PRESETS[job.preset][job.table, job.row, job.epsilon]
    x, x_test = ((rows - recipe.input_centre) * recipe.input_scale for rows in (data.x_train, data.x_test))

    def error(network: DenseNetwork, rows: Tensor) -> float:
        with torch.no_grad():
            rows = rows.to(network.device)
            return float(0.5 * ((network(rows) - rows) / recipe.input_scale).square().sum(dim=1).mean())

    def evaluate(network: DenseNetwork) -> Mapping[str, float]:
        return {"train": error(network, x), "test": error(network, x_test)}

    run = recipe.trainer(256, 256, len(x), DELTA, source, evaluate, device).fit(x, x, ledger)
    return {"metric": error(run.model, x_test), "curve": curve(run), "recipe": recipe.to_dict()}


def _closed_form(job: Job, data: Dataset, source: NoiseSource, ledger: Ledger) -> dict[str, Any]:
    choices = CLOSED_FORMS[job.epsilon]
    if job.row == LINEAR:  # plain DP-PCA: no public basis, nothing but the one release
        choices = ClosedForm(share=1.0, frequencies=256, centre=0.25 if job.epsilon <= 1 else 0.15)
    model = choices.fit(data.x_train, GAUSSIAN[job.epsilon], source, ledger)
    error = float(0.5 * (model.reconstruct(data.x_test) - data.x_test).square().sum(dim=1).mean())
    return {"metric": error, "curve": [], "recipe": vars(choices)}


def _statistics(job: Job, data: Dataset, source: NoiseSource, ledger: Ledger) -> dict[str, Any]:
    first, second = SUFFICIENT[job.epsilon]
    pca = DPPCA(60, first, normalise=True).fit(data.x_train, source, ledger)
    x, x_test = (unit_codes(pca, rows) for rows in (data.x_train, data.x_test))
    weights = linear_classifier(x, torch.eye(10)[data.y_train], second, 10.0, source.spawn("statistics"), ledger)
    winners = (x_test.double() @ weights[:, :-1].transpose(0, 1) + weights[:, -1]).argmax(dim=1)
    accuracy = float((winners == data.y_test).double().mean())
    return {"metric": accuracy, "curve": [], "recipe": {"pca_noise": first, "noise_multiplier": second, "ridge": 10.0}}


def unit_codes(pca: ReleasedPCA, rows: Tensor) -> Tensor:
    """The codes of ``rows``, each scaled to norm 1 by itself."""
    codes = pca.transform(rows).float()
    lengths: Tensor = torch.linalg.vector_norm(codes, dim=1, keepdim=True)
    return codes / lengths.clamp(min=1e-6)


def curve(run: Run) -> list[dict[str, float]]:
    """Train and test error over epochs. On private rows: for research, and outside the guarantee."""
    return [{"epoch": r.epoch, "train": r.metrics["train"], "test": r.metrics["test"]} for r in run.history]


def features(network: DenseNetwork, pca: ReleasedPCA, count: int = 5) -> list[list[float]]:
    """The first-layer units that weigh most for digits 0, 3, 5, 6, 8, as images."""
    first, last = (linear.weight.detach().cpu().double() for linear in (network.linears[0], network.linears[-1]))
    images = first @ pca.components.cpu()
    units = [int(last[digit].argmax()) for digit in (0, 3, 5, 6, 8)[:count]]
    return [[round(float(v), 5) for v in images[unit]] for unit in units]
