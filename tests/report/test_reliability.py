"""Predicted against observed: scikit-learn's curve as the oracle, and what chance alone would show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.calibration import calibration_curve

from dpmac.checks import ArgumentError
from dpmac.report.on_scores import _top
from dpmac.report.reliability import Bin, reliability

PROBABILITIES = arrays.arrays(np.float64, st.integers(2, 60), elements=st.floats(0, 1))


def drawn(rows, seed=0):
    """Probabilities, and outcomes that come about with them."""
    draw = np.random.default_rng(seed)
    p = draw.beta(0.5, 1.5, rows)
    return draw.random(rows) < p, p


@pytest.mark.parametrize("bins", [1, 4, 10])
def test_bins_are_those_of_scikit_learn(bins):
    happened, p = drawn(700)
    found = reliability(happened, p, bins)
    observed, predicted = calibration_curve(happened, p, n_bins=bins)
    assert [b.observed for b in found.bins] == pytest.approx(observed)
    assert [b.predicted for b in found.bins] == pytest.approx(predicted)


@given(PROBABILITIES, st.integers(1, 20), st.randoms())
def test_every_row_is_in_one_bin_and_the_error_is_between_its_bounds(p, bins, draw):
    happened = np.array([draw.random() < 0.5 for _ in p])
    found = reliability(happened, p, bins)
    assert sum(b.rows for b in found.bins) == len(p)
    for b in found.bins:
        assert b.rows > 0
        assert b.low - 1e-12 <= b.predicted <= b.high + 1e-12
        assert 0 <= b.observed <= 1
    assert abs(happened.mean() - p.mean()) - 1e-9 <= found.error <= np.abs(happened - p).mean() + 1e-9


def test_what_is_right_is_off_by_chance_and_what_is_sure_of_itself_by_more():
    trials = [reliability(*drawn(2000, seed)) for seed in range(60)]
    errors, by_chance = np.array([t.error for t in trials]), np.array([t.error_by_chance for t in trials])
    assert errors.mean() == pytest.approx(by_chance.mean(), rel=0.08)
    happened, p = drawn(2000)
    odds = (p / (1 - p)) ** 2
    bold = reliability(happened, odds / (1 + odds))
    assert bold.error > 3 * bold.error_by_chance


def test_edges_and_one_sided_outcomes():
    found = reliability([True, False, True], [0.0, 0.5, 1.0], bins=2)
    assert [(b.low, b.high, b.rows) for b in found.bins] == [(0.0, 0.5, 1), (0.5, 1.0, 2)]
    assert (found.bins[0].predicted, found.bins[0].observed, found.bins[0].chance) == (0.0, 1.0, 0.0)
    assert found.error == pytest.approx((1 + 2 * 0.25) / 3)


@pytest.mark.parametrize(
    ("happened", "p", "bins", "name"),
    [
        ([True], [0.1, 0.2], 10, "probabilities"),
        ([], [], 10, "probabilities"),
        ([True], [1.5], 10, "probabilities"),
        ([True], [float("nan")], 10, "probabilities"),
        ([True], [0.5], 0, "bins"),
    ],
)
def test_bad_arguments_are_named(happened, p, bins, name):
    with pytest.raises(ArgumentError, match=f"^{name}="):
        reliability(happened, p, bins)


@pytest.mark.parametrize(("most", "top"), [(0.031, 0.05), (0.12, 0.2), (0.5, 0.5), (0.51, 1.0), (1.0, 1.0)])
def test_the_drawing_of_a_rare_outcome_is_not_all_in_one_corner(most, top):
    assert _top([Bin(0.0, 1.0, 9, 0.01, most), Bin(0.0, 1.0, 9, 0.02, 0.01)]) == top
    assert _top([Bin(0.0, 1.0, 9, most, 0.0)]) == top
