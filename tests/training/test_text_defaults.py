"""The rule for tables of texts: it changes what it says it does, by public numbers, and nothing else."""

from __future__ import annotations

import inspect

import pytest

from dpmac import Plan
from dpmac.training.defaults import defaults_for
from dpmac.training.texts import MIN_ROWS, text_defaults


def plan_of(n, noise=4.0):
    return Plan(n=n, batch_size=n / 10, steps=1000, noise_multiplier=noise, delta=1e-6)


def asked(n, regression, free=True, hidden=None, drawn=True):
    plan = plan_of(n)
    found = defaults_for(plan, regression=regression, hidden=hidden, drawn=drawn)
    return found, text_defaults(found, plan, regression=regression, free=free)


def test_it_follows_from_public_numbers():
    assert list(inspect.signature(text_defaults).parameters) == ["found", "plan", "regression", "free"]


@pytest.mark.parametrize("regression", [False, True])
def test_few_rows_are_whitened_and_linear(regression):
    before, after = asked(8_000, regression)
    assert before.whitening is None
    assert after.whitening == 0.25
    assert after.hidden == ()
    assert after.bins == before.bins == 12


@pytest.mark.parametrize("regression", [False, True])
def test_what_stays(regression):
    few = asked(MIN_ROWS - 1, regression)
    assert few[0] == few[1]
    before, after = asked(50_000, regression)
    if regression:  # other tables of so many rows are whitened only where much is heard
        assert (before.whitening, after.whitening, after.hidden, after.wide) == (None, 0.25, (), False)
    else:
        assert before.whitening is not None
        assert before == after
    given = asked(8_000, regression, free=False, hidden=(7,))[1]
    assert given.hidden == (7,)
    assert given.whitening == 0.25


def test_a_regressors_steps_are_shorter_on_longer_inputs():
    before, after = asked(8_000, regression=True)
    assert after.learning_rate < before.learning_rate / 2
    classes = asked(8_000, regression=False)
    assert classes[1].learning_rate == classes[0].learning_rate
