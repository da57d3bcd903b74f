"""What the paper's unnoised statistics buy: its own settings, with public constants and with the data's mean and scale.

    python benchmarks/paper_inputs.py [--seeds 3] [--workers 2] [--device cpu]

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
from dpmac.experiments.settings import DELTA, PRESETS, PUBLISHED
from dpmac.experiments.tasks import unit_codes
from dpmac.features.pca import DPPCA
from dpmac.privacy import Ledger, SeededNoise

CASES = (("mnist", 0.5), ("mnist", 2.0), ("mnist", 8.0), ("usps", math.inf))


def score(table: str, epsilon: float, unnoised: bool, seed: int, device: str) -> float:
    torch.set_num_threads(1)
    data, recipe = load(table), PRESETS["paper"][table, "DP-MAC", epsilon]
    source, ledger = SeededNoise(seed, "/inputs"), Ledger()
    x, x_test = data.x_train, data.x_test
    if table == "mnist":
        assert recipe.pca_noise is not None
        pca = DPPCA(60, recipe.pca_noise, normalise=True).fit(x, source, ledger)
        codes = pca.transform if unnoised else lambda rows: unit_codes(pca, rows) * recipe.input_scale
        x, x_test = codes(x).float(), codes(x_test).float()
    if unnoised:
        centre = x.mean(dim=0)
        scale = (x - centre).std() if table == "mnist" else 1.0
        x, x_test = (x - centre) / scale, (x_test - centre) / scale
    y = torch.eye(10)[data.y_train] if table == "mnist" else x
    run = recipe.trainer(x.shape[1], y.shape[1], len(x), DELTA, source, None, device).fit(x.to(device), y, ledger)
    with torch.no_grad():
        outputs = run.model(x_test.to(device)).cpu()
    if table == "mnist":
        return float((outputs.argmax(dim=1) == data.y_test).double().mean())
    return float(0.5 * (outputs - x_test).square().sum(dim=1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
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
