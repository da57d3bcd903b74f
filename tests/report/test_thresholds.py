"""Thresholds for a rare outcome, against scikit-learn's counts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from dpmac.checks import ArgumentError
from dpmac.report.thresholds import at_threshold, thresholds_to_choose


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(0)
    p = draw.beta(1, 11, 3000)
    return draw.random(3000) < p, p


@pytest.mark.parametrize("threshold", [0.0, 0.01, 0.08, 0.5, 1.0])
def test_rates_are_those_of_the_counts(rows, threshold):
    came, p = rows
    (tn, fp), (fn, tp) = confusion_matrix(came, p >= threshold, labels=[False, True])
    found = at_threshold(came, p, threshold)
    assert found.sensitivity == tp / (tp + fn)
    assert found.specificity == tn / (tn + fp)
    assert found.called == pytest.approx((tp + fp) / len(p))
    assert found.precision == (tp / (tp + fp) if tp + fp else None)


def test_rates_of_nobody_are_none():
    found = at_threshold([True, True], [0.2, 0.8], 0.5)
    assert (found.specificity, found.sensitivity) == (None, 0.5)
    assert at_threshold([False, False], [0.2, 0.8], 0.9).sensitivity is None


def test_the_choice_lies_about_the_base_rate(rows):
    came, p = rows
    found = [one.threshold for one in thresholds_to_choose(came, p)]
    assert found == sorted(found)
    assert 0.5 in found
    assert min(abs(t - came.mean()) for t in found) < 0.06 * came.mean()
    assert min(found) < came.mean() / 2 < 2 * came.mean() < max(found)
    sensitivities = [one.sensitivity for one in thresholds_to_choose(came, p)]
    assert sensitivities == sorted(sensitivities, reverse=True)
    assert [one.threshold for one in thresholds_to_choose([False] * 9, [0.1] * 9)] == [0.5]
    common = [one.threshold for one in thresholds_to_choose([True] * 9 + [False], [0.5] * 10)]
    assert all(0 < t < 1 for t in common)


def test_what_is_no_probability_is_refused(rows):
    for threshold in (-0.1, 1.1, float("nan"), "x"):
        with pytest.raises(ArgumentError, match="threshold"):
            at_threshold(*rows, threshold)
    with pytest.raises(ArgumentError, match="probabilities"):
        at_threshold([True], [0.1, 0.2], 0.5)
