"""The private mean: the mean and the spread by hand, one event, rows pulled back, clear errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.methods import DPMean
from dpmac.privacy import Ledger, Mechanism, PrivateRows
from dpmac.randomness import SeededNoise

ROWS = 0.3 * SeededNoise(1).normal((3000, 4)).float() + torch.tensor([0.5, -0.2, 0.0, 0.1])


def test_without_noise_it_is_the_mean_and_the_spread_about_it():
    found = DPMean(0.0, centre=torch.tensor([0.3, 0.0, 0.0, 0.0]), radius=50.0).fit(ROWS, SeededNoise(0), Ledger())
    exact = ROWS.double().numpy()
    assert np.allclose(found.mean.numpy(), exact.mean(0), atol=1e-9)
    assert found.spread == pytest.approx(np.sqrt(np.square(exact - exact.mean(0)).sum(1).mean()), rel=1e-6)


def test_with_noise_it_is_near_and_costs_one_gaussian_mechanism():
    ledger = Ledger()
    found = DPMean(2.0).fit(ROWS, SeededNoise(0), ledger)
    assert ledger.mechanisms() == (Mechanism(2.0, 1.0, 1, "mean"),)
    noise = 2.0 * 2.0 / 3000  # the multiplier, and the radius sqrt(4), over n
    assert 0 < float((found.mean - ROWS.double().mean(0)).abs().max()) < 6 * noise
    assert found.spread == pytest.approx(0.6, abs=0.05)


def test_rows_beyond_the_radius_are_pulled_back():
    far = torch.zeros(10, 3)
    far[:, 0] = 1e6
    found = DPMean(0.0, radius=2.0).fit(far, SeededNoise(0), Ledger())
    assert np.allclose(found.mean.numpy(), [2.0, 0.0, 0.0], atol=1e-3)


def test_a_spread_that_noise_has_made_negative_is_small_and_positive():
    found = [DPMean(500.0).fit(ROWS[:50], SeededNoise(seed), Ledger()).spread for seed in range(20)]
    assert min(found) == pytest.approx(0.02)  # a hundredth of the radius
    assert max(found) <= 2.0


def test_bad_arguments_are_named_and_nothing_is_spent():
    ledger = Ledger()
    for make, message in (
        (lambda: DPMean(-1.0), "noise_multiplier=-1"),
        (lambda: DPMean(1.0, radius=0.0), "radius=0.0"),
        (lambda: DPMean(1.0, centre=torch.zeros(3)).fit(ROWS, SeededNoise(0), ledger), "centre=.*one for each of 4"),
        (lambda: DPMean(1.0).fit(PrivateRows(torch.zeros(9, 2, 2)), SeededNoise(0), ledger), "x=.*one flat row"),
    ):
        with pytest.raises(ArgumentError, match=message):
            make()
    assert not len(ledger)
