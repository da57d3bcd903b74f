"""DP-CDBN on MNIST, which the paper's table quotes: our runs beside its figures.

    python -m reproduction.cdbn_table [--runs 3] [--out runs/cdbn]       # some 40 minutes of one free core

Runs are kept one by one, so that a batch that was stopped goes on; the table is printed, and kept in
``reproduction/results/cdbn.json`` with ``--write``. What is run and why it is private, and why the published program is
not, is in ``reproduction/results/cdbn.md``.

This is a baseline for comparison, outside the package's guarantee: its Laplace releases are in no ledger. Runs are
seeded, and recipes were chosen on held-out training rows, in no epsilon: research, not releases.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpmac.data import Dataset, load
from dpmac.privacy.statement import round_up
from dpmac.randomness import NoiseSource, SeededNoise
from reproduction.cdbn import (
    FINE,
    LEVELS,
    LayerRecipe,
    NetworkRecipe,
    release_correlations,
    train_layer,
    untrained_layer,
)
from reproduction.cdbn_output import fit_output
from reproduction.cdbn_published import published_output
from reproduction.display import Display
from reproduction.runner import Task, run_all
from reproduction.settings import PUBLISHED
from reproduction.slim import RESULTS
from reproduction.store import Finished, Job, Store, provenance, spelled
from reproduction.tasks import held_out, one_thread

PRESET = "laplace"
ONE, TWO, UNTRAINED = "DP-CDBN, one layer", "DP-CDBN, two layers", "untrained filters, one layer"
UNPROVED = "its output layer as published (not private)"
EPSILONS = (0.5, 2.0, 8.0, math.inf)
HELD_OUT = 10_000  # training rows that recipes were chosen on
_FIRST = LayerRecipe(filters=16, bound=150.0, share=0.05)
_RIDGE = {ONE: {0.5: 0.03, 2.0: 0.1, 8.0: 0.2}, TWO: {0.5: 0.2, 2.0: 0.2, 8.0: 0.2}}


def recipe_of(row: str, epsilon: float) -> NetworkRecipe:
    """Every public choice of a run."""
    ridge = _RIDGE[TWO if row == TWO else ONE].get(epsilon, 0.0)
    if row == TWO:
        layers = (replace(_FIRST, filters=8), LayerRecipe(filters=16, bound=60.0, share=0.15))
        return NetworkRecipe(layers, pool=4, length=55.0, ridge=ridge)
    return NetworkRecipe((_FIRST,), pool=7, length=220.0, ridge=ridge, trained=row != UNTRAINED)


def run_job(job: Job, data_path: str | None, device: str = "cpu") -> dict[str, Any]:
    """Do one run, on one thread. A path that ends in ``?`` holds out training rows in the place of the test rows."""
    del device  # always the CPU
    started = time.perf_counter()
    held = data_path is not None and data_path.endswith("?")
    data = load(job.table, (data_path or "").removesuffix("?") or None)
    source = SeededNoise(job.seed, f"/{job.table}/{job.row}/{job.epsilon:g}")
    recipe = recipe_of(job.row, job.epsilon)
    with one_thread():
        accuracy, cost = score(recipe, job.row, job.epsilon, held_out(data, HELD_OUT) if held else data, source)
    result = {"metric": accuracy, "recipe": asdict(recipe), "true_epsilon": cost}
    return {**result, "seconds": time.perf_counter() - started}


def score(
    recipe: NetworkRecipe, row: str, epsilon: float, data: Dataset, source: NoiseSource
) -> tuple[float, float | str]:
    """Train layer by layer, then the output layer; gives the accuracy on the test rows, and what was spent."""
    inputs, test, cost = features_of(recipe, epsilon, data, source)
    if row == UNPROVED:
        return published_output(inputs, data.y_train, test, data.y_test, epsilon, source.spawn("output")), "none"
    spent = sum(layer.share for layer in recipe.layers) if recipe.trained else 0.0
    rest = epsilon * (1.0 - spent)
    bound = round(recipe.length * 1000)
    output = fit_output(inputs, data.y_train, bound, recipe.ridge, recipe.quadratic, rest, source.spawn("output"))
    total = math.inf if math.isinf(epsilon) else float(cost + output.epsilon)
    return output.accuracy(test, data.y_test), spelled(total)


def features_of(
    recipe: NetworkRecipe, epsilon: float, data: Dataset, source: NoiseSource
) -> tuple[Tensor, Tensor, Fraction]:
    """Features of the training rows and of the test rows, as whole numbers, and what their layers cost."""
    rows, test = (_levels(x, data.shape) for x in (data.x_train, data.x_test))
    cost = Fraction(0)
    for place, layer_recipe in enumerate(recipe.layers):
        channels, draw = rows.shape[1], source.spawn(f"layer {place}")
        if recipe.trained:
            answer = release_correlations(rows, layer_recipe, layer_recipe.share * epsilon, draw.spawn("noise"))
            layer = train_layer(answer, len(rows), channels, rows.shape[-1], layer_recipe, draw.spawn("training"))
            cost += answer.epsilon
        else:
            layer = untrained_layer(channels, layer_recipe, draw)
        last = place == len(recipe.layers) - 1
        pool, fine = (recipe.pool, FINE) if last else (2, LEVELS)
        rows, test = layer.pooled(rows, pool, fine), layer.pooled(test, pool, fine)
    return rows, test, cost


def _levels(pixels: Tensor, shape: tuple[int, ...]) -> Tensor:
    return (pixels * LEVELS).round().to(torch.uint8).view(-1, 1, *shape)


def jobs_of(runs: int) -> list[Job]:
    """Those of the paper's epsilons first; the published output layer at the two that the paper has."""
    proved = (ONE, TWO, UNTRAINED)
    rows = {e: (*proved, UNPROVED) if e in EPSILONS[:2] else proved for e in EPSILONS}
    return [Job("mnist", row, PRESET, e, seed) for e in EPSILONS for seed in range(runs) for row in rows[e]]


