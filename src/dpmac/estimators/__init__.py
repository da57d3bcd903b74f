"""The scikit-learn interface: thin estimators over the trainer."""

from dpmac.checks import PrivacyWarning
from dpmac.estimators.autoencoder import DPMACAutoencoder
from dpmac.estimators.base import PrivateEstimator
from dpmac.estimators.classifier import DPMACClassifier
from dpmac.estimators.guarantee import Privacy
from dpmac.estimators.images import DPMACImageClassifier
from dpmac.estimators.machine import Machine
from dpmac.estimators.module_classifier import DPMACModuleClassifier
from dpmac.estimators.module_regressor import DPMACModuleRegressor
from dpmac.estimators.pca import DPMACPCA
from dpmac.estimators.regressor import DPMACRegressor
from dpmac.estimators.rows import OnRows
from dpmac.estimators.search import DPMACSearch

ESTIMATORS: tuple[type[OnRows], ...] = (
    *(DPMACClassifier, DPMACRegressor, DPMACAutoencoder, DPMACPCA),
    *(DPMACModuleClassifier, DPMACModuleRegressor, DPMACImageClassifier),
)
"""Every estimator, for the contract tests. A new one is a file and a line here."""

__all__ = [
    "DPMACPCA",
    "ESTIMATORS",
    "DPMACAutoencoder",
    "DPMACClassifier",
    "DPMACImageClassifier",
    "DPMACModuleClassifier",
    "DPMACModuleRegressor",
    "DPMACRegressor",
    "DPMACSearch",
    "Machine",
    "Privacy",
    "PrivacyWarning",
    "PrivateEstimator",
]
