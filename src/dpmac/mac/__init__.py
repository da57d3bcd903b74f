"""The method of auxiliary coordinates: Z-step, expansion, W-step."""

from dpmac.mac.coordinates import AdamCoordinates, FixedPrediction, ZStep
from dpmac.mac.expansion import first_order, shapes_of
from dpmac.mac.layers import Coordinates
from dpmac.mac.weights import OptimizerStep, StepDecay, WStep, constant, cosine

__all__ = [
    "AdamCoordinates",
    "Coordinates",
    "FixedPrediction",
    "OptimizerStep",
    "StepDecay",
    "WStep",
    "ZStep",
    "constant",
    "cosine",
    "first_order",
    "shapes_of",
]
