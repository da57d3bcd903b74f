"""What claims allow: against the laws themselves, dp-accounting, and each other."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

from dpmac.audit import Corner, epsilon_at, strength, true_positives
from dpmac.checks import ArgumentError
from dpmac.privacy import Mechanism, epsilon_of

PLAIN = (Mechanism(0.5),)
SEVERAL = (Mechanism(1.0, count=3), Mechanism(2.0, count=4))
SAMPLED = (Mechanism(0.5, 0.3),)
COMPOSED = (Mechanism(0.8, 0.4, 2),)
SMALL = (0.001, 0.02, 0.1, 0.3, 0.7)


@cache
def best_of_two_steps(claim):
    """False and true positives of the best tests on two sampled steps: Neyman and Pearson on a grid of outcomes."""
    (one,) = claim
    q, mu = one.sample_rate, 1 / one.noise_multiplier
    x = np.linspace(-7, 7 + mu, 900)
    blank = norm.pdf(x) * (x[1] - x[0])
    there = ((1 - q) * norm.pdf(x) + q * norm.pdf(x - mu)) * (x[1] - x[0])
    nulls, alternatives = (np.outer(law, law).ravel() for law in (blank, there))
    order = np.argsort(-(alternatives / nulls))
    return np.cumsum(nulls[order]), np.cumsum(alternatives[order])


@pytest.mark.parametrize("a", SMALL)
def test_composed_claims_allow_what_two_steps_can_reach_and_hardly_more(a):
    """Where few are false; further up, a claim that holds whichever table is the true one allows more."""
    reached = float(np.interp(a, *best_of_two_steps(COMPOSED)))
    assert reached - 1e-4 <= true_positives(COMPOSED, a)
    assert a > 0.1 or true_positives(COMPOSED, a) <= reached + 0.01


@pytest.mark.parametrize("claim", [PLAIN, SEVERAL, SAMPLED])
@pytest.mark.parametrize("a", SMALL)
def test_closed_forms_keep_within_the_accountants_pairs(claim, a):
    """b <= e^epsilon a + delta and its mirror, for pairs that dp-accounting gives; and one of them is nearly met."""
    b = true_positives(claim, a)
    pairs = [(epsilon_of(claim, delta), delta) for delta in np.geomspace(1e-6, 0.9, 60)]
    bounds = [min(math.exp(e) * a + d, 1 - math.exp(-e) * (1 - a - d)) for e, d in pairs]
    assert b <= min(bounds) + 1e-9
    assert a > 0.1 or b >= min(bounds) - 0.02


LONG = [pytest.param(COMPOSED, times, marks=pytest.mark.long) for times in (0.5, 1.0)]


@pytest.mark.parametrize(
    ("claim", "times"),
    [*((claim, times) for claim in (PLAIN, SEVERAL, SAMPLED) for times in (0.5, 1.0, 1.7)), (COMPOSED, 1.7), *LONG],
)
def test_strength_is_what_the_curve_was_drawn_with(claim, times):
    stronger = tuple(Mechanism(m.noise_multiplier / times, m.sample_rate, m.count) for m in claim)
    b = true_positives(stronger, 0.05)
    assert strength(claim, Corner(0.05, b)) == pytest.approx(times, rel=1e-3)
    assert epsilon_at(claim, times, 1e-5) == epsilon_of(stronger, 1e-5)


def test_the_ends_of_the_scale():
    assert strength(PLAIN, Corner(0.4, 0.3)) == 0.0  # less than who guesses
    assert strength(SAMPLED, Corner(0.01, 0.5)) == math.inf  # more were found than were sampled
    assert strength(COMPOSED, Corner(1e-9, 0.999999)) == 16.0  # more than is sought for
    assert epsilon_at(PLAIN, 0.0, 1e-5) == 0.0
    assert epsilon_at(PLAIN, math.inf, 1e-5) == math.inf
    assert true_positives(PLAIN, 0.0) == 0.0
    assert true_positives(COMPOSED, 1.0) == 1.0
    with pytest.raises(ArgumentError, match="nothing to audit"):
        strength((Mechanism(0.0),), Corner(0.1, 0.5))


def test_samples_that_find_no_room_are_allowed_for():
    cut = (Mechanism(0.5, 0.3, overflow=2.0**-10),)
    assert true_positives(cut, 0.1) == pytest.approx(true_positives(SAMPLED, 0.1) + 2.0**-10)
    b = true_positives(cut, 0.1)
    assert strength(cut, Corner(0.1, b)) == pytest.approx(1.0)
    assert strength(SAMPLED, Corner(0.1, b)) > 1.0
