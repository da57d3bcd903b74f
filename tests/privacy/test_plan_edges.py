"""The ends of what a plan takes, what it says of itself, and from where on it warns."""

from __future__ import annotations

import math
import warnings

import pytest
from dp_accounting import gaussian_mechanism

from dpmac.checks import ArgumentError, PrivacyWarning
from dpmac.planning.plan import steps_for
from dpmac.privacy import Mechanism, Plan, epsilon_of
from dpmac.privacy.sampling import MIN_RATE
from dpmac.randomness import SeededNoise


def test_a_plan_is_private_if_everything_in_it_has_noise():
    assert Plan(100, 10, 5, 0.5, 1e-5).private
    assert Plan(100, 10, 5, 0.5, 1e-5, (Mechanism(0.5), Mechanism(0.7))).private
    assert not Plan(100, 10, 5, 0.0, 1e-5).private
    assert not Plan(100, 10, 5, 0.5, 1e-5, (Mechanism(0.5), Mechanism(0.0))).private


def test_a_step_is_one_release_and_a_run_all_of_them():
    plan = Plan(100, 10, 7, 0.5, 1e-5)
    assert plan.step().count == 1
    assert [m.count for m in plan.mechanisms()] == [7]


def test_numbers_of_rows_and_of_steps_are_whole_afterwards():
    plan = Plan(1000.0, 10, 7.0, 0.5, 1e-5)
    assert [type(value) for value in (plan.n, plan.steps)] == [int, int]


@pytest.mark.parametrize("delta", [0.0, 1e-13, math.nan, -1e-5, 1.0, "1e-5", True, None])
def test_a_delta_that_is_none_is_refused_by_the_plan_itself(delta):
    with pytest.raises(ArgumentError, match="delta="):
        Plan(100, 10, 5, 1.0, delta)


def test_delta_must_be_below_1_over_n():
    assert Plan(100, 10, 5, 1.0, 0.00999).delta == 0.00999
    with pytest.raises(ArgumentError, match=r"delta=0\.01: it must be below 1/n"):
        Plan(100, 10, 5, 1.0, 0.01)


@pytest.mark.parametrize("batch_size", [0, -1, math.nan, math.inf, 101, 1e-8])
def test_a_batch_that_is_none_is_refused_by_the_plan_itself(batch_size):
    with pytest.raises(ArgumentError, match="batch_size="):
        Plan(100, batch_size, 5, 1.0, 1e-5)


def test_less_than_a_row_a_step_is_a_batch():
    assert Plan(100, 0.5, 5, 1.0, 1e-5).sample_rate == 0.005
    assert Plan(10, 10 * MIN_RATE, 5, 1.0, 1e-5).sample_rate == MIN_RATE


def test_the_least_table_has_two_rows():
    assert Plan(2, 1, 1, 1.0, 1e-5).n == 2
    assert steps_for(2, 1, None, 1) == 2


@pytest.mark.parametrize(("n", "batch", "epochs", "steps"), [(10, 10, 1, 1), (100, 0.5, 1, 200), (100, 30, 1, 4)])
def test_epochs_are_enough_steps_for_so_many_passes(n, batch, epochs, steps):
    assert steps_for(n, batch, None, epochs) == steps
    assert (steps - 1) * batch < epochs * n <= steps * batch


@pytest.mark.parametrize(
    ("change", "name"),
    [*(({"n": n}, "n") for n in (0, 1, 2.5, "10")), *(({"batch_size": b}, "batch_size") for b in (0, -1, "1"))],
)
def test_steps_are_not_counted_from_what_is_no_number(change, name):
    with pytest.raises(ArgumentError, match=f"{name}="):
        steps_for(**({"n": 10, "batch_size": 5, "steps": None, "epochs": 1} | change))


def test_a_budget_that_is_spent_to_the_last_digit_is_spent():
    before = [Mechanism(4.0 + i) for i in range(7)]
    given = {"delta": 1e-9, "n": 1000, "batch_size": 1000, "steps": 20, "before": before}
    spent = epsilon_of(before, 1e-9)
    for epsilon in (spent, math.nextafter(spent, 0.0), spent * (1 - 1e-9)):
        with pytest.raises(ArgumentError, match="what is released before training costs"):
            Plan.for_budget(epsilon=epsilon, **given)


def test_the_chance_of_no_room_is_never_above_one_in_a_million_nor_above_what_is_set_aside():
    """Nor a quarter of that: less room is less work."""
    for delta in (0.04, 1e-3, 1e-6, 1e-12):
        for steps in (1, 1000):
            plan = Plan(20, 5, steps, 1.0, delta)
            most = min(5e-5 * delta / steps, 1e-6)
            assert most / 4 < plan.overflow <= most
            assert plan.sampler(SeededNoise(0)).overflow == plan.overflow


# --- crumbs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [2.0, 80.0])  # an epsilon of 2, and of a twentieth
@pytest.mark.parametrize(("times", "warned"), [(10.5, True), (15.0, True), (9.5, False), (2.0, False)])
def test_crumbs_are_ten_times_the_noise_that_the_whole_budget_would_ask_for(sigma, times, warned):
    """On all rows the noise is known: 1 / s^2 adds up. What is left for twenty steps is ``left`` of it."""
    before, left = Mechanism(sigma), 1 / sigma**2 / (times**2 - 1)
    whole = 1 / math.sqrt(1 / sigma**2 + left)
    epsilon = gaussian_mechanism.get_epsilon_gaussian(whole, 1e-5) + 1e-8
    given = {"epsilon": epsilon, "delta": 1e-5, "n": 1000, "batch_size": 1000, "steps": 20, "before": (before,)}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        plan = Plan.for_budget(**given)
    assert plan.noise_multiplier == pytest.approx(math.sqrt(20 / left), rel=0.01)
    assert [w.category for w in seen] == [PrivacyWarning] * warned
