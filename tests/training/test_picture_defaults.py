"""The defaults of classifiers of pictures: batches, steps, directions and rates from public numbers."""

from __future__ import annotations

import math

import pytest

from dpmac.planning.plan import Plan
from dpmac.priors.directions import most_worth_it, worth_it
from dpmac.training.pictures import picture_defaults, picture_directions, picture_schedule

BOTH = 11_393  # features of scattering and the encoder, of a grey picture
ROWS = (2, 3, 30, 300, 1_437, 5_000, 30_000, 60_000, 10**6)
EPSILONS = (0.1, 0.5, 2.0, 8.0, math.inf)


@pytest.mark.parametrize("n", ROWS)
def test_a_schedule_can_be_planned_for_any_rows(n):
    for epsilon in EPSILONS:
        schedule = picture_schedule(n, epsilon)
        plan = Plan(n, schedule.batch_size, schedule.steps, 1.0, 1e-5 / n)
        assert 1 <= plan.batch_size <= 16_384
        assert plan.sample_rate <= 0.5
        assert 1 <= plan.steps <= 800
    assert schedule == picture_schedule(n, 1e9)  # no privacy, and hardly any


def test_few_rows_are_in_half_of_the_batches_and_many_in_a_thirtieth():
    assert picture_schedule(300, 2.0) == picture_schedule(300, 0.5)
    assert picture_schedule(300, 2.0).batch_size == 150
    assert picture_schedule(300, 2.0).steps == 400
    assert picture_schedule(60_000, 0.5) == picture_schedule(60_000, 2.0)
    assert picture_schedule(60_000, 2.0).batch_size == 2_000
    assert picture_schedule(60_000, 8.0).batch_size == 4_000
    assert {picture_schedule(60_000, epsilon).steps for epsilon in EPSILONS} == {800}


def test_directions_grow_with_rows_and_epsilon_between_1000_and_4000():
    assert [picture_directions(60_000, epsilon, BOTH) for epsilon in (0.5, 2.0, 8.0)] == [2_000, 3_000, 4_000]
    found = [picture_directions(n, 2.0, BOTH) for n in ROWS]
    assert found == sorted(found)
    assert found[:5] == [1_000] * 5  # of few pictures
    assert found[-1] == 4_000
    assert picture_directions(2, 1e-9, BOTH) == 1_000
    for features in (10, 1_500, 1_501, 3_969, 7_424):  # the default never asks for all eigenvalues
        kept = picture_directions(60_000, 8.0, features)
        assert kept == max(1_000, most_worth_it(features))
        assert kept == 1_000 or worth_it(features, kept)


def test_a_rate_goes_as_far_in_more_steps():
    plan = Plan(60_000, 2_000, 200, 1.0, 1e-5)
    rates = [picture_defaults(Plan(60_000, 2_000, steps, 1.0, 1e-5), None).learning_rate for steps in (1, 200, 800)]
    assert rates == [0.03, 0.02, 0.01]
    assert picture_defaults(plan, None).hidden == ()
    assert picture_defaults(plan, (5,)).hidden == (5,)
    assert picture_defaults(plan, None).penalty == 0.0
    assert picture_defaults(plan.with_noise(0.0), None).penalty > 0.0
