"""Clopper and Pearson's bounds, against the binomial law itself; and how often the whole procedure accuses wrongly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpmac.audit.attackers import proves
from dpmac.audit.confidence import Counts, lower, share_of, upper
from dpmac.audit.curves import strength
from dpmac.checks import ArgumentError
from dpmac.privacy import Mechanism


@pytest.mark.parametrize("draws", [1, 7, 40])
@pytest.mark.parametrize("miss", [0.3, 0.01, 1e-7])
def test_the_bounds_are_where_the_binomial_law_says(draws, miss):
    """The lower bound is the probability at which so many successes, or more, have a chance of just ``miss``."""
    for k in range(draws + 1):
        low, high = lower(k, draws, miss), upper(k, draws, miss)
        assert low == 0.0 if k == 0 else binom.sf(k - 1, draws, low) == pytest.approx(miss, rel=1e-6)
        assert high == 1.0 if k == draws else binom.cdf(k, draws, high) == pytest.approx(miss, rel=1e-6)
        assert low <= k / draws <= high


def test_the_truth_is_missed_no_more_often_than_is_said():
    """By the law itself, without a draw: outcomes whose bound excludes the truth have a chance of ``miss`` at most."""
    draws, miss = 30, 0.05
    bounds = np.array([lower(k, draws, miss) for k in range(draws + 1)])
    for truth in np.linspace(0.01, 0.99, 50):
        missed = binom.pmf(np.arange(draws + 1), draws, truth)[bounds > truth].sum()
        assert missed <= miss * (1 + 1e-9)


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_a_mechanism_that_is_as_claimed_is_accused_as_seldom_as_is_said(rate):
    """The whole chain on draws of the mechanism itself, 2,000 times at a level of one in ten, seeded."""
    draw, claim, draws, miss = np.random.default_rng(0), (Mechanism(0.5, rate),), 100, 0.1
    a = norm.sf(1.0)
    b = (1 - rate) * a + rate * norm.sf(1.0 - 2.0)
    counts = zip(draw.binomial(draws, a, 2000), draw.binomial(draws, b, 2000), strict=True)
    found = np.array([strength(claim, Counts(int(x), int(y), draws).corner(miss)) for x, y in counts])
    accused = np.mean(found > 1.0)
    assert 0.0 < accused <= miss + 3 * math.sqrt(miss * (1 - miss) / 2000)  # and the level is not empty words
    assert np.median(found) > 0.4  # nor is the bound


def test_more_draws_prove_more():
    claim, a = (Mechanism(0.5),), norm.sf(1.0)
    proved = [proves(claim, a, 1 - a, draws, 1e-4) for draws in (100, 1_000, 10_000, 100_000)]
    assert proved == sorted(proved)
    assert 0.9 < proved[-1] < 1.0


def test_looks_share_the_confidence():
    assert share_of(0.99, 1) == pytest.approx(0.01)
    assert share_of(0.99, 80) == pytest.approx(0.01 / 80)
    for confidence in (0.0, 1.0, math.nan, "high"):
        with pytest.raises(ArgumentError, match="confidence="):
            share_of(confidence, 3)
