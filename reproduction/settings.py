"""What is run for the paper's two tables: the paper's own settings, and ours at the stated epsilon.

Preset ``paper`` uses the paper's noise and reports the epsilon that it truly gives. Preset ``tight`` calibrates the
noise to the stated epsilon by PLD and uses hyper-parameters that were chosen on a validation split of the training
rows (see results/README.md). The noise multipliers below are the calibrated ones; a test holds them to their budgets.
"""

from __future__ import annotations

import math

from reproduction.recipe import ClosedFormRecipe, Recipe, StatisticsRecipe

DELTA = 1e-5
ROWS = {"mnist": 60_000, "usps": 5_000}
EPSILONS = {"mnist": (0.5, 2.0, 8.0, math.inf), "usps": (1.0, 2.0, 4.0, 8.0, math.inf)}
METRIC = {"mnist": "test accuracy", "usps": "test error"}

CLASSIFIER = (300,)
AUTOENCODER = (300, 100, 20, 100, 300)

# The paper standardises the 60 components by unnoised statistics of the private rows, which no budget pays for. Rows of
# this length have components of mean square 1 as well, and it is a constant.
STANDARD = math.sqrt(60)

# (table, row, epsilon): what the paper prints. It quotes the DP-SGD (Abadi et al.) and DP-CDBN of its MNIST table.
PUBLISHED: dict[tuple[str, str, float], float] = {
    **{("mnist", "DP-MAC", e): v for e, v in ((0.5, 0.90), (2.0, 0.95), (8.0, 0.97))},
    **{("mnist", "DP-SGD (quoted)", e): v for e, v in ((0.5, 0.90), (2.0, 0.95), (8.0, 0.97))},
    **{("mnist", "DP-CDBN (quoted)", e): v for e, v in ((0.5, 0.92), (2.0, 0.95))},
    **{("usps", "DP-MAC", e): v for e, v in ((1.0, 12.7), (2.0, 10.9), (4.0, 9.6), (8.0, 8.4), (math.inf, 4.4))},
    **{("usps", "DP-SGD", math.inf): 3.6},
    **{("usps", "DP-SGD as published", e): v for e, v in ((1.0, 11.8), (2.0, 9.6), (4.0, 7.9), (8.0, 6.4))},
}


def _paper() -> dict[tuple[str, str, float], Recipe]:
    recipes: dict[tuple[str, str, float], Recipe] = {}
    for epsilon, sigma, pca, epochs, lr, decay in (
        (8.0, 1.0, 4.0, 30, 0.01, "0.95"),
        (2.0, 2.8, 8.0, 30, 0.01, "0.95"),
        (0.5, 8.0, 16.0, 10, 0.03, "0.7"),
        (math.inf, 0.0, 0.0, 30, 0.01, "0.95"),  # for the features without privacy: as at 8, without any noise
    ):
        mac = Recipe(
            "dp-mac", CLASSIFIER, "relu", "sigmoid", 1000, epochs, sigma, "clip", 0.3, "adam", 0.003,
            lr=lr, schedule=decay, pca_noise=pca, input_scale=STANDARD,
        )  # fmt: skip
        recipes["mnist", "DP-MAC", epsilon] = mac
        recipes["mnist", "DP-SGD", epsilon] = Recipe(**{**mac.to_dict(), "method": "dp-sgd", "bound": "joint"})
    for epsilon, sigma, batch in (
        (8.0, 1.8, 500),
        (4.0, 3.1, 500),
        (2.0, 4.1, 250),
        (1.0, 7.8, 250),
        (math.inf, 0.0, 500),
    ):
        recipes["usps", "DP-MAC", epsilon] = Recipe(
            "dp-mac", AUTOENCODER, "relu", "squared", batch, 50, sigma, "clip", 0.001, "adam", 0.001,
            lr=0.003, schedule="0.97",
        )  # fmt: skip
    for epsilon, sigma, batch in (
        (8.0, 2.4, 500),
        (4.0, 4.3, 500),
        (2.0, 5.7, 250),
        (1.0, 11.0, 250),
        (math.inf, 0.0, 500),
    ):
        for row, noise in (("DP-SGD", sigma), ("DP-SGD as published", sigma / 2)):  # it adds half of what it should
            if row == "DP-SGD" or sigma:
                # Theta 0.01 is on the loss over the batch size, so 0.01 times the batch on an example's own gradient
                recipes["usps", row, epsilon] = Recipe(
                    "dp-sgd", AUTOENCODER, "relu", "squared", batch, 100, noise, "joint", 0.01 * batch,
                    optimizer="sgd", lr=0.03, schedule="constant",
                )  # fmt: skip
    return recipes


def _mnist(method: str, batch: int, epochs: int, sigma: float, bound: str, threshold: float, lr: float, average: float,
           pca: float, scale: float) -> Recipe:  # fmt: skip
    return Recipe(
        method, CLASSIFIER, "relu", "sigmoid", batch, epochs, sigma, bound, threshold,
        lr=lr, average=average, pca_noise=pca, input_scale=scale,
    )  # fmt: skip


