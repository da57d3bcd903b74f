"""The closed form with its features' Gram matrix released beside the slope: ridge regression, by hand, and its cost."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.methods import ClosedForm
from dpmac.nets.feature_maps import Affine
from dpmac.privacy import Ledger, epsilon_of
from dpmac.randomness import SeededNoise

DRAW = np.random.RandomState(0)
T = DRAW.choice([-1.0, 0.2, 1.0], 2000)  # codes in clusters, as of a table: no Gaussian
ROWS = torch.from_numpy(
    np.stack([2 * T, (T == 0.2).astype(float), np.abs(T)], axis=1) + 0.05 * DRAW.normal(size=(2000, 3))
)
CENTRE = ROWS.mean(0)


def choices(**more):
    usual = {"feature_map": Affine(CENTRE), "code": 1, "features": 30, "bandwidth": 0.7, "norm": 2.0, "ridge": 0.5}
    usual |= {"threshold": None, "curvature": "released", "normalise": False}
    return ClosedForm(**{**usual, **more})


def missed(model):
    return float((model.reconstruct(ROWS) - ROWS).square().sum())


def test_without_noise_or_clipping_it_is_ridge_regression_on_what_is_left_over():
    model = choices(threshold=1e3, norm=50.0).fit(ROWS, 0.0, SeededNoise(0), Ledger())
    rows = (ROWS - CENTRE).numpy()
    first = np.linalg.svd(rows, full_matrices=False)[2][:1]
    assert np.allclose(np.abs(model.pca.components.numpy()), np.abs(first), atol=1e-6)
    codes = rows @ first.T * np.sign(first[0] @ model.pca.components[0].numpy())
    left = rows - codes @ model.pca.components.numpy()
    hidden = model.hidden(torch.from_numpy(codes)).numpy()
    lengths = np.minimum(1.0, 1.1 / np.square(hidden).sum(1))  # a Gram matrix's parts are clipped in any case
    gram = (hidden * lengths[:, None]).T @ hidden
    by_hand = np.linalg.solve(gram + 0.5 * np.eye(30), hidden.T @ left).T
    assert np.allclose(model.decoder.numpy(), by_hand, atol=1e-3)


def test_clusters_are_decoded_better_than_by_simulated_codes_and_than_linearly():
    released, simulated = (
        choices(curvature=c).fit(ROWS, 0.5, SeededNoise(1), Ledger()) for c in ("released", "simulated")
    )
    linear = choices(share=1.0).fit(ROWS, 0.5, SeededNoise(1), Ledger())
    assert missed(released) < 0.5 * missed(linear)
    assert missed(released) < missed(simulated)


def test_it_costs_what_it_says():
    ledger = Ledger()
    choices(share=0.3).fit(ROWS, 2.0, SeededNoise(0), ledger)
    assert [entry.label for entry in ledger.entries] == ["DP-PCA", "output layer"]
    assert sum(1 / entry.noise_multiplier**2 for entry in ledger.entries) == pytest.approx(1 / 4)
    assert epsilon_of(ledger.mechanisms(), 1e-5) < 2.6
    scales = ledger.entries[1].scales
    assert set(scales) == {"output layer slope", "hidden features x hidden features"}


def test_the_threshold_follows_what_the_linear_code_leaves_over():
    model = choices(norm=float(((ROWS - CENTRE).square().sum(1).mean()).sqrt())).fit(
        ROWS, 0.0, SeededNoise(0), Ledger()
    )
    linear = ROWS - CENTRE - model.code_of(ROWS - CENTRE) @ model.pca.components
    assert model.left_over() == pytest.approx(float(linear.square().sum(1).mean().sqrt()), rel=0.15)


def test_a_curvature_that_there_is_not_is_refused():
    with pytest.raises(ArgumentError, match="curvature='guessed': choose 'simulated' or 'released'"):
        choices(curvature="guessed")
