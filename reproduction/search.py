"""How recipes are found: random search, scored on rows held out of the training set.

    python -m reproduction.search usps --trials 24 --out runs/search

This found the USPS recipes of preset ``tight``. (MNIST's come from an older search, of a space like the one here: see
results/README.md.) Trial k of a table and an epsilon is one random recipe, its noise calibrated to that epsilon,
trained once by DP-MAC and once by DP-SGD, both with the same noise: both methods get the same space and the same number
of trials. With one bound over all layers and the fixed-prediction Z-step the two are the same training up to rounding:
DP-MAC is DP-SGD there, and the two scores say so.

No trial sees the test rows. What the search itself gives away about the held-out rows is in no epsilon, as in the
paper: with private data, search on public data instead.

Every trial is one file, never done twice; at the end the picks of all trials that are in the folder are printed, and
``search.json`` there holds all of them.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError, integer
from dpmac.data import DataError, load
from dpmac.privacy import Ledger, Mechanism, Plan
from dpmac.randomness import SeededNoise
from reproduction.recipe import Recipe
from reproduction.runner import Task, run_all
from reproduction.settings import AUTOENCODER, CLASSIFIER, DELTA, ROWS
from reproduction.slim import as_text, slim_trials
from reproduction.store import Finished, Job, Store, provenance, write_atomically
from reproduction.tasks import held_out, one_thread, train

PROGRAM = "python -m reproduction.search"
METHODS = {"DP-MAC": "dp-mac", "DP-SGD": "dp-sgd"}
HELD_OUT = {"mnist": 6_000, "usps": 500}

# What an epoch costs grows with epsilon: more of them are worth their noise when there is less of it.
LENGTHS: dict[str, dict[float, Sequence[tuple[int, int]]]] = {
    "usps": {
        1.0: ((1000, 60), (2000, 100), (2500, 120)),
        2.0: ((1000, 80), (2000, 150), (2500, 200)),
        4.0: ((1000, 100), (2000, 200), (2500, 250)),
        8.0: ((1000, 150), (2000, 300), (2500, 350)),
    },
    "mnist": {
        0.5: ((2000, 10), (4000, 20), (8000, 40)),
        2.0: ((4000, 30), (8000, 60)),
        8.0: ((4000, 60), (8000, 100)),
    },
}
THRESHOLDS = {"usps": (0.3, 1.0, 3.0), "mnist": (0.3, 1.0, 3.0, 10.0)}
AVERAGES = {"usps": (0.97, 0.99, 0.995), "mnist": (0.9, 0.97, 0.99)}
PCA_NOISE = {0.5: 16.0, 2.0: 6.0, 8.0: 3.0}


@dataclass(frozen=True)
class Trial(Job):
    """One recipe on the training rows that are not held out. ``seed`` is its number, and seeds its noise."""

    recipe: Recipe

    @property
    def key(self) -> str:
        return f"{self.table}_search_{self.row.lower()}_eps{self.epsilon:g}_trial{self.seed}"


def random_recipe(table: str, epsilon: float, number: int) -> Recipe:
    """Recipe ``number`` of the space, for DP-MAC, without noise yet. The same on every machine."""
    pick = random.Random(f"{table}/{epsilon:g}/{number}")
    batch, epochs = pick.choice(LENGTHS[table][epsilon])
    shared: dict[str, Any] = {
        "method": "dp-mac",
        "batch_size": batch,
        "epochs": epochs,
        "noise_multiplier": 0.0,
        "bound": pick.choice(("joint", "joint", "normalise")),
        "threshold": pick.choice(THRESHOLDS[table]),
        "average": pick.choice(AVERAGES[table]),
    }
    if table == "usps":
        return Recipe(
            **shared,
            hidden=AUTOENCODER,
            loss="squared",
            activation=pick.choice(("tanh", "tanh", "elu")),
            lr=pick.choice((0.002, 0.003, 0.004, 0.005)),
            input_centre=pick.choice((0.15, 0.2, 0.25)),
        )
    return Recipe(
        **shared,
        hidden=CLASSIFIER,
        loss="sigmoid",
        activation="relu",
        lr=pick.choice((0.02, 0.03, 0.04, 0.06)),
        input_scale=pick.choice((5.0, 8.0, 12.0)),
        pca_noise=PCA_NOISE[epsilon],
    )


def trials(table: str, count: int, epsilons: Sequence[float] | None = None) -> list[Trial]:
    """``count`` recipes for each epsilon, each for both methods; the noise is calibrated to the rows of the search."""
    if table not in LENGTHS:
        raise ArgumentError("table", table, f"choose one of {', '.join(LENGTHS)}")
    integer("trials", count, "give a number of trials, at least 1")
    unknown = [e for e in epsilons or () if e not in LENGTHS[table]]
    if unknown:
        raise ArgumentError("epsilon", unknown[0], f"choose from {', '.join(f'{e:g}' for e in LENGTHS[table])}")
    found = []
    for epsilon in epsilons or LENGTHS[table]:
        for number in range(count):
            recipe = calibrated(random_recipe(table, epsilon, number), epsilon, ROWS[table] - HELD_OUT[table])
            found += [
                Trial(table, row, "search", epsilon, number, replace(recipe, method=method))
                for row, method in METHODS.items()
            ]
    return found


def calibrated(recipe: Recipe, epsilon: float, rows: int) -> Recipe:
    """``recipe`` with the least noise that keeps ``epsilon`` on that many rows, rounded up."""
    sigma = _noise(recipe.batch_size, recipe.epochs, recipe.before(), epsilon, rows)
    return replace(recipe, noise_multiplier=sigma)


@cache
def _noise(batch: float, epochs: int, before: tuple[Mechanism, ...], epsilon: float, rows: int) -> float:
    plan = Plan.for_budget(epsilon=epsilon, delta=DELTA, n=rows, batch_size=batch, epochs=epochs, before=before)
    return round(plan.noise_multiplier + 0.5e-4, 4)


def run_trial(trial: Trial, data_path: str | None, device: str = "cpu") -> dict[str, Any]:
    """Train and score one trial, on one thread; the test rows are dropped before anything looks at them."""
    data = held_out(load(trial.table, data_path), HELD_OUT[trial.table])
    ledger = Ledger()
    with one_thread():
        result = train(trial.recipe, data, SeededNoise(trial.seed, "/search"), ledger, device)
    return {"metric": result["metric"], "recipe": trial.recipe.to_dict(), "releases": len(ledger)}


def picks(finished: Sequence[Finished]) -> dict[tuple[str, str, float], tuple[Finished, int]]:
    """For every table, method and epsilon: its best trial, and how many there were."""
    found: dict[tuple[str, str, float], tuple[Finished, int]] = {}
    for trial in finished:
        key = trial.table, trial.row, trial.epsilon
        best, count = found.get(key, (trial, 0))
        sign = 1 if trial.table == "usps" else -1  # an error, or an accuracy
        better = sign * trial.result["metric"] < sign * best.result["metric"]
        found[key] = (trial if better else best, count + 1)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__.split("\n")[0])
    parser.add_argument("table", choices=list(LENGTHS))
    parser.add_argument("--trials", type=int, default=24, help="recipes for each epsilon, each for both methods")
    parser.add_argument("--epsilon", type=float, action="append", help="only this epsilon; repeatable")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/search"), help="folder of the trials; finished ones stay"
    )
    parser.add_argument("--workers", type=int, default=1, help="trials at a time, one core each")
    parser.add_argument("--data", help="folder with the datasets")
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args(arguments)
    try:
        integer("--workers", chosen.workers, "give a whole number, at least 1")
        wanted = trials(chosen.table, chosen.trials, chosen.epsilon)
        load(chosen.table, chosen.data)
    except (ArgumentError, DataError) as error:
        parser.error(str(error))
    store = Store(chosen.out)
    command = " ".join([PROGRAM, *(sys.argv[1:] if arguments is None else arguments)])
    task = Task(run_trial, store, chosen.data, chosen.device, provenance(command, chosen.device))
    report = run_all(wanted, task, workers=chosen.workers)
    for failure in report.failures:
        print(f"failed: {failure.job.key}: {failure.error}", file=sys.stderr)
    finished, damaged = store.all()
    for damage in damaged:
        print(f"left out, damaged: {damage}", file=sys.stderr)
    write_atomically(store.folder / "search.json", as_text(slim_trials(finished)))
    for (table, row, epsilon), (best, count) in sorted(picks(finished).items()):
        print(f"{table} {row} eps {epsilon:g}: {best.result['metric']:.4f}, best of {count}: {best.result['recipe']}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