def _usps(method: str, activation: str, batch: int, epochs: int, sigma: float, bound: str, threshold: float, lr: float,
          average: float, centre: float) -> Recipe:  # fmt: skip
    return Recipe(
        method, AUTOENCODER, activation, "squared", batch, epochs, sigma, bound, threshold,
        lr=lr, average=average, input_centre=centre,
    )  # fmt: skip


TIGHT: dict[tuple[str, str, float], Recipe] = {
    ("mnist", "DP-MAC", 0.5): _mnist("dp-mac", 2000, 10, 4.6567, "joint", 10.0, 0.03, 0.99, 16.0, 12.0),
    ("mnist", "DP-MAC", 2.0): _mnist("dp-mac", 8000, 60, 6.0819, "normalise", 3.0, 0.06, 0.97, 6.0, 5.0),
    ("mnist", "DP-MAC", 8.0): _mnist("dp-mac", 8000, 100, 2.3753, "joint", 3.0, 0.02, 0.99, 3.0, 8.0),
    ("mnist", "DP-MAC", math.inf): _mnist("dp-mac", 1000, 30, 0.0, "joint", 1.0, 0.01, 0.99, 0.0, 8.0),
    ("mnist", "DP-SGD", 0.5): _mnist("dp-sgd", 4000, 20, 9.1467, "normalise", 10.0, 0.04, 0.9, 16.0, 8.0),
    ("mnist", "DP-SGD", 2.0): _mnist("dp-sgd", 4000, 30, 3.1366, "joint", 0.3, 0.04, 0.97, 6.0, 8.0),
    ("mnist", "DP-SGD", 8.0): _mnist("dp-sgd", 8000, 100, 2.3753, "normalise", 3.0, 0.03, 0.97, 3.0, 8.0),
    ("mnist", "DP-SGD", math.inf): _mnist("dp-sgd", 1000, 30, 0.0, "joint", 1.0, 0.01, 0.99, 0.0, 8.0),
    ("usps", "DP-MAC", 1.0): _usps("dp-mac", "tanh", 2000, 100, 23.6672, "joint", 3.0, 0.005, 0.995, 0.25),
    ("usps", "DP-MAC", 2.0): _usps("dp-mac", "tanh", 1000, 80, 8.0694, "joint", 0.3, 0.004, 0.97, 0.25),
    ("usps", "DP-MAC", 4.0): _usps("dp-mac", "tanh", 2000, 200, 9.7313, "joint", 0.3, 0.004, 0.99, 0.25),
    ("usps", "DP-MAC", 8.0): _usps("dp-mac", "elu", 2000, 300, 6.6318, "joint", 1.0, 0.003, 0.995, 0.2),
    ("usps", "DP-MAC", math.inf): _usps("dp-mac", "elu", 250, 100, 0.0, "joint", 1.0, 0.002, 0.99, 0.25),
    ("usps", "DP-SGD", 1.0): _usps("dp-sgd", "tanh", 2000, 100, 23.6672, "joint", 3.0, 0.005, 0.995, 0.25),
    ("usps", "DP-SGD", 2.0): _usps("dp-sgd", "tanh", 1000, 80, 8.0694, "joint", 0.3, 0.004, 0.97, 0.25),
    ("usps", "DP-SGD", 4.0): _usps("dp-sgd", "tanh", 2000, 200, 9.7313, "joint", 0.3, 0.004, 0.99, 0.25),
    ("usps", "DP-SGD", 8.0): _usps("dp-sgd", "elu", 2000, 300, 6.6318, "joint", 1.0, 0.003, 0.995, 0.2),
    ("usps", "DP-SGD", math.inf): _usps("dp-sgd", "elu", 250, 100, 0.0, "joint", 1.0, 0.002, 0.99, 0.25),
}

# One total noise multiplier per epsilon, shared between the releases of the closed forms.
GAUSSIAN = {1.0: 3.7307, 2.0: 1.9939, 4.0: 1.0812, 8.0: 0.6003, math.inf: 0.0}
CLOSED_FORMS = {
    1.0: ClosedFormRecipe(0.9, frequencies=100, threshold=1.5, ridge=400.0),
    2.0: ClosedFormRecipe(0.7, frequencies=110, threshold=2.0, ridge=150.0),
    4.0: ClosedFormRecipe(0.4, frequencies=150, threshold=2.0, ridge=30.0),
    8.0: ClosedFormRecipe(0.3, frequencies=180, bandwidth=4.0, threshold=2.5, ridge=30.0),
    math.inf: ClosedFormRecipe(0.5, frequencies=256, bandwidth=4.0, threshold=1e6, ridge=20.0),
}
# Plain DP-PCA: no public basis, nothing but the one release.
LINEAR_FORMS = {
    epsilon: ClosedFormRecipe(1.0, frequencies=256, centre=0.25 if epsilon <= 1 else 0.15) for epsilon in GAUSSIAN
}
SUFFICIENT = {
    0.5: StatisticsRecipe(16.0, 7.8284, 100.0),
    2.0: StatisticsRecipe(6.0, 2.1140, 30.0),
    8.0: StatisticsRecipe(3.0, 0.6127, 1.0),
    math.inf: StatisticsRecipe(0.0, 0.0, 1.0),
}

PRESETS: dict[str, dict[tuple[str, str, float], Recipe]] = {"paper": _paper(), "tight": TIGHT}
