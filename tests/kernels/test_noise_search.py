"""Where a calibration looks: found, close, monotone; every end of the range named; the same for a million steps."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from dpmac.checks import ArgumentError
from dpmac.planning.calibration import calibrate
from dpmac.planning.search import Range, UnreachableError, least
from dpmac.privacy import Mechanism, Plan, epsilon_of

WITHIN = Range(0.02, 1e7)


@given(
    root=st.floats(0.05, 1e5),
    power=st.floats(0.3, 6.0),
    start=st.floats(0.02, 1e7),
    slope=st.floats(-5, -0.2),
    jump=st.sampled_from([1.0, 1.5, 1e3]),
)
@example(root=5.0, power=6.0, start=0.125, slope=-5.0, jump=1e3)  # a line over the jump: ten times the tolerance
@example(root=7.997456715707355, power=1.0380822806702326, start=0.125, slope=-4.277329474368358, jump=1e3)
def test_the_least_is_found_from_anywhere_over_any_slope_and_any_jump(root, power, start, slope, jump):
    asked = []

    def cost(s):
        asked.append(s)
        return (root / s) ** power * (jump if s < root else 1.0)

    found, _ = least(cost, 1.0, start, slope, 1e-4, WITHIN)
    assert found in asked
    assert root * (1 - 1e-12) <= found <= root * (1 + 1.1e-4)  # the cost itself rounds
    assert len(asked) < 60


@pytest.mark.parametrize(("root", "above"), [(1e8, True), (1e-3, False)])
def test_a_root_out_of_range_is_said_to_be(root, above):
    with pytest.raises(UnreachableError) as end:
        least(lambda s: root / s, 1.0, 1.0, -1.0, 1e-4, WITHIN)
    assert end.value.above == above


BUDGET = {
    "epsilon": st.floats(0.02, 60.0),
    "q": st.floats(1e-3, 0.9),
    "count": st.integers(1, 2000),
    "delta": st.sampled_from([1e-5, 1e-7, 1e-10]),
}


@settings(max_examples=2, deadline=None, phases=[Phase.generate])
@given(**BUDGET)
def test_a_calibration_meets_its_budget_wastes_nothing_and_falls_with_epsilon(epsilon, q, count, delta):
    assert_met_and_not_wasted(epsilon, q, count, delta)


@pytest.mark.long
@settings(max_examples=10, deadline=None, phases=[Phase.generate])
@given(**BUDGET)
def test_more_calibrations_meet_their_budgets(epsilon, q, count, delta):
    assert_met_and_not_wasted(epsilon, q, count, delta)


def assert_met_and_not_wasted(epsilon, q, count, delta):
    def make(s):
        return [Mechanism(s, q, count)]

    found = calibrate(make, epsilon, delta)
    assert epsilon_of(make(found), delta) <= epsilon
    assert epsilon_of(make(found * (1 - 6e-4)), delta) > epsilon
    assert calibrate(make, 1.01 * epsilon, delta) <= found * (1 + 2e-4)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n", "batch_size", "steps"),
    [
        (2.0, 1e-5, 60_000, 1000, 1_000_000),
        pytest.param(0.01, 1e-5, 60_000, 1000, 1_000_000, marks=pytest.mark.long),
        pytest.param(100.0, 1e-5, 60_000, 1000, 1_000_000, marks=pytest.mark.long),
        pytest.param(2.0, 1e-5, 60_000, 1000, 30, marks=pytest.mark.long),
        (100.0, 1e-8, 1_000_000, 1, 500),
        (1.0, 1e-8, 1_000_000, 1_000_000, 1_000_000),
        (1.0, 1e-10, 1_000_000, 100, 1_000_000),
    ],
)
def test_what_did_not_come_back_comes_back(epsilon, delta, n, batch_size, steps):
    """Ten seconds are for a loaded machine: benchmarks/planning.py has the times."""
    begin = time.process_time()
    plan = Plan.for_budget(epsilon=epsilon, delta=delta, n=n, batch_size=batch_size, steps=steps)
    assert time.process_time() - begin < 10
    assert 0.9 * epsilon < plan.epsilon() <= epsilon


def test_what_has_no_answer_says_so_as_quickly():
    begin = time.process_time()
    with pytest.raises(ArgumentError, match="almost no noise"):
        calibrate(lambda s: [Mechanism(s, 0.01, 3)], 9e5, 1e-5)
    late = Mechanism(200.0)
    least_of_all = epsilon_of([late], 1e-6)
    with pytest.raises(ArgumentError, match="no noise meets this"):
        calibrate(lambda s: [late, Mechanism(s, 0.5, 1000)], least_of_all * (1 - 1e-6), 1e-6)
    assert time.process_time() - begin < 10
    assert math.isfinite(least_of_all)
