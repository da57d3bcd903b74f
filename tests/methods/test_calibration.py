"""The calibration of logits: the logistic fit without noise, better probabilities with it, the ranking always."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import expit, log_softmax, logsumexp
from scipy.stats import norm

from dpmac.bounds.clipping import joint_norms
from dpmac.checks import ArgumentError
from dpmac.methods import Calibration
from dpmac.methods.calibration import CURVATURE, LABEL, REACH, SLOPE
from dpmac.privacy import Ledger, Mechanism, PrivateRows
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise

WILD = (math.inf, -math.inf, math.nan, 1e30, -1e30, 8.0, -8.0, 0.0)


def two_classes(n, seed=0):
    """Logits of a model that is right about its probabilities, and labels drawn from them."""
    draw = np.random.RandomState(seed)
    margin = 2 * draw.normal(size=n) + 0.3
    return np.stack([-margin / 2, margin / 2], axis=1), (draw.uniform(size=n) < expit(margin)).astype(int)


def four_classes(n, seed=0):
    draw = np.random.RandomState(seed)
    u = 2 * draw.normal(size=(n, 4))
    return u, (log_softmax(u, axis=1) + draw.gumbel(size=u.shape)).argmax(axis=1)


def fit(calibration, u, y, seed=0, ledger=None):
    targets = torch.eye(u.shape[1], dtype=torch.float64)[torch.from_numpy(y)]
    table = PrivateRows(torch.from_numpy(u), targets)
    return calibration.fit(table, lambda x: x, SeededNoise(seed), Ledger() if ledger is None else ledger)


def log_loss(u, y, slope=1.0, offset=0.0):
    calibrated = slope * u + offset * (np.arange(u.shape[1]) == 1)
    return float(np.mean(logsumexp(calibrated, axis=1) - calibrated[np.arange(len(y)), y]))


@pytest.mark.parametrize("scale", [0.5, 3.0, 20.0])
def test_without_noise_it_is_the_logistic_fit_on_the_clipped_margin(scale):
    u, y = two_classes(1500)
    clipped = np.clip(np.clip(scale * u, -REACH, REACH) @ [-1, 1], -REACH, REACH)
    assert (scale < 20) or (np.abs(clipped) == REACH).mean() > 0.5

    def loss(theta):
        z = theta[0] * clipped + theta[1]
        return float(np.sum(np.logaddexp(0, z) - y * z))

    wanted = minimize(loss, [1.0, 0.0], method="BFGS", options={"gtol": 1e-2}).x
    assert fit(Calibration(0.0, rounds=150), scale * u, y) == pytest.approx(tuple(wanted), abs=2e-4)


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_without_noise_many_classes_get_the_best_temperature(scale):
    u, y = four_classes(1500)
    clipped = np.clip(scale * u, -REACH, REACH)
    wanted = minimize_scalar(lambda s: log_loss(clipped, y, s), bounds=(0.1, 20), method="bounded").x
    slope, offset = fit(Calibration(0.0, rounds=150), scale * u, y)
    assert slope == pytest.approx(wanted, rel=1e-4)
    assert offset == 0.0


@pytest.fixture(scope="module")
def realistic():
    """A twentieth of a budget of (2, 1e-5)."""
    return Calibration.for_share(0.05, 2.0, 1e-5)


@pytest.mark.parametrize("made", [two_classes, four_classes])
@pytest.mark.parametrize("scale", [3.0, 0.3])
def test_it_mends_logits_of_the_wrong_scale_under_real_noise(realistic, made, scale):
    """On rows that it has not seen; of what the wrong scale costs, at least half is won back."""
    (u, y), (unseen, theirs) = made(20_000), made(20_000, seed=1)
    best, spoilt = log_loss(unseen, theirs), log_loss(scale * unseen, theirs)
    for seed in range(3):
        slope, offset = fit(realistic, scale * u, y, seed)
        assert log_loss(scale * unseen, theirs, slope, offset) < (best + spoilt) / 2


@pytest.mark.parametrize("noise_multiplier", [1e2, 1e5, 1e9])
def test_any_noise_leaves_the_ranking_and_finite_numbers(noise_multiplier):
    for made in (two_classes, four_classes):
        u, y = made(100)
        for seed in range(4):
            slope, offset = fit(Calibration(noise_multiplier), u, y, seed)
            assert 0.1 <= slope <= 20
            assert abs(offset) <= 6 * 1.5
            calibrated = slope * u + [0, offset] if made is two_classes else slope * u
            assert np.array_equal(calibrated[:, 1].argsort(), u[:, 1].argsort())


def test_every_round_is_one_entry_of_the_ledger():
    ledger = Ledger()
    calibration = Calibration(7.0, rounds=4)
    fit(calibration, *two_classes(50), ledger=ledger)
    assert [entry.label for entry in ledger.entries] == [LABEL] * 4 == ["calibration"] * 4
    assert ledger.mechanisms() == (calibration.mechanism(),) == (Mechanism(7.0, 1.0, 4, "calibration"),)
    assert ledger.entries[0].scales == pytest.approx({SLOPE: 2.0, CURVATURE: math.sqrt(0.5)}, rel=1e-4)
    assert ledger.seeded


def test_a_share_is_that_part_of_one_gaussian_mechanism(realistic):
    """The mechanism's own formula (Balle and Wang 2018) is the oracle; squares of 1 / sigma add up."""

    def excess(sigma):
        upper, lower = 0.5 / sigma - 2.0 * sigma, -0.5 / sigma - 2.0 * sigma
        return norm.cdf(upper) - math.exp(2.0) * norm.cdf(lower) - 1e-5

    whole = brentq(excess, 0.1, 100)
    ledger = Ledger()
    fit(realistic, *two_classes(50), ledger=ledger)
    spent = sum(entry.noise_multiplier**-2 for entry in ledger.entries)
    assert spent == pytest.approx(0.05 / whole**2, rel=1e-3)
    assert spent <= 0.05 / whole**2


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_shares_keep_their_promise_for_wild_logits(classes):
    values = torch.tensor(WILD, dtype=torch.float64)
    u = torch.cartesian_prod(values, values)
    u = torch.cat([u, torch.zeros(len(u), classes - 2)], dim=1).repeat(classes, 1)
    y = torch.eye(classes, dtype=torch.float64).repeat_interleave(len(u) // classes, dim=0)
    for theta in ([0.1, 9.0], [1.0, 0.0], [20.0, -9.0]):
        asked = torch.tensor(theta if classes == 2 else theta[:1], dtype=torch.float64)
        query = Calibration(1.0).query(lambda x: x, asked, classes)
        norms = joint_norms(query.parts(u, y), [p.scale for p in query.partitions])
        assert (norms <= 1 - SLACK / 2).all()
        assert (norms[u.isnan().any(dim=1)] == 0).all()
        assert (norms > 0).any()


def test_wild_rows_do_not_keep_the_others_from_their_fit():
    u, y = two_classes(1500)
    wild = np.stack([np.repeat(WILD, 8), np.tile(WILD, 8)], axis=1)
    slope, offset = fit(Calibration(0.0, rounds=30), np.concatenate([3 * u, wild]), np.append(y, np.arange(64) % 2))
    assert (slope, offset) == pytest.approx((1 / 3, 0.0), abs=0.1)


def test_bad_arguments_are_named():
    for make, message in (
        (lambda: Calibration(-1.0), "noise_multiplier=-1.0"),
        (lambda: Calibration(1.0, rounds=0), "rounds=0"),
        (lambda: Calibration(1.0, ridge=0.0), "ridge=0.0"),
        (lambda: Calibration(1.0, longest=math.inf), "longest=inf"),
        (lambda: Calibration.for_share(0.0, 2.0, 1e-5), "share=0.0"),
        (lambda: Calibration.for_share(1.0, 2.0, 1e-5), "share=1.0"),
    ):
        with pytest.raises(ArgumentError, match=message):
            make()
