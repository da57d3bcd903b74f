"""The USPS autoencoder from a start that saw only drawn pen strokes: ``DPMACAutoencoder(20, start="strokes")``.

    python -m reproduction.strokes [--runs 10] [--workers 1] [--out runs/strokes]     # 15 minutes of one free core

The network is the paper's, 256-300-100-20-100-300-256. The start is trained on 195,312 drawn pictures, once a process;
then all layers are trained privately, all by the estimator's defaults. These were chosen on 1,000 held-out training
rows; test rows were looked at once, at the end. Runs are kept one by one, so that a run which was stopped goes on; the
table is printed, and written to ``reproduction/results/strokes.json`` with ``--write``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpmac import DPMACAutoencoder, Machine
from dpmac.data import load
from dpmac.nets import Dense, Network
from dpmac.nets.feature_maps import ToRange
from dpmac.priors import DrawnStart, PicturePrior, Pretraining
from dpmac.privacy import Ledger
from dpmac.randomness import SeededNoise
from reproduction.rows import table_rows
from reproduction.runner import Task, run_all
from reproduction.settings import AUTOENCODER, DELTA
from reproduction.slim import RESULTS, as_text, slim_results
from reproduction.store import Job, Store
from reproduction.tasks import one_thread

ROW = "DP-MAC from drawn strokes"
EPSILONS = (1.0, 2.0, 4.0, 8.0)
CODE, HIDDEN = AUTOENCODER[len(AUTOENCODER) // 2], AUTOENCODER[: len(AUTOENCODER) // 2]
TRAINING = Pretraining()  # how the start is trained: the estimator's default


def start() -> DrawnStart:
    """What ``start="strokes"`` means for pictures of 16 x 16 pixels from 0 to 1."""
    return DrawnStart(PicturePrior(16, 16, style="strokes", white=1.0), TRAINING)


def run_job(job: Job, data_path: str | None, device: str = "cpu") -> dict[str, Any]:
    """One run on one thread, in plain values."""
    data, ledger = load("usps", data_path), Ledger()
    model = DPMACAutoencoder(
        CODE,
        epsilon=job.epsilon,
        delta=DELTA,
        hidden_layer_sizes=HIDDEN,
        feature_range=(0.0, 1.0),
        start=start(),
        ledger=ledger,
        random_state=job.seed,
        machine=Machine(device=device, threads=1),
    )
    with one_thread():
        model.fit(data.x_train.numpy())
        rows = data.x_test.double().numpy()
        back = model.inverse_transform(model.transform(rows))
    mechanisms = [
        {"label": m.label, "noise_multiplier": m.noise_multiplier, "sample_rate": m.sample_rate, "count": m.count}
        for m in ledger.mechanisms()
    ]
    recipe = {"batch_size": model.plan_.batch_size, "steps": model.plan_.steps, "start": start().note(rows.shape[1])}
    error = float(0.5 * np.square(back - rows).sum(axis=1).mean())
    return {"metric": error, "curve": [], "recipe": recipe, "mechanisms": mechanisms, "delta": DELTA}


def start_alone() -> float:
    """The test error of the start, before any private row: epsilon 0."""
    rows, seen = load("usps").x_test, ToRange(0.0, 1.0)
    network = network_of(rows.shape[1])
    with one_thread(), torch.no_grad():
        start().load_into(network, seen)
        inputs = seen(rows).float()
        return float(0.5 * ((network(inputs) - inputs) / 2).square().sum(dim=1).mean())


def network_of(width: int) -> Network:
    """As the estimator makes it: ELU behind every layer but the code and the last."""
    sizes = [width, *HIDDEN, CODE, *reversed(HIDDEN), width]
    stack: list[Any] = []
    for before, after in pairwise(sizes):
        stack += [Dense(before, after), "elu"]
    linear = (2 * len(HIDDEN) + 1, len(stack) - 1)  # places of the activations behind the code and the end
    kept = [item for place, item in enumerate(stack) if place not in linear]
    return Network(kept, input_shape=(width,), source=SeededNoise(0))


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="seeds 0 to RUNS - 1 at every epsilon (10)")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time (1)")
    parser.add_argument("--out", type=Path, default=Path("runs/strokes"), help="where runs are kept (runs/strokes)")
    parser.add_argument("--write", action="store_true", help="write reproduction/results/strokes.json, too")
    args = parser.parse_args(given)
    jobs = [Job("usps", ROW, "tight", epsilon, seed) for seed in range(args.runs) for epsilon in EPSILONS]
    store = Store(args.out)
    report = run_all(jobs, Task(run_job, store, made_with={"torch": torch.__version__}), workers=args.workers)
    for failure in report.failures:
        print(f"{failure.job}: {failure.error}")
    finished = [run for job in jobs if (run := store.load(job)) is not None]
    rows = table_rows(finished)
    print(f"epsilon 0 (the start alone): {start_alone():.3f}")
    for row in rows:
        print(f"epsilon {row.epsilon:g}: {row.mean:.3f} +- {row.std or math.nan:.3f} ({len(row.runs)} runs)")
    if args.write:
        (RESULTS / "strokes.json").write_text(as_text(slim_results(rows, finished, {})), encoding="utf-8")


if __name__ == "__main__":
    main()
