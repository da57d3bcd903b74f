"""Base rates: offsets that bring mean probabilities to the classes' shares; oracles are counts, quadrature, copies."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import expit

from dpmac.bounds.clipping import joint_norms
from dpmac.checks import ArgumentError
from dpmac.methods import BaseRates
from dpmac.methods.base_rates import LABEL, _likely
from dpmac.privacy import Ledger, Mechanism, PrivateRows
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise

DRAW = np.random.RandomState(0)


def fit(sigma, u, y, seed=0, ledger=None, **more):
    table = PrivateRows(torch.as_tensor(u).double(), torch.as_tensor(y).double())
    return BaseRates(sigma).fit(table, lambda x: x, SeededNoise(seed), Ledger() if ledger is None else ledger, **more)


def one_hot(rates, n=2000):
    return np.eye(len(rates))[DRAW.choice(len(rates), n, p=rates)]


@pytest.mark.parametrize("rates", [(0.9, 0.1), (0.99, 0.01), (0.5, 0.3, 0.15, 0.05)])
def test_without_noise_logits_that_know_nothing_become_the_base_rates(rates):
    y = one_hot(rates)
    slope, *offsets = fit(0.0, np.zeros(y.shape), y)
    assert slope == 1.0
    odds = y.mean(axis=0) / y[:, 0].mean()
    assert offsets == pytest.approx(np.log(odds[1:]).tolist(), abs=0.02)


def test_without_noise_the_mean_probability_comes_near_the_share_of_rows():
    y = one_hot((0.95, 0.05))
    u = np.stack([np.zeros(len(y)), y[:, 1] + DRAW.normal(size=len(y))], axis=1)
    assert expit(u[:, 1]).mean() > 0.4
    _, offset = fit(0.0, u, y)
    assert expit(u[:, 1] + offset).mean() == pytest.approx(0.05, abs=0.03)


def test_every_label_has_an_offset_of_its_own():
    y = (DRAW.uniform(size=(2000, 3)) < [0.02, 0.5, 0.9]).astype(float)
    _, *offsets = fit(0.0, np.zeros(y.shape), y, several=True)
    share = y.mean(axis=0)
    assert offsets == pytest.approx(np.log(share / (1 - share)).tolist(), abs=0.02)


def test_weights_of_classes_are_copies_of_their_rows():
    y = one_hot((0.7, 0.2, 0.1), 1200)
    u = DRAW.normal(size=y.shape)
    times = (y @ [1, 2, 4]).astype(int)
    weighted = fit(0.0, u, y, weights=torch.tensor([1.0, 2.0, 4.0]))
    copied = fit(0.0, np.repeat(u, times, axis=0), np.repeat(y, times, axis=0))
    assert weighted == pytest.approx(copied, abs=0.02)


def test_weights_of_labels_are_copies_of_their_rows():
    y = (DRAW.uniform(size=(1500, 1)) < 0.1).astype(float)
    u = DRAW.normal(size=y.shape)
    times = np.where(y[:, 0] == 1, 3, 1)
    weighted = fit(0.0, u, y, several=True, weights=torch.tensor([[1.0, 3.0]]))
    copied = fit(0.0, np.repeat(u, times, axis=0), np.repeat(y, times, axis=0), several=True)
    assert weighted == pytest.approx(copied, abs=0.02)


def test_a_class_without_rows_gets_a_finite_offset():
    y = np.eye(3)[np.zeros(50, dtype=int)]
    offsets = fit(0.0, np.zeros(y.shape), y)[1:]
    assert all(-10 < offset < -3 for offset in offsets)


def test_what_the_noise_drowns_is_left_as_it_is():
    y = one_hot((0.9, 0.1), 300)
    found = [fit(1e5, np.zeros(y.shape), y, seed=seed)[1] for seed in range(20)]
    assert np.abs(found).max() < 0.3
    wild = [fit(1e9, np.zeros(y.shape), y, seed=seed)[1] for seed in range(3)]
    assert np.isfinite(wild).all()


def test_with_noise_a_rare_class_is_closer_than_before_and_never_far_off():
    """300 rows with 3 positives at the noise of epsilon 0.5: log-loss above the base rate's, .6 nats before."""
    y = np.eye(2)[(np.arange(300) < 3).astype(int)]
    share = 0.01
    excess = []
    for seed in range(100):
        p = expit(fit(15.7, np.zeros(y.shape), y, seed=seed)[1])
        excess.append(share * math.log(share / p) + (1 - share) * math.log((1 - share) / (1 - p)))
    assert np.mean(excess) < 0.02
    assert np.quantile(excess, 0.95) < 0.06


