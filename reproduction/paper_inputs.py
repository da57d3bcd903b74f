"""What the paper's unnoised statistics buy: its own settings, with public constants and with the data's mean and scale.

    python -m reproduction.paper_inputs [--seeds 3] [--workers 2] [--device cpu]

The paper centres and scales its inputs by statistics of the private rows, and no budget pays for them. Preset ``paper``
uses public constants in their place. The table shows DP-MAC at the paper's settings both ways, mean and standard
deviation over the seeds: MNIST test accuracy, with 60 components of DP-PCA scaled row by row to one length, or centred
by their mean and divided by their standard deviation over all rows and components; USPS test error without noise, with
pixels as they are, or with the mean image taken off. The right-hand column is no private figure.
"""

from __future__ import annotations

import argparse
import math
import statistics
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

from dpmac.data import load
from dpmac.methods import DPPCA
from dpmac.privacy import Ledger
from dpmac.randomness import SeededNoise
from reproduction.settings import DELTA, PRESETS, PUBLISHED
from reproduction.tasks import CLASSES, COMPONENTS

CASES = (("mnist", 0.5), ("mnist", 2.0), ("mnist", 8.0), ("usps", math.inf))


def score(table: str, epsilon: float, unnoised: bool, seed: int, device: str) -> float:
    torch.set_num_threads(1)
    data, recipe = load(table), PRESETS["paper"][table, "DP-MAC", epsilon]
    source, ledger = SeededNoise(seed, "/inputs"), Ledger()
    x, x_test, feature_map = data.x_train.to(device), data.x_test.to(device), None
    if table == "mnist":
        assert recipe.pca_noise is not None
        pca = DPPCA(COMPONENTS, recipe.pca_noise, normalise=True).fit(x, source, ledger)
        feature_map = pca.feature_map(length=None if unnoised else recipe.input_scale).to(device)
    if unnoised:  # what no feature map can do: it sees one row at a time, and these are statistics of all of them
        x, x_test = (rows if feature_map is None else feature_map(rows).float() for rows in (x, x_test))
        centre = x.mean(dim=0)
        scale = (x - centre).std() if table == "mnist" else 1.0
        x, x_test, feature_map = (x - centre) / scale, (x_test - centre) / scale, None
    y = torch.eye(CLASSES)[data.y_train] if table == "mnist" else None
    inputs, outputs = (COMPONENTS, CLASSES) if table == "mnist" else (x.shape[1], x.shape[1])
    trainer = recipe.trainer(inputs, outputs, len(x), DELTA, source, feature_map=feature_map, device=device)
    network = trainer.fit(x, y, ledger).model
    with torch.no_grad():
        x_test = x_test if feature_map is None else feature_map(x_test).float()
        given = network(x_test)
    if table == "mnist":
        return float((given.argmax(dim=1).cpu() == data.y_test).double().mean())
    return float(0.5 * (given - x_test).square().sum(dim=1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reproduction.paper_inputs", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    with ProcessPoolExecutor(chosen.workers, mp_context=get_context("spawn")) as pool:
        scores = {
            (*case, unnoised): [pool.submit(score, *case, unnoised, s, chosen.device) for s in range(chosen.seeds)]
            for case in CASES
            for unnoised in (False, True)
        }
        print("table  epsilon  paper  public constants    unnoised statistics")
        for case in CASES:
            shown = []
            for unnoised in (False, True):
                values = [future.result() for future in scores[(*case, unnoised)]]
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                shown.append(f"{statistics.mean(values):.3f} +- {spread:.3f}")
            table, epsilon = case
            print(
                f"{table:5}  {epsilon:7g}  {PUBLISHED[table, 'DP-MAC', epsilon]:5g}  {shown[0]:>16}  {shown[1]:>20}",
                flush=True,
            )


if __name__ == "__main__":
    main()
