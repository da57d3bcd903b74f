"""The rule of the defaults: public numbers in, sane numbers out, for any table."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpmac.privacy import Plan
from dpmac.privacy.plan import check_delta
from dpmac.training.defaults import defaults_for, safe_delta

SIZES = st.integers(1, 9).flatmap(lambda digits: st.integers(10 ** (digits - 1), 10**digits)).map(lambda n: max(n, 2))


def test_the_rule_asks_for_the_number_of_rows_and_the_task_alone():
    assert list(inspect.signature(defaults_for).parameters) == ["n", "regression"]
    assert list(inspect.signature(safe_delta).parameters) == ["n"]
    for n in (300, 50_000):
        assert defaults_for(n, regression=True) == defaults_for(n, regression=True)
        assert defaults_for(n, regression=True) != defaults_for(n, regression=False)


@given(SIZES, SIZES, st.booleans())
@example(2, 3, True)
@example(9_999, 10_000, False)
@example(10**9 - 1, 10**9, False)
def test_steps_and_batches_are_within_sense_and_grow_with_the_rows(n, other, regression):
    n, other = sorted((n, other))
    few, many = defaults_for(n, regression=regression), defaults_for(other, regression=regression)
    for size, usual in ((n, few), (other, many)):
        assert 0 < usual.batch_size <= size
        assert 100 <= usual.steps <= 1000
        assert all(units >= 1 for units in usual.hidden)
        assert 0 < usual.average < 1
        assert min(usual.learning_rate, usual.threshold) > 0
        Plan(size, usual.batch_size, usual.steps, 1.0, safe_delta(size))  # what it gives can be planned
    assert few.steps <= many.steps
    assert few.batch_size <= many.batch_size
    assert sum(few.hidden) <= sum(many.hidden)


def test_few_rows_get_a_linear_classifier_and_many_a_hidden_layer():
    assert defaults_for(9_999, regression=False).hidden == ()
    assert defaults_for(10_000, regression=False).hidden == (64,)
    assert defaults_for(9_999, regression=True).hidden == (32,)


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
