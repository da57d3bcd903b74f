"""The method of auxiliary coordinates: Z-step, expansion, W-step."""

from dpmac.mac.coordinates import AdamCoordinates, FixedPrediction, ZStep
from dpmac.mac.error_coordinates import ErrorCoordinates
from dpmac.mac.expansion import Expansion, FirstOrder, SecondOrder, first_order
from dpmac.mac.gauss_newton import GaussNewton
from dpmac.mac.layers import Coordinates
from dpmac.mac.polynomial import Polynomial
from dpmac.mac.projected import Projected
from dpmac.mac.weights import Averaged, ConjugateGradient, OptimizerStep, RidgeSolve, StepDecay, WStep, constant, cosine

__all__ = [
    "AdamCoordinates",
    "Averaged",
    "ConjugateGradient",
    "Coordinates",
    "ErrorCoordinates",
    "Expansion",
    "FirstOrder",
    "FixedPrediction",
    "GaussNewton",
    "OptimizerStep",
    "Polynomial",
    "Projected",
    "RidgeSolve",
    "SecondOrder",
    "StepDecay",
    "WStep",
    "ZStep",
    "constant",
    "cosine",
    "first_order",
]
