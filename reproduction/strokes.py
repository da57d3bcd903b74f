"""The paper's USPS autoencoder from a start that saw only drawn pen strokes (``DPMACAutoencoder(start="strokes")``).

    python -m reproduction.strokes [--runs 10] [--workers 1] [--out runs/strokes]       # half an hour on 2 cores

The start is trained on 195,312 drawn pictures once a process (two minutes of one core); then all layers are trained
privately, with DP-MAC's fixed predictions. Settings were chosen on 1,000 held-out training rows (seed 0); test rows
were looked at once, at the end. Runs are kept one by one, so that a run which was stopped goes on; the table is printed
and written to ``reproduction/results/strokes.json`` with ``--write``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from dpmac.data import load
from dpmac.nets import DenseNetwork
from dpmac.nets.feature_maps import Affine, FeatureMap
from dpmac.priors import DrawnStart, PicturePrior, Pretraining
from dpmac.privacy import Ledger
from dpmac.randomness import NoiseSource, SeededNoise
from reproduction.recipe import Recipe
from reproduction.rows import table_rows
from reproduction.runner import Task, run_all
from reproduction.settings import AUTOENCODER, DELTA
from reproduction.slim import RESULTS, as_text, slim_results
from reproduction.store import Job, Store
from reproduction.tasks import one_thread, train

ROW = "DP-MAC from drawn strokes"
CENTRE = 0.25  # taken off every pixel
EPSILONS = (1.0, 2.0, 4.0, 8.0)
BATCH, EPOCHS = 2000, 100
NOISE = {1.0: 23.6685, 2.0: 12.6887, 4.0: 6.9238, 8.0: 3.8925}  # calibrated; a test holds them to their budgets
RATES = {1.0: 3e-4, 2.0: 3e-4, 4.0: 4e-4, 8.0: 6e-4}


@dataclass(frozen=True)
class StartedRecipe(Recipe):
    """A recipe whose network begins from weights that gave back drawn strokes for ``start_steps`` steps."""

    start_steps: int = 25_000
    start_rows: int = 200_000

    def network(
        self, inputs: int, outputs: int, source: NoiseSource, feature_map: FeatureMap | None, device: str
    ) -> DenseNetwork:
        made = super().network(inputs, outputs, source, feature_map, device)
        side = math.isqrt(inputs)
        prior = PicturePrior(side, side, style="strokes", white=1.0)
        DrawnStart(prior, Pretraining(rows=self.start_rows, steps=self.start_steps)).load_into(made, feature_map)
        return made


def recipe_for(epsilon: float) -> StartedRecipe:
    """The settings at a stated epsilon."""
    return StartedRecipe(
        "dp-mac", AUTOENCODER, "elu", "squared", BATCH, EPOCHS, NOISE[epsilon], "joint", 1.0,
        lr=RATES[epsilon], average=0.99, input_centre=CENTRE,
    )  # fmt: skip


def run_job(job: Job, data_path: str | None, device: str = "cpu") -> dict[str, Any]:
    """One run on one thread, in plain values."""
    data, recipe, ledger = load("usps", data_path), recipe_for(job.epsilon), Ledger()
    source = SeededNoise(job.seed, f"/usps/{job.row}/{job.epsilon:g}")
    with one_thread():
        result = train(recipe, data, source, ledger, device)
    mechanisms = [
        {"label": m.label, "noise_multiplier": m.noise_multiplier, "sample_rate": m.sample_rate, "count": m.count}
        for m in ledger.mechanisms()
    ]
    return {**result, "recipe": asdict(recipe), "mechanisms": mechanisms, "delta": DELTA}


def start_alone(recipe: StartedRecipe) -> float:
    """The test error of a recipe's start, before any private row: epsilon 0."""
    data, shown = load("usps"), Affine(CENTRE, 1.0)
    width = data.x_test.shape[1]
    with one_thread(), torch.no_grad():
        network = recipe.network(width, width, SeededNoise(0), shown, "cpu")
        rows = shown(data.x_test).float()
        return float(0.5 * (network(rows) - rows).square().sum(dim=1).mean())


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="seeds 0 to RUNS - 1 at every epsilon (10)")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time (1)")
    parser.add_argument("--out", type=Path, default=Path("runs/strokes"), help="where runs are kept (runs/strokes)")
    parser.add_argument("--write", action="store_true", help="write reproduction/results/strokes.json, too")
    args = parser.parse_args(given)
    jobs = [Job("usps", ROW, "tight", epsilon, seed) for epsilon in EPSILONS for seed in range(args.runs)]
    store = Store(args.out)
    report = run_all(jobs, Task(run_job, store, made_with={"torch": torch.__version__}), workers=args.workers)
    for failure in report.failures:
        print(f"{failure.job}: {failure.error}")
    finished = [run for job in jobs if (run := store.load(job)) is not None]
    rows = table_rows(finished)
    print(f"epsilon 0 (the start alone): {start_alone(recipe_for(EPSILONS[0])):.3f}")
    for row in rows:
        print(f"epsilon {row.epsilon:g}: {row.mean:.3f} +- {row.std or math.nan:.3f} ({len(row.runs)} runs)")
    if args.write:
        (RESULTS / "strokes.json").write_text(as_text(slim_results(rows, finished, {})), encoding="utf-8")


if __name__ == "__main__":
    main()
