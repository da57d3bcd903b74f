"""How much of "DP-MAC from DP-PCA" is the public low-frequency basis, and how much the solved output layer?

    python -m reproduction.linear_basis        # USPS, seeds 0 to 9, a minute on one core

Prints the mean test error of the linear code alone in the same basis (all of the budget in one DP-PCA release), beside
that of the whole method at the same epsilon.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from dpmac.data import load
from dpmac.privacy import Ledger
from dpmac.randomness import SeededNoise
from reproduction.recipe import ClosedFormRecipe
from reproduction.settings import CLOSED_FORMS, GAUSSIAN


def main() -> None:
    data = load("usps")
    side = data.shape[0]

    def error(recipe: ClosedFormRecipe, sigma: float) -> float:
        errors = []
        for seed in range(10):
            model = recipe.method(side).fit(data.x_train, sigma, SeededNoise(seed), Ledger())
            errors.append(0.5 * (model.reconstruct(data.x_test) - data.x_test).square().sum(dim=1).mean())
        return float(torch.stack(errors).mean())

    print("epsilon  frequencies  linear code in the basis  whole method")
    for epsilon, recipe in CLOSED_FORMS.items():
        if math.isfinite(epsilon):
            linear, whole = (error(c, GAUSSIAN[epsilon]) for c in (replace(recipe, share=1.0), recipe))
            print(f"{epsilon:7g}  {recipe.frequencies:11d}  {linear:24.3f}  {whole:12.3f}", flush=True)


if __name__ == "__main__":
    main()
