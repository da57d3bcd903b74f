"""The scikit-learn front: thin estimators over the trainer."""

from dpmac.estimators.base import Privacy, PrivateEstimator
from dpmac.estimators.classifier import DPMACClassifier
from dpmac.estimators.regressor import DPMACRegressor

__all__ = ["DPMACClassifier", "DPMACRegressor", "Privacy", "PrivateEstimator"]
