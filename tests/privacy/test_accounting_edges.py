"""The ends of what an account takes, where one accountant stands for another, and what is said in the log."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism

from dpmac.checks import ArgumentError
from dpmac.planning import calibration
from dpmac.planning.calibration import calibrate
from dpmac.privacy import Mechanism, epsilon_of
from dpmac.privacy.accounting import MIN_MULTIPLIER, ROUNDOFF, trusted, with_overflow


def test_the_multipliers_that_are_named_are_taken_and_cost_what_they_should():
    for sigma in (0.01, 1e9):
        with np.errstate(divide="ignore"):  # a delta of 0 has a logarithm there
            exact = gaussian_mechanism.get_epsilon_gaussian(sigma, 1e-12)
        assert 0 < exact <= epsilon_of([Mechanism(sigma)], 1e-12) < math.inf
    assert Mechanism(0.0).noise_multiplier == 0
    for sigma in (0.00999, 1.001e9):
        with pytest.raises(ArgumentError, match=r"noise_multiplier=.*from 0.01 to 1e9, or 0"):
            Mechanism(sigma)


def test_a_sample_that_never_finds_room_is_no_mechanism():
    odd = Mechanism(1.0, 0.5, overflow=np.float16(0.5))
    assert type(odd.overflow) is float
    assert Mechanism(1.0, 0.5, overflow=1.0 - 2**-53).overflow < 1
    for chance in (1.0, 1.5, -1e-9, math.nan):
        with pytest.raises(ArgumentError, match="overflow="):
            Mechanism(1.0, 0.5, overflow=chance)


def test_rdp_stands_in_where_more_than_a_tenth_of_delta_would_be_set_aside():
    mechanisms = [Mechanism(1.0, 0.5, 30), Mechanism(2.0, 0.5, 69)]
    spare = 100 * ROUNDOFF  # one for each release, and one
    assert trusted(mechanisms, 10.5 * spare) == ("pld", pytest.approx(9.5 * spare, rel=1e-9))
    assert trusted(mechanisms, 9.5 * spare) == ("rdp", 9.5 * spare)


def test_only_samples_that_may_find_no_room_count_twice():
    crowded, roomy = Mechanism(1.0, 0.1, 10, overflow=0.01), Mechanism(3.0, 0.2, 5)
    assert with_overflow([crowded, roomy], 1e-5) == [([Mechanism(0.5, 0.1, 10), roomy], 1e-5)]


def test_half_of_a_multiplier_counts_down_to_the_least_that_there_is():
    for sigma, half in ((2 * MIN_MULTIPLIER, MIN_MULTIPLIER), (0.0199, 0.0)):
        (((m,), _),) = with_overflow([Mechanism(sigma, 0.1, 10, overflow=0.01)], 1e-5)
        assert m.noise_multiplier == half


def test_a_release_without_noise_among_others_costs_everything_by_either_accountant():
    some = [Mechanism(5.0 + i, 0.1, 2) for i in range(7)]
    for bare in (Mechanism(0.0), Mechanism(0.0, 0.1), Mechanism(0.0, 0.1, 3, overflow=0.01)):
        for accountant in ("pld", "rdp"):
            assert epsilon_of([*some, bare], 1e-5, accountant) == math.inf
    assert epsilon_of([Mechanism(5.0), Mechanism(0.0, count=0)], 1e-5) == epsilon_of([Mechanism(5.0)], 1e-5)


def test_a_rate_that_is_all_but_1_is_1():
    for accountant in ("pld", "rdp"):
        nearly = epsilon_of([Mechanism(5.0, 1.0 - 1e-13, 3)], 1e-7, accountant)
        assert nearly == epsilon_of([Mechanism(5.0, 1.0, 3)], 1e-7, accountant)


def test_a_calibration_answers_down_to_twice_the_least_multiplier():
    """So that half of it, which samples without room are taken for, is still one."""
    epsilon = gaussian_mechanism.get_epsilon_gaussian(0.0202, 1e-5)
    assert calibrate(lambda s: [Mechanism(s)], epsilon, 1e-5) == pytest.approx(0.0202, rel=2e-4)
    with pytest.raises(ArgumentError, match="almost no noise"):
        calibrate(lambda s: [Mechanism(s)], 1.1 * epsilon, 1e-5)


def test_an_answer_of_the_search_that_does_not_meet_the_budget_is_not_given(monkeypatch):
    """So nothing in the search need be trusted: here it always answers 1."""
    monkeypatch.setattr(calibration, "least", lambda *_, **__: (1.0, -1.0))
    enough = epsilon_of([Mechanism(1.0)], 1e-5)
    assert calibrate(lambda s: [Mechanism(s)], enough, 1e-5) == 1.0
    with pytest.raises(RuntimeError, match=r"answered 1\.0, which does not meet the budget"):
        calibrate(lambda s: [Mechanism(s)], enough * (1 - 1e-12), 1e-5)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, "2"])
def test_a_budget_that_is_none_is_named(epsilon):
    with pytest.raises(ArgumentError, match=r"epsilon=.*give a number above 0"):
        calibrate(lambda s: [Mechanism(s)], epsilon, 1e-5)


def test_a_log_is_as_loud_after_the_moments_as_before():
    logger = logging.getLogger("absl")
    before = logger.level
    try:
        logger.setLevel(logging.INFO)
        epsilon_of([Mechanism(0.0123, 0.01, 3)], 1e-11, "rdp")
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(before)


def test_full_samples_take_their_chance_from_delta_and_no_more():
    steps = [Mechanism(1.0, 0.1, 30, overflow=1e-9), Mechanism(2.0, 0.2, 7, overflow=3e-9)]
    ((plain, left),) = with_overflow(steps, 1e-5)
    assert [one.overflow for one in plain] == [0.0, 0.0]
    assert 1e-5 - left == pytest.approx(51e-9, rel=1e-8)
    assert 1e-5 - left >= 51e-9