@pytest.mark.parametrize("shape", [2, 3, 10])
@pytest.mark.parametrize(("rate", "noise"), [(0.3, 0.05), (-0.1, 0.1), (0.02, 0.03), (1.2, 0.1)])
def test_a_rate_is_the_posterior_mean_under_jeffreys_prior(shape, rate, noise):
    n = 500
    deviation = math.hypot(noise, 0.5 / n)

    def density(t, power=0):
        p = math.sin(t) ** 2
        return p**power * math.cos(t) ** (shape - 2) * math.exp(-(((rate - p) / deviation) ** 2) / 2)

    around = {"limit": 500, "points": [math.asin(math.sqrt(min(max(rate, 0.0), 1.0)))]}
    wanted = quad(density, 0, math.pi / 2, args=(1,), **around)[0] / quad(density, 0, math.pi / 2, **around)[0]
    found = _likely(torch.tensor([rate]).double(), torch.tensor([noise]).double(), n, shape)
    assert float(found) == pytest.approx(wanted, rel=1e-3)


def test_it_is_one_entry_of_the_ledger():
    ledger = Ledger()
    y = one_hot((0.5, 0.5), 50)
    fit(3.0, np.zeros(y.shape), y, ledger=ledger)
    assert ledger.mechanisms() == (BaseRates(3.0).mechanism(),) == (Mechanism(3.0, 1.0, 1, LABEL),)
    assert list(ledger.entries[0].scales.values()) == pytest.approx([1.0, 1.0])  # sqrt(2) times the longest, sqrt(1/2)


def test_a_share_costs_that_part_of_one_gaussian_mechanism():
    whole, part = (BaseRates.for_share(share, 2.0, 1e-5) for share in (1.0, 0.2))
    assert part.noise_multiplier**-2 == pytest.approx(0.2 * whole.noise_multiplier**-2)


def test_what_was_kept_is_not_released_again():
    ledger, kept = Ledger(), []
    y = one_hot((0.5, 0.3, 0.2), 50)
    first = fit(3.0, np.zeros(y.shape), y, ledger=ledger, keep=lambda made, numbers: kept.append((made, numbers)))
    ((made, numbers),) = kept
    assert (made, first) == (1, (1.0, *numbers))
    assert fit(3.0, np.zeros(y.shape), y, ledger=ledger, made=1, kept=numbers) == first
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("more", [{}, {"several": True}, {"weights": torch.tensor([0.1, 5.0])}])
def test_shares_keep_their_promise_for_wild_logits(more):
    wild = torch.tensor([math.inf, -math.inf, math.nan, 1e30, -1e30, 30.0, 0.0], dtype=torch.float64)
    u = torch.cartesian_prod(wild, wild).repeat(2, 1)
    y = torch.eye(2, dtype=torch.float64).repeat_interleave(len(u) // 2, dim=0)
    if more.get("several"):
        y = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64).repeat_interleave(len(u) // 2, dim=0)
    query = BaseRates(1.0).query(lambda x: x, 2, **more)
    norms = joint_norms(query.parts(u, y), [p.scale for p in query.partitions])
    assert (norms <= 1 - SLACK / 2).all()
    assert float(norms.max()) > 0.999


def test_bad_arguments_are_named():
    with pytest.raises(ArgumentError, match=r"noise_multiplier=-1\.0"):
        BaseRates(-1.0)
    with pytest.raises(ArgumentError, match="share=2"):
        BaseRates.for_share(2, 1.0, 1e-5)
