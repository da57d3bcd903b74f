"""The scikit-learn front: thin estimators over the trainer."""

from dpmac.estimators.base import PrivateEstimator
from dpmac.estimators.classifier import DPMACClassifier
from dpmac.estimators.guarantee import Privacy
from dpmac.estimators.regressor import DPMACRegressor

ESTIMATORS: tuple[type[PrivateEstimator], ...] = (DPMACClassifier, DPMACRegressor)
"""Every estimator, for the contract tests. A new one is a file and a line here."""

__all__ = ["ESTIMATORS", "DPMACClassifier", "DPMACRegressor", "Privacy", "PrivateEstimator"]
