"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import math

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpmac import DPMACClassifier


@parametrize_with_checks([DPMACClassifier((), epsilon=math.inf, epochs=40, random_state=0, learning_rate=0.1)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks([DPMACClassifier((16,), epochs=5, random_state=0)])
def test_scikit_learns_own_checks_of_a_private_model(estimator, check):
    check(estimator)
