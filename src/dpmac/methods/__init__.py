"""Private methods that need one release or two, and DP-SGD: all through the same release as training."""

from dpmac.mac.expansions import Expansion
from dpmac.methods.base_rates import BaseRates
from dpmac.methods.calibration import Calibration
from dpmac.methods.closed_form import ClosedForm, ClosedFormAutoencoder
from dpmac.methods.dpsgd import Gradients
from dpmac.methods.histogram import NormHistogram
from dpmac.methods.linear_path import follow_linear_path, linear_autoencoder
from dpmac.methods.mean import DPMean, ReleasedMean
from dpmac.methods.merits import Score
from dpmac.methods.pca import DPPCA, ReleasedPCA
from dpmac.methods.residuals import ResidualScale
from dpmac.methods.ridge import linear_classifier

EXPANSIONS: dict[str, Expansion] = {"gradients": Gradients()}
"""The expansions of this package by name, for the contract tests."""

__all__ = [
    "DPPCA",
    "EXPANSIONS",
    "BaseRates",
    "Calibration",
    "ClosedForm",
    "ClosedFormAutoencoder",
    "DPMean",
    "Gradients",
    "NormHistogram",
    "ReleasedMean",
    "ReleasedPCA",
    "ResidualScale",
    "Score",
    "follow_linear_path",
    "linear_autoencoder",
    "linear_classifier",
]
