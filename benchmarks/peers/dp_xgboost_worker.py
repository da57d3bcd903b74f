"""Runs in DP-XGBoost's own environment: `dp_xgboost_worker.py IN.npz OUT.npz`.

IN holds train, y, test, epsilon, seed, is_class, low, high; OUT gets predicted and seconds. Pure epsilon by the
authors' formula: trees * log(1 + sampling rate * (exp(epsilon of a tree) - 1)).

The noise of a tree is seeded with the clock in whole seconds. Trees of one second would have the same noise, which is
neither private nor accurate, so we wait for the next second before every tree; the wait is not counted. A seed that
can be guessed remains: the figures are of its accuracy, and say nothing of its guarantee.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np

TREES, RATE, DEPTH, LEARNING_RATE = 20, 1.0, 4, 0.3
LEAF = 0.1  # the least weight of a leaf, as a part of a tree's rows: the noise of a leaf falls with it


def next_second() -> float:
    """Waits; the seconds waited."""
    start = time.perf_counter()
    time.sleep(1.001 - time.time() % 1.0)
    return time.perf_counter() - start


def main(source: str, goal: str) -> None:
    import dp_xgboost

    given = np.load(source)
    is_class, start, waited = bool(given["is_class"]), time.perf_counter(), 0.0
    hessian = 0.25 if is_class else 1.0
    settings = {
        "objective": "binary:logistic" if is_class else "reg:squarederror",
        "tree_method": "approxDP",
        "dp_epsilon_per_tree": math.log1p(math.expm1(float(given["epsilon"]) / TREES) / RATE),
        "subsample": RATE,
        "max_depth": DEPTH,
        "min_child_weight": LEAF * RATE * hessian * len(given["y"]),
        "learning_rate": LEARNING_RATE,
        "reg_lambda": 0.0,
        "base_score": 0.5,
        "nthread": 1,
        "seed": int(given["seed"]),
        "verbosity": 0,
    }
    low, high = given["low"].tolist(), given["high"].tolist()
    rows = dp_xgboost.DMatrix(given["train"], label=given["y"], feature_min=low, feature_max=high)
    booster = dp_xgboost.Booster(settings, [rows])
    for tree in range(TREES):
        waited += next_second()
        booster.update(rows, tree)
    seconds = time.perf_counter() - start - waited
    predicted = booster.predict(dp_xgboost.DMatrix(given["test"]))
    np.savez(goal, predicted=np.asarray(predicted, np.float64), seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:3])