def published(row: str, epsilon: float) -> float | None:
    """What the paper quotes for this system."""
    return None if row == UNTRAINED else PUBLISHED.get(("mnist", "DP-CDBN (quoted)", epsilon))


def slim(finished: Sequence[Finished]) -> dict[str, Any]:
    """The content of ``cdbn.json``: scores, recipe and cost of each row, in the order of the table."""
    groups: dict[tuple[float, str], list[Finished]] = {}
    for run in finished:
        groups.setdefault((run.epsilon, run.row), []).append(run)
    order = (ONE, TWO, UNTRAINED, UNPROVED)
    rows = []
    for (epsilon, row), runs in sorted(groups.items(), key=lambda item: (item[0][0], order.index(item[0][1]))):
        scores = [run.result["metric"] for run in sorted(runs, key=lambda run: run.seed)]
        rows.append(
            {
                "row": row,
                "epsilon": spelled(epsilon),
                "true_epsilon": runs[0].result["true_epsilon"],
                "paper": published(row, epsilon),
                "scores": scores,
                "seconds": [round(run.result["seconds"]) for run in sorted(runs, key=lambda run: run.seed)],
                "recipe": runs[0].result["recipe"],
            }
        )
    made = [dict(m) for m in {tuple(sorted(run.made_with.items())) for run in finished}]
    return {"made_with": made, "rows": rows}


def markdown(content: dict[str, Any]) -> str:
    """The table of the page."""
    lines = [
        "| system | stated epsilon | true epsilon (delta 0) | accuracy: mean ± std (runs) | published |",
        "|---|--:|--:|--:|--:|",
    ]
    for row in content["rows"]:
        scores, cost = row["scores"], row["true_epsilon"]
        spread = statistics.stdev(scores) if len(scores) > 1 else math.nan
        spent = round_up(cost, 2) if isinstance(cost, float) else cost
        paper = "" if row["paper"] is None else f"{row['paper']:.2f}"
        shown = f"{statistics.fmean(scores):.3f} ± {spread:.3f} ({len(scores)})"
        lines.append(f"| {row['row']} | {float(row['epsilon']):g} | {spent} | {shown} | {paper} |")
    return "\n".join(lines) + "\n"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m reproduction.cdbn_table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=3, help="seeds 0 to RUNS - 1 of every row (3)")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time (1)")
    parser.add_argument("--out", type=Path, default=Path("runs/cdbn"), help="where runs are kept (runs/cdbn)")
    parser.add_argument("--data", help="folder with MNIST, instead of where dpmac data finds it")
    parser.add_argument("--write", action="store_true", help="write reproduction/results/cdbn.json, too")
    args = parser.parse_args(given)
    jobs, store = jobs_of(args.runs), Store(args.out)
    made_with = provenance(f"python -m reproduction.cdbn_table --runs {args.runs}", "cpu")
    with Display(store) as display:
        task = Task(run_job, store, args.data, made_with=made_with)
        report = run_all(jobs, task, workers=args.workers, watcher=display)
    for failure in report.failures:
        print(f"{failure.job}: {failure.error}")
    content = slim([run for job in jobs if (run := store.load(job)) is not None])
    print(markdown(content), end="")
    print("A baseline outside the package's guarantee: Laplace noise, in no ledger; seeded runs, not releases.")
    if args.write:
        (RESULTS / "cdbn.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
