"""Z-steps: four ways to find every example's coordinates, each row by itself."""

from dpmac.mac.zsteps.adam import AdamCoordinates
from dpmac.mac.zsteps.base import ZStep
from dpmac.mac.zsteps.error import ErrorCoordinates
from dpmac.mac.zsteps.fixed import FixedPrediction
from dpmac.mac.zsteps.gauss_newton import GaussNewton

Z_STEPS: dict[str, ZStep] = {
    "fixed": FixedPrediction(),
    "adam": AdamCoordinates(),
    "error": ErrorCoordinates(),
    "gauss-newton": GaussNewton(),
}
"""Every Z-step by name, with its default arguments. A new one is a file and a line here."""

__all__ = ["Z_STEPS", "AdamCoordinates", "ErrorCoordinates", "FixedPrediction", "GaussNewton", "ZStep"]
