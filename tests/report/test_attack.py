"""What an attacker can gain: above every true trade-off, and close to it where that is known exactly."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from scipy.stats import norm

from dpmac.checks import ArgumentError
from dpmac.privacy import Mechanism
from dpmac.privacy.accounting import epsilon_of
from dpmac.report.attack import Attack, attack_on

PLACES = [0.0, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95, 0.99, 1.0]


@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.5, 4.0, 20.0])
def test_the_curve_is_above_a_gaussian_release_s_own_and_close_to_it(sigma):
    """The oracle: the best test between N(0, sigma^2) and N(1, sigma^2) is a threshold (Neyman and Pearson)."""
    found = attack_on([Mechanism(sigma)], 1e-5)
    for a in PLACES:
        exact = float(norm.cdf(norm.ppf(a) + 1 / sigma))
        assert exact - 1e-12 <= found.true_positives(a) <= exact + 0.012
    total_variation = 2 * float(norm.cdf(1 / (2 * sigma))) - 1
    assert total_variation - 1e-12 <= found.advantage() <= total_variation + 0.01


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("chance", [1e-5, 1e-3])
def test_log_odds_hold_but_for_the_chance(sigma, chance):
    """The oracle: of a Gaussian release the log-odds move by a Gaussian of mean 1 / (2 s^2) and variance 1 / s^2."""
    found = attack_on([Mechanism(sigma)], chance)
    t = found.log_odds(chance)
    really = float(norm.sf((t - 1 / (2 * sigma**2)) * sigma))
    assert 0.1 * chance <= really <= chance  # a bound, and not a wild one
    assert t > epsilon_of([Mechanism(sigma)], chance)  # epsilon itself would fail more often than that


def test_one_pair_s_epsilon_is_no_bound_on_the_odds():
    """Why there is more to it than e^epsilon: the chance of moving beyond epsilon is larger than delta."""
    sigma, delta = 1.0, 1e-5
    epsilon = epsilon_of([Mechanism(sigma)], delta)
    assert norm.sf((epsilon - 1 / (2 * sigma**2)) * sigma) > 2 * delta


def test_a_sampled_ledger_is_above_the_likelihood_ratio_tests_and_close():
    """The oracle: the exact laws of one Poisson-sampled release, with the row (1 - q) N(0) + q N(1).

    The row may come or go, and mixtures of tests are tests: the least concave curve above both is what can be reached.
    """
    sigma, q = 1.0, 0.3
    found = attack_on([Mechanism(sigma, q)], 1e-5)
    x = np.linspace(-8, 9, 2_001)
    blank = norm.sf(x, 0, sigma)
    there = (1 - q) * blank + q * norm.sf(x, 1, sigma)
    both = np.array([*zip(blank, there, strict=True), *zip(1 - there, 1 - blank, strict=True), (0, 0), (1, 1)])
    for a, b in both:
        assert found.true_positives(float(a)) >= b - 1e-12
    hull = both[ConvexHull(both).vertices]
    above = hull[hull[:, 1] >= hull[:, 0]]
    above = above[np.argsort(above[:, 0])]
    for a in PLACES:
        assert found.true_positives(a) <= np.interp(a, above[:, 0], above[:, 1]) + 0.012


def test_posterior_by_hand():
    attack = Attack(((math.log(3.0), 0.0),))  # odds change by a factor of 3 at most
    assert attack.posterior(0.5, 1e-6) == pytest.approx((0.25, 0.75))
    assert attack.posterior(0.01, 1e-6) == pytest.approx((1 / 298, 3 / 102))
    assert attack.true_positives(0.1) == pytest.approx(0.3)
    assert attack.true_positives(0.9) == pytest.approx(1 - 0.1 / 3)
    assert attack.advantage() == pytest.approx(0.5)


def test_more_releases_gain_more_and_nothing_gains_nothing():
    one, many = (attack_on([Mechanism(2.0, 1.0, count)], 1e-6) for count in (1, 9))
    for a in PLACES[1:-1]:
        assert a < one.true_positives(a) < many.true_positives(a)
    nothing = attack_on([], 1e-6)
    assert nothing.true_positives(0.3) == pytest.approx(0.3, abs=1e-6)
    assert nothing.posterior(0.5, 1e-6)[1] == pytest.approx(0.5, abs=0.01)


def test_without_noise_there_is_no_bound():
    assert attack_on([Mechanism(1.0), Mechanism(0.0)], 1e-5) is None


def test_the_drawn_curve_rises_and_stays_above_guessing():
    points = attack_on([Mechanism(1.0)], 1e-5).corners()
    assert points[0][0] == 0
    assert points[-1] == (1.0, 1.0)
    assert all(b >= a for a, b in points)
    assert all(left[1] <= right[1] + 1e-12 for left, right in pairwise(points))


@pytest.mark.parametrize("bad", [0.0, 1.0, -1, "x"])
def test_a_chance_must_be_one(bad):
    with pytest.raises(ArgumentError, match="delta"):
        attack_on([Mechanism(1.0)], bad)
    with pytest.raises(ArgumentError, match="chance"):
        Attack(((1.0, 1e-6),)).log_odds(bad)
