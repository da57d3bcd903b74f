"""The method of auxiliary coordinates: Z-step, expansion, W-step."""

from dpmac.mac.coordinates import Coordinates
from dpmac.mac.expansions import Expansion, FirstOrder
from dpmac.mac.polynomial import Polynomial
from dpmac.mac.second_order import SecondOrder
from dpmac.mac.wsteps import (
    Averaged,
    ConjugateGradient,
    NoiseGain,
    OptimizerStep,
    RidgeSolve,
    Schedule,
    StepDecay,
    WStep,
    constant,
    cosine,
)
from dpmac.mac.zsteps import Z_STEPS, AdamCoordinates, ErrorCoordinates, FixedPrediction, GaussNewton, ZStep

EXPANSIONS: dict[str, Expansion] = {
    "first": FirstOrder(),
    "second": SecondOrder(),
    "second-shared": SecondOrder(shared=True),
    "second-with-constant": SecondOrder(constant=True),
}
"""Every expansion of this package by name. A new one is a file and a line here."""

__all__ = [
    "EXPANSIONS",
    "Z_STEPS",
    "AdamCoordinates",
    "Averaged",
    "ConjugateGradient",
    "Coordinates",
    "ErrorCoordinates",
    "Expansion",
    "FirstOrder",
    "FixedPrediction",
    "GaussNewton",
    "NoiseGain",
    "OptimizerStep",
    "Polynomial",
    "RidgeSolve",
    "Schedule",
    "SecondOrder",
    "StepDecay",
    "WStep",
    "ZStep",
    "constant",
    "cosine",
]
