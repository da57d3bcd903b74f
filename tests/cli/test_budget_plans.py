"""``dpmac budget`` of a run of one's own: every release counts, at the delta that was asked."""

from __future__ import annotations

import math

import pytest

from dpmac import DPMACClassifier, DPMACRegressor
from dpmac.cli.budget import DEFAULT_EPSILON
from dpmac.privacy import Mechanism
from dpmac.privacy.accounting import epsilon_of

OWN = ["budget", "--n", "100", "--batch-size", "100"]  # of all rows: the accountant is quick then


def spent(sigma, delta, others=(), steps=3):
    return epsilon_of([*(Mechanism(other) for other in others), Mechanism(sigma, 1.0, steps)], delta)


@pytest.mark.parametrize("length", [["--steps", "3"], ["--epochs", "3"]])
@pytest.mark.parametrize("delta", [None, 1e-8])
@pytest.mark.parametrize("others", [(), (8.0,), (8.0, 0.9)])
def test_the_noise_meets_the_budget_with_all_that_is_released_beside(length, delta, others, run):
    more = [word for other in others for word in ("--also-gaussian", other)]
    more += [] if delta is None else ["--delta", delta]
    at = 1e-5 if delta is None else delta
    found = run(*OWN, *length, "--epsilon", "9", *more, "--json").json()
    assert (found["steps"], found["delta"], found["sample_rate"]) == (3, at, 1.0)
    assert found["epsilon_pld"] <= 9.0 < spent(found["noise_multiplier"] * 0.999, at, others)
    assert found["epsilon_pld"] == pytest.approx(spent(found["noise_multiplier"], at, others), rel=1e-4)
    asked = run(*OWN, *length, "--noise-multiplier", repr(found["noise_multiplier"]), *more, "--json").json()
    assert asked == found


def test_little_noise_costs_much_and_is_no_error(run):
    found = run(*OWN, "--steps", "1", "--noise-multiplier", "0.7", "--also-gaussian", "0.8", "--json").json()
    assert found["epsilon_pld"] == pytest.approx(spent(0.7, 1e-5, (0.8,), steps=1), rel=1e-4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps", "1", "--epsilon", "1", "--also-gaussian", "8", "--also-gaussian", "0"], "--also-gaussian="),
        (["--steps", "1", "--epsilon", "1", "--also-gaussian", "-2"], "noise_multiplier=-2.0"),
        (["--steps", "1", "--noise-multiplier", "-1"], "--noise-multiplier=-1.0"),
        (["--steps", "1", "--noise-multiplier", "nan"], "--noise-multiplier=nan"),
        (["--steps", "1"], "give one of the two"),
        (["--steps", "1", "--epsilon", "1", "--noise-multiplier", "1"], "give one of the two"),
        (["--steps", "1", "--epsilon", "inf"], "--epsilon=inf"),
        (["--steps", "1", "--epsilon", "1", "--delta", "0.01"], "delta=0.01"),
    ],
)
def test_what_cannot_be_planned_is_refused(words, message, run):
    done = run(*OWN, *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_the_table_rounds_up_and_says_what_it_is_of(run):
    found = run(*OWN, "--steps", "3", "--epsilon", "9", "--json").json()
    text = run(*OWN, "--steps", "3", "--epsilon", "9").out
    for name in ("noise_multiplier", "epsilon_pld", "epsilon_rdp"):
        assert f"{math.ceil(found[name] * 1e4) / 1e4:.4f}" in text
    assert "Privacy budget" in text
    assert "batch size" not in text


def test_an_estimator_is_planned_with_its_own_budget():
    """Which the help calls 2."""
    assert DPMACClassifier().epsilon == DPMACRegressor().epsilon == DEFAULT_EPSILON == 2.0


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan"])
def test_a_budget_of_nothing_is_refused_by_what_this_command_takes(epsilon, run):
    """No privacy at all, inf, is for the estimators to take: here there is nothing to plan then."""
    done = run("budget", "--n", "1100", "--epsilon", epsilon)
    assert (done.code, done.out) == (2, "")
    assert "(0.5 to 8 is usual)" in done.err
    assert "inf" not in done.err
