"""The rule of the defaults: public numbers in, sane numbers out, for any table and budget."""

from __future__ import annotations

import inspect
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpmac.planning.plan import check_delta
from dpmac.privacy import Plan
from dpmac.training.defaults import (
    MIN_CLARITY_CLASSES,
    MIN_CLARITY_DEEP,
    MIN_CLARITY_NUMBERS,
    clarity,
    defaults_for,
    safe_delta,
    schedule_for,
    whitens,
)

SIZES = st.integers(1, 9).flatmap(lambda digits: st.integers(10 ** (digits - 1), 10**digits)).map(lambda n: max(n, 2))
NOISES = st.floats(0.3, 1e4)


def plan_of(n, sigma):
    cut = schedule_for(n)
    return Plan(n, cut.batch_size, cut.steps, sigma, safe_delta(n))


def test_the_rule_asks_for_public_numbers_alone():
    assert list(inspect.signature(schedule_for).parameters) == ["n", "whitened"]
    assert list(inspect.signature(defaults_for).parameters) == ["plan", "regression", "hidden", "drawn"]
    assert list(inspect.signature(safe_delta).parameters) == ["n"]


@given(SIZES, SIZES)
@example(2, 3)
@example(19_999, 20_001)
@example(39_999, 40_001)
@example(10**9 - 1, 10**9)
def test_steps_and_batches_are_within_sense_and_grow_with_the_rows(n, other):
    n, other = sorted((n, other))
    few, many = schedule_for(n), schedule_for(other)
    for size, cut in ((n, few), (other, many)):
        assert 0 < cut.batch_size <= min(size, 8192)
        assert 200 <= cut.steps <= 1000
    assert few.steps <= many.steps
    assert few.batch_size <= many.batch_size


@given(SIZES, NOISES, NOISES, st.booleans(), st.sampled_from([None, (), (8,)]), st.booleans())
@example(2, 0.3, 1e4, True, None, False)
@example(300, 30.0, 40.0, False, None, False)
@example(50_000, 0.3, 40.0, False, None, True)
def test_the_less_noise_the_more_is_dared(n, sigma, other, regression, hidden, drawn):
    """Network, rate and threshold grow with what can be heard, and stay within sense at both ends."""
    quiet, loud = sorted((sigma, other))
    much, little = (
        defaults_for(plan_of(n, s), regression=regression, hidden=hidden, drawn=drawn) for s in (quiet, loud)
    )
    assert sum(little.hidden) <= sum(much.hidden)
    for found in (much, little):
        assert 0 < found.learning_rate <= 0.05
        assert 0.05 <= found.threshold <= 6.0
        assert 0 < found.average < 1
        assert hidden is None or found.hidden == hidden
    if bool(little.hidden) == bool(much.hidden):
        assert little.learning_rate <= much.learning_rate
        assert little.threshold <= much.threshold


def test_classifiers_of_tables_are_whitened_from_so_many_rows_on():
    for n, regression, wanted in ((19_999, False, None), (20_000, False, 0.25), (10**6, True, None)):
        found = defaults_for(plan_of(n, 3.0), regression=regression, drawn=True)
        assert found.whitening == wanted
        assert whitens(n, regression=regression) == (wanted is not None)
        assert defaults_for(plan_of(n, 3.0), regression=regression).whitening is None
        assert defaults_for(plan_of(n, 3.0), regression=regression).bins == 12


def test_regressors_of_tables_have_units_beside_a_linear_model_and_two_layers_of_many_rows():
    def net(n, sigma, **how):
        found = defaults_for(plan_of(n, sigma), regression=True, **{"drawn": True, **how})
        return found.hidden, found.wide

    assert net(1_999, 1.0)[1] is False  # with so few rows as for arrays
    assert net(2_000, 1.0) == net(19_999, 1.0) == ((32,), True)
    assert net(20_000, 1.0) == ((64, 64), False)
    cut = schedule_for(20_000)
    edge = cut.batch_size * math.sqrt(cut.steps) / MIN_CLARITY_DEEP
    assert net(20_000, edge * 0.999) == ((64, 64), False)
    assert net(20_000, edge * 1.001) == ((32,), True)
    assert net(20_000, 1.0, hidden=(8,)) == ((8,), False)
    assert net(20_000, 1.0, drawn=False) == ((64,), False)


def test_hidden_units_stand_beside_a_linear_model_where_nobody_chose_them():
    plan = plan_of(50_000, 1.0)
    assert defaults_for(plan, regression=False, drawn=True).wide
    assert defaults_for(plan_of(50_000, 8.0), regression=False, drawn=True).bins == 24
    assert defaults_for(plan, regression=False, drawn=True).bins == 48
    for found in (
        defaults_for(plan, regression=False, drawn=True, hidden=(8,)),
        defaults_for(plan, regression=True, drawn=True),
        defaults_for(plan_of(200_000, 1.0), regression=False, drawn=True),
        defaults_for(plan_of(50_000, 1e4), regression=False, drawn=True),
        defaults_for(plan, regression=False),
    ):
        assert not found.wide
    large = defaults_for(plan_of(200_000, 1.0), regression=False, drawn=True)
    assert (large.bins, large.whitening, large.hidden) == (48, 0.5, (64,))


def test_clarity_is_the_threshold_over_the_noise_on_the_average():
    """By hand: T releases of b rows in the mean, each with noise sigma, averaged: 1 / (sigma / (b sqrt(T)))."""
    plan = Plan(1000, 100.0, 400, 5.0, 1e-5)
    noise_on_average = 5.0 / 100.0 / math.sqrt(400)
    assert clarity(plan) == pytest.approx(1 / noise_on_average)
    assert math.isinf(clarity(plan.with_noise(0.0)))


@pytest.mark.parametrize(("regression", "edge"), [(False, MIN_CLARITY_CLASSES), (True, MIN_CLARITY_NUMBERS)])
def test_a_hidden_layer_where_enough_is_heard(regression, edge):
    cut = schedule_for(20_000)
    sigma = cut.batch_size * math.sqrt(cut.steps) / edge
    assert defaults_for(plan_of(20_000, sigma * 0.999), regression=regression).hidden == (64,)
    assert defaults_for(plan_of(20_000, sigma * 1.001), regression=regression).hidden == ()
    assert defaults_for(plan_of(20_000, 0.0), regression=regression).hidden == (64,)  # without noise


@given(SIZES)
@example(2)
@example(10**4)
@example(10**5)
@example(10**9)
def test_a_safe_delta_is_below_one_over_n_by_ten(n):
    delta = safe_delta(n)
    assert delta <= min(1e-5, 0.1 / n * (1 + 1e-12))
    assert delta >= min(1e-5, 0.01 / n * (1 - 1e-12))  # and wastes at most a power of ten
    check_delta(delta, n)


@pytest.mark.parametrize(("n", "wanted"), [(2, 1e-5), (9_000, 1e-5), (20_000, 1e-6), (200_000, 1e-7), (10**9, 1e-10)])
def test_a_safe_delta_is_a_power_of_ten(n, wanted):
    assert safe_delta(n) == pytest.approx(wanted, rel=1e-12)
