"""scikit-learn's own checks of every estimator."""

from __future__ import annotations

import math

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpmac import (
    DPMACPCA,
    DPMACAutoencoder,
    DPMACClassifier,
    DPMACImageClassifier,
    DPMACModuleClassifier,
    DPMACModuleRegressor,
    DPMACRegressor,
)
from dpmac.estimators import ESTIMATORS, PrivacyWarning
from small_modules import Padded, skip_if_weighed


class Sized(DPMACModuleClassifier):
    """Its module gets as many outputs as there are classes, whichever data a check has; all else is as it is."""

    def _start(self, given, targets, *more):
        self._classes_here = targets.shape[1]
        try:
            return super()._start(given, targets, *more)
        finally:
            del self._classes_here

    @property
    def _of_module(self):
        return {"outputs": getattr(self, "_classes_here", 1)}


SINGLE = "a module computes in single precision, which rounds by the number of rows beside"
MODULES = [
    DPMACModuleRegressor(Padded, target_range=(-300, 300), epsilon=math.inf, epochs=2, random_state=0),
]
LONGER = [
    Sized(Padded, epsilon=math.inf, epochs=20, random_state=0, learning_rate=0.2),
]

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
    skip_if_weighed(check)
    check(estimator)


@parametrize_with_checks(MODULES)
def test_scikit_learns_own_checks_of_modules(estimator, check):
    skip_if_weighed(check)
    if check.func.__name__ == "check_methods_subset_invariance":
        pytest.skip(SINGLE)
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(LONGER)
def test_scikit_learns_own_checks_of_modules_that_must_learn(estimator, check):
    test_scikit_learns_own_checks_of_modules(estimator, check)


@pytest.mark.long
@pytest.mark.filterwarnings(f"ignore::{PrivacyWarning.__module__}.{PrivacyWarning.__name__}")
@parametrize_with_checks(PRIVATE)
def test_scikit_learns_own_checks_of_a_private_model(estimator, check):
    skip_if_weighed(check)
    check(estimator)


def test_no_estimator_is_left_out():
    of_modules = {type(estimator) for estimator in (*MODULES, *LONGER)}
    without = {DPMACModuleClassifier, DPMACImageClassifier}  # the second takes no tables, which the checks hand it
    assert {type(estimator) for estimator in PRIVATE} | of_modules == {*ESTIMATORS, Sized} - without
