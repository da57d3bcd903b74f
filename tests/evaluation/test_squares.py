"""Intervals of numbers' scores hold the truth as often as they say; mean squares are the nearest that shells allow."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import nnls

from dpmac.evaluation.squares import WEIGHTS, Squares, _Fit, mean_of_squares
from dpmac.methods.residuals import SHELLS

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from evaluation import AMOUNTS, Amounts, covered, evaluations

FOUND = arrays(np.float64, SHELLS, elements=st.floats(-0.02, 0.2))


@given(FOUND, st.floats(-0.05, 0.3), st.floats(1e-4, 0.02), st.floats(1e-4, 0.02))
def test_the_likeliest_shells_are_the_nearest_that_are_not_below_nothing(found, whole, noise, whole_noise):
    """By the Lawson-Hanson algorithm, which knows nothing of one number for all shells."""
    fit = _Fit(found, noise, whole, whole_noise)
    rows = np.vstack([np.eye(SHELLS) / noise, WEIGHTS / whole_noise])
    _, off = nnls(rows, np.append(found / noise, whole / whole_noise), maxiter=1000)
    assert fit.misfit(fit.best) == pytest.approx(off**2, rel=1e-5, abs=1e-7)


@given(FOUND, st.floats(0, 0.3), st.floats(1e-4, 0.02))
def test_an_interval_holds_what_is_likely(found, whole, noise):
    one = mean_of_squares(found, noise, whole, noise, 500)
    assert 0 <= one.low <= one.value <= one.high


def test_without_noise_it_is_the_mean_square():
    shells = np.zeros(SHELLS)
    shells[3], shells[5] = 0.3, 0.4
    exact = float(WEIGHTS @ shells)
    one = mean_of_squares(shells, 0.0, exact, 0.0, 10**12)
    assert one == Squares(pytest.approx(exact), pytest.approx(exact, rel=1e-4), pytest.approx(exact, rel=1e-4))


def test_large_errors_that_noise_may_hide_are_in_the_interval():
    """Nothing stands out, so the estimate is small; but the noise could hide one very large error in a hundred."""
    one = mean_of_squares(np.full(SHELLS, 0.004) * (np.arange(SHELLS) > 4), 0.005, 0.0, 0.005, 1000)
    assert one.value < 1e-3
    assert one.high > 0.007


@pytest.mark.parametrize("amounts", AMOUNTS, ids=lambda one: f"{one.errors} {one.size}")
def test_intervals_of_numbers_hold_the_truth_about_as_often_as_they_say(amounts, monkeypatch):
    monkeypatch.setattr(Amounts, "truth", lambda self: self.scores(*self.table(500_000, np.random.default_rng(0))))
    for name, (share, _, _) in covered(amounts, 10_000, 0.5, draws=40).items():
        assert share >= 0.85, name


@pytest.mark.long
@pytest.mark.parametrize("amounts", AMOUNTS, ids=lambda one: f"{one.errors} {one.size}")
@pytest.mark.parametrize(("n", "epsilon"), [(2000, 2.0), (10_000, 0.5)])
def test_intervals_of_numbers_hold_the_truth_in_nineteen_of_twenty(amounts, n, epsilon):
    """Those of squares have to allow for large errors that noise hides, and are too wide where there are none."""
    for name, (share, _, _) in covered(amounts, n, epsilon, draws=1000).items():
        assert 0.92 <= share <= (1.0 if name in ("rmse", "r2") else 0.975), name


def test_less_noise_is_a_narrower_interval():
    widths = []
    for epsilon in (0.5, 4.0):
        scores = [score for score, _ in evaluations(Amounts(), 2000, epsilon, 5)]
        widths.append(
            {name: np.mean([s.figures[name].high - s.figures[name].low for s in scores]) for name in ("rmse", "r2")}
        )
    assert widths[0]["rmse"] > 2 * widths[1]["rmse"]
    assert widths[0]["r2"] > 2 * widths[1]["r2"]
