"""How much of a real table private codes give back: DPMACPCA and DPMACAutoencoder beside PCA without privacy.

    python benchmarks/autoencoders.py [--tables adult wages] [--epsilons 0.5 2 8] [--code 4] [--fits 1]
                                      [--methods closed-form gradient] [--held-out]

Needs pandas and the tables (`DPMAC_DATA` or --data: a folder that holds tables/NAME.csv.gz and .schema.json). The
figure is the explained variance of test rows: 1 less the squared error over that of the best constant, on encoded
inputs. A fifth of the rows is the test; --held-out takes a fifth of the training rows instead, for choosing.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from dpmac import DPMACPCA, DPMACAutoencoder, PrivacyWarning, Schema

warnings.filterwarnings("ignore", category=PrivacyWarning)  # every fit is of the same rows, and of its own budget
Coder = DPMACPCA | DPMACAutoencoder


def split(folder: Path, name: str, held_out: bool) -> tuple[Schema, pd.DataFrame, pd.DataFrame]:
    """Training and test rows, the same as of benchmarks/tables.py."""
    table = pd.read_csv(folder / f"{name}.csv.gz")
    order = np.random.RandomState(0).permutation(len(table))
    rest, test = table.iloc[order[len(table) // 5 :]], table.iloc[order[: len(table) // 5]]
    if held_out:
        rest, test = rest.iloc[len(rest) // 5 :], rest.iloc[: len(rest) // 5]
    return Schema.load(folder / f"{name}.schema.json"), rest, test


def explained(model: Coder, rows: pd.DataFrame) -> float:
    """Of the variance of the encoded rows about their own mean."""
    assert model.feature_map_ is not None
    inputs = np.asarray(model.feature_map_.transform(rows))
    return 1.0 + model.score(rows) / float(np.square(inputs - inputs.mean(axis=0)).mean())


def line(name: str, make: Callable[[int], Coder], fits: int, train: pd.DataFrame, test: pd.DataFrame) -> None:
    start = time.perf_counter()
    found = [explained(make(seed).fit(train), test) for seed in range(fits)]
    seconds = (time.perf_counter() - start) / fits
    print(f"{name:42} {np.mean(found):.3f} ± {np.std(found):.3f}   {seconds:6.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=["adult", "wages"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 2.0, 8.0])
    parser.add_argument("--methods", nargs="*", default=["closed-form", "gradient"])
    parser.add_argument("--code", type=int, default=4)
    parser.add_argument("--fits", type=int, default=1)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DPMAC_DATA", "../shared/data")))
    args = parser.parse_args()
    for table in args.tables:
        schema, train, test = split(args.data / "tables", table, args.held_out)

        def pca(epsilon: float, schema: Schema = schema) -> Callable[[int], Coder]:
            return lambda seed: DPMACPCA(args.code, epsilon=epsilon, schema=schema, random_state=seed)

        def autoencoder(epsilon: float, method: str, schema: Schema = schema) -> Callable[[int], Coder]:
            options = {"method": method, "epsilon": epsilon, "schema": schema}
            return lambda seed: DPMACAutoencoder(args.code, random_state=seed, **options)

        line(f"{table}, PCA without privacy", pca(math.inf), 1, train, test)
        for epsilon in args.epsilons:
            line(f"{table}, epsilon {epsilon:g}, DPMACPCA", pca(epsilon), args.fits, train, test)
            for method in args.methods:
                name = f"{table}, epsilon {epsilon:g}, {method}"
                line(name, autoencoder(epsilon, method), args.fits, train, test)


if __name__ == "__main__":
    main()
