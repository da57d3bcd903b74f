"""scikit-learn's own checks of every estimator."""

from __future__ import annotations

import math

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpmac import DPMACPCA, DPMACAutoencoder, DPMACClassifier, DPMACRegressor
from dpmac.estimators import ESTIMATORS, PrivacyWarning

PLAIN = [
    DPMACClassifier((), epsilon=math.inf, epochs=20, random_state=0, learning_rate=0.2),
    DPMACAutoencoder(method="closed-form", epsilon=math.inf, random_state=0),
    DPMACAutoencoder(method="gradient", epsilon=math.inf, epochs=2, random_state=0),
    DPMACPCA(epsilon=math.inf, random_state=0),
]
PRIVATE = [
    DPMACClassifier((16,), epochs=5, random_state=0),
    DPMACRegressor((16,), target_range=(-300, 300), epochs=5, random_state=0),
    DPMACAutoencoder(method="closed-form", random_state=0),
    DPMACAutoencoder(method="gradient", epochs=5, random_state=0),
    DPMACPCA(random_state=0),
]


@parametrize_with_checks(PLAIN)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@pytest.mark.filterwarnings(f"ignore::{PrivacyWarning.__module__}.{PrivacyWarning.__name__}")
@parametrize_with_checks(PRIVATE)
def test_scikit_learns_own_checks_of_a_private_model(estimator, check):
    check(estimator)


def test_no_estimator_is_left_out():
    assert {type(estimator) for estimator in PRIVATE} == set(ESTIMATORS)
