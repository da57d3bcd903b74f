"""The scikit-learn front: thin estimators over the trainer."""

from dpmac.estimators.base import Privacy, PrivateEstimator
from dpmac.estimators.classifier import DPMACClassifier

__all__ = ["DPMACClassifier", "Privacy", "PrivateEstimator"]
