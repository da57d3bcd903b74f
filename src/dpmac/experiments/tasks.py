"""The paper's two trainings, given a recipe and rows: the digit classifier and the autoencoder.

The tables train on all training rows and score on the test rows; the search for recipes trains on a part of the
training rows and scores on the rest (:func:`held_out`). Both are the same code, so that what was picked is what is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dpmac.data import Dataset
from dpmac.experiments.recipe import Recipe
from dpmac.experiments.settings import DELTA
from dpmac.features.pca import DPPCA, ReleasedPCA
from dpmac.nets.network import DenseNetwork
from dpmac.privacy.ledger import Ledger
from dpmac.privacy.noise import NoiseSource, SeededNoise
from dpmac.training.run import Run

DIGITS_SHOWN = (0, 3, 5, 6, 8)  # those of the paper's figure


def train(recipe: Recipe, data: Dataset, source: NoiseSource, ledger: Ledger, device: str = "cpu") -> dict[str, Any]:
    """Train ``recipe`` on the training rows of ``data`` and score it on its test rows.

    Gives the ``metric`` (accuracy of a classifier, half the mean squared norm of an autoencoder's error), the ``curve``
    over epochs, and of a classifier its ``first_layer`` as images. All releases are in ``ledger``.
    """
    return (_autoencoder if recipe.pca_noise is None else _classifier)(recipe, data, source, ledger, device)


def held_out(data: Dataset, rows: int, seed: int = 0) -> Dataset:
    """``data`` with ``rows`` of its training rows, drawn by ``seed``, in the place of its test rows."""
    order = torch.argsort(SeededNoise(seed, "/held out").uniform(len(data.x_train)))
    kept, out = order[rows:], order[:rows]
    return replace(
        data,
        x_train=data.x_train[kept],
        y_train=data.y_train[kept],
        x_test=data.x_train[out],
        y_test=data.y_train[out],
    )


def _classifier(recipe: Recipe, data: Dataset, source: NoiseSource, ledger: Ledger, device: str) -> dict[str, Any]:
    """60 components of DP-PCA, then the network; inputs are scaled to one length, each example by itself."""
    assert recipe.pca_noise is not None
    pca = DPPCA(60, recipe.pca_noise, normalise=True).fit(data.x_train.to(device), source, ledger)
    x, x_test = (unit_codes(pca, rows.to(device)) * recipe.input_scale for rows in (data.x_train, data.x_test))
    labels = torch.eye(10)

    def accuracy(network: DenseNetwork, rows: Tensor, wanted: Tensor) -> float:
        with torch.no_grad():
            return float((network(rows.to(network.device)).argmax(dim=1).cpu() == wanted).double().mean())

    def evaluate(network: DenseNetwork) -> Mapping[str, float]:
        return {
            "train": 1 - accuracy(network, x[:10_000], data.y_train[:10_000]),
            "test": 1 - accuracy(network, x_test, data.y_test),
        }

    trainer = recipe.trainer(60, 10, len(x), DELTA, source, evaluate, device)
    run = trainer.fit(x, labels[data.y_train], ledger)
    return {
        "metric": accuracy(run.model, x_test, data.y_test),
        "curve": curve(run),
        "first_layer": features(run.model, pca),
        "digits": list(DIGITS_SHOWN),
        "image_shape": list(data.shape),
    }


def _autoencoder(recipe: Recipe, data: Dataset, source: NoiseSource, ledger: Ledger, device: str) -> dict[str, Any]:
    x, x_test = ((rows - recipe.input_centre) * recipe.input_scale for rows in (data.x_train, data.x_test))

    def error(network: DenseNetwork, rows: Tensor) -> float:
        with torch.no_grad():
            rows = rows.to(network.device)
            return float(0.5 * ((network(rows) - rows) / recipe.input_scale).square().sum(dim=1).mean())

    def evaluate(network: DenseNetwork) -> Mapping[str, float]:
        return {"train": error(network, x), "test": error(network, x_test)}

    width = x.shape[1]
    run = recipe.trainer(width, width, len(x), DELTA, source, evaluate, device).fit(x, x, ledger)
    return {"metric": error(run.model, x_test), "curve": curve(run)}


def unit_codes(pca: ReleasedPCA, rows: Tensor) -> Tensor:
    """The codes of ``rows``, each scaled to norm 1 by itself."""
    codes = pca.transform(rows).float()
    lengths: Tensor = torch.linalg.vector_norm(codes, dim=1, keepdim=True)
    return codes / lengths.clamp(min=1e-6)


def curve(run: Run) -> list[dict[str, float]]:
    """Train and test error over epochs. On private rows: for research, and outside the guarantee."""
    return [{"epoch": r.epoch, "train": r.metrics["train"], "test": r.metrics["test"]} for r in run.history]


def features(network: DenseNetwork, pca: ReleasedPCA) -> list[list[float]]:
    """The first-layer units that weigh most for the digits of the paper's figure, as images."""
    first, last = (linear.weight.detach().cpu().double() for linear in (network.linears[0], network.linears[-1]))
    images = first @ pca.components.cpu()
    units = [int(last[digit].argmax()) for digit in DIGITS_SHOWN]
    return [[round(float(v), 5) for v in images[unit]] for unit in units]
