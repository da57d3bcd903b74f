"""Without privacy: the penalty on the squared weights, chosen on held-out *training* rows, beside the private model.

    python benchmarks/search/penalty.py [--tables adult ...] [--rows 1000 4000 12000] [--seeds 2] [--data FOLDER]
        [--collection FOLDER] [--out runs/penalty.jsonl]

So many training rows of every table are fitted as the estimators fit them (:mod:`dpmac.training.defaults`): at epsilon
8, and at epsilon infinity with the penalties PENALTIES / rows (:class:`dpmac.mac.OptimizerStep`). Up to 8,000 other
training rows judge the models: by AUROC and log-loss (without privacy as it comes), or R^2 and the squared error. Every
training is one line of OUT, and a second start skips what is there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from simulation import Settings, Shape, judged, outputs, train
from torch.nn import functional as F

from dpmac.training.defaults import defaults_for, schedule_for
from search import plan_of
from tables import COLLECTION, Table, table

PENALTIES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
HELD = 8_000
Cell = tuple[str, int, float, float, int]  # table, rows, epsilon, penalty times rows, seed


def judged_without(of: Table, n: int, epsilon: float, seed: int, device: str) -> Iterable[tuple[float, float, float]]:
    """The penalty times rows, the score and the loss, of all that are tried side by side; privately only without."""
    order = torch.randperm(len(of.y), generator=torch.Generator().manual_seed(1000 + seed))
    fit, held = order[:n], order[n : n + HELD]
    cut = schedule_for(n)
    plan = plan_of(n, of.classes, epsilon, cut.batch_size, cut.steps)
    usual = defaults_for(plan, regression=not of.classes)
    tried = (0.0,) if plan.noise_multiplier else PENALTIES
    one = torch.ones(len(tried), device=device)
    settings = Settings(
        *(one * usual.learning_rate, one * usual.threshold, one * plan.noise_multiplier),
        *(torch.ones(len(tried), of.x.shape[1], device=device), one, usual.average),
        penalty=torch.tensor(tried, device=device) / n,
    )
    shape = Shape(usual.hidden, usual.activation, plan.sample_rate, plan.steps)
    models = train(of.x[fit].to(device), of.y[fit].to(device), of.classes, shape, settings, seed)
    x, y = of.x[held].to(device), of.y[held].to(device)
    scores, losses = judged(models, x, y, of.classes)
    if of.classes:
        margin = outputs(models, x)
        wanted = y.double().expand_as(margin)
        losses = F.binary_cross_entropy_with_logits(margin, wanted, reduction="none").mean(1)
    return zip(tried, scores.tolist(), losses.tolist(), strict=True)


def read(path: Path) -> dict[Cell, tuple[float, float]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows: list[list[Any]] = [json.loads(line) for line in lines]
    return {(*row[:2], float(row[2]), row[3], row[4]): (row[5], row[6]) for row in rows}  # type: ignore[misc]


def line_of(found: dict[Cell, tuple[float, float]], name: str, n: int, seeds: Sequence[int]) -> str:
    def mean(epsilon: float, penalty: float) -> str:
        scores, losses = zip(*(found[name, n, epsilon, penalty, seed] for seed in seeds), strict=True)
        return f"{statistics.mean(scores):8.4f} {statistics.mean(losses):.4f}"

    return f"{name:10} {n:6}" + mean(8.0, 0.0) + "".join(mean(math.inf, penalty) for penalty in PENALTIES)


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("DPMAC_DATA"))
    parser.add_argument("--collection", type=Path)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--rows", nargs="+", type=int, default=[1000, 4000, 12_000])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("runs/penalty.jsonl"))
    options = parser.parse_args(given)
    data = None if options.data is None else Path(options.data)
    if options.tables is None:
        there = sorted((data / "tables").glob("*.schema.json")) if data else []
        options.tables = [path.name.removesuffix(".schema.json") for path in there]
        options.tables += COLLECTION if options.collection else ()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    found, seeds = read(options.out), range(options.seeds)
    print(f"{'table':10} {'rows':>6}{'epsilon 8':>15}" + "".join(f"{f'{p:g} / rows':>15}" for p in PENALTIES))
    for name in options.tables:
        of = table(name, data, options.collection)
        for n in options.rows:
            if n > 0.75 * len(of.y):
                continue
            for epsilon in (8.0, math.inf):
                for seed in seeds:
                    if (name, n, epsilon, 0.0, seed) in found:
                        continue
                    for penalty, score, loss in judged_without(of, n, epsilon, seed, options.device):
                        found[name, n, epsilon, penalty, seed] = (score, loss)
                        with options.out.open("a", encoding="utf-8") as file:
                            row = [name, n, str(epsilon), penalty, seed, round(score, 6), round(loss, 6)]
                            file.write(json.dumps(row) + "\n")
            print(line_of(found, name, n, seeds), flush=True)


if __name__ == "__main__":
    main()
