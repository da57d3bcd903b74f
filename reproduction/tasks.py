"""The paper's two trainings, given a recipe and rows: the digit classifier and the autoencoder.

The tables train on all training rows and score on the test rows; the search for recipes trains on a part of the
training rows and scores on the rest (:func:`held_out`). Both are the same code, so that what was picked is what is run.
The private rows go to the trainer as they are, and its feature map makes the inputs of them; only the scores, which are
research and outside the guarantee, use the feature map here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dpmac.data import Dataset
from dpmac.methods import DPPCA, ReleasedPCA
from dpmac.nets import Network
from dpmac.nets.feature_maps import Affine
from dpmac.privacy import Ledger
from dpmac.randomness import NoiseSource, SeededNoise
from dpmac.training import Run
from reproduction.recipe import Recipe
from reproduction.settings import DELTA

COMPONENTS = 60
CLASSES = 10
DIGITS_SHOWN = (0, 3, 5, 6, 8)  # those of the paper's figure
FOLLOWED = 10_000  # training rows that a classifier's curve is read off


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


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of computation in the block: a sum over several would depend on how many cores there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _classifier(recipe: Recipe, data: Dataset, source: NoiseSource, ledger: Ledger, device: str) -> dict[str, Any]:
    """60 components of DP-PCA, then the network; inputs are scaled to one length, each example by itself."""
    assert recipe.pca_noise is not None
    x_train = data.x_train.to(device)
    pca = DPPCA(COMPONENTS, recipe.pca_noise, normalise=True).fit(x_train, source, ledger)
    feature_map = pca.feature_map(length=recipe.input_scale).to(device)
    x, x_test = (feature_map(rows).float() for rows in (x_train[:FOLLOWED], data.x_test.to(device)))

    def accuracy(network: Network, rows: Tensor, wanted: Tensor) -> float:
        with torch.no_grad():
            return float((network(rows).argmax(dim=1).cpu() == wanted).double().mean())

    def evaluate(network: Network) -> Mapping[str, float]:
        return {
            "train": 1 - accuracy(network, x, data.y_train[:FOLLOWED]),
            "test": 1 - accuracy(network, x_test, data.y_test),
        }

    trainer = recipe.trainer(
        COMPONENTS, CLASSES, len(x_train), DELTA, source, feature_map=feature_map, evaluate=evaluate, device=device
    )
    run = trainer.fit(x_train, torch.eye(CLASSES)[data.y_train], ledger)
    return {
        "metric": accuracy(run.model, x_test, data.y_test),
        "curve": curve_of(run),
        "first_layer": first_layer_images(run.model, pca),
        "digits": list(DIGITS_SHOWN),
        "image_shape": list(data.shape),
    }


def _autoencoder(recipe: Recipe, data: Dataset, source: NoiseSource, ledger: Ledger, device: str) -> dict[str, Any]:
    """The network gives back its inputs: pixels less a constant, times a constant. Errors are on the pixels' scale."""
    x_train = data.x_train.to(device)
    feature_map = Affine(recipe.input_centre, recipe.input_scale).to(device)
    x, x_test = (feature_map(rows).float() for rows in (x_train, data.x_test.to(device)))

    def error(network: Network, rows: Tensor) -> float:
        with torch.no_grad():
            return float(0.5 * ((network(rows) - rows) / recipe.input_scale).square().sum(dim=1).mean())

    def evaluate(network: Network) -> Mapping[str, float]:
        return {"train": error(network, x), "test": error(network, x_test)}

    width = x_train.shape[1]
    trainer = recipe.trainer(
        width, width, len(x_train), DELTA, source, feature_map=feature_map, evaluate=evaluate, device=device
    )
    run = trainer.fit(x_train, None, ledger)
    return {"metric": error(run.model, x_test), "curve": curve_of(run)}


def curve_of(run: Run) -> list[dict[str, float]]:
    """Train and test error over epochs. On private rows: for research, and outside the guarantee."""
    return [{"epoch": r.epoch, "train": r.metrics["train"], "test": r.metrics["test"]} for r in run.history]


def first_layer_images(network: Network, pca: ReleasedPCA) -> list[list[float]]:
    """The first-layer units that weigh most for the digits of the paper's figure, as images."""
    layers = network.weight_layers
    first, last = (layer.weight.detach().cpu().double() for layer in (layers[0], layers[-1]))
    images = first @ pca.components.cpu()
    units = [int(last[digit].argmax()) for digit in DIGITS_SHOWN]
    return [[round(float(pixel), 5) for pixel in images[unit]] for unit in units]
