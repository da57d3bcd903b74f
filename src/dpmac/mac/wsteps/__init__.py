"""W-steps: what the weights do with a release."""

from dpmac.mac.wsteps.averaged import Averaged
from dpmac.mac.wsteps.base import Schedule, StepDecay, WeightUpdater, WStep, constant, cosine
from dpmac.mac.wsteps.gain import NoiseGain
from dpmac.mac.wsteps.optimizer import OptimizerStep
from dpmac.mac.wsteps.solvers import ConjugateGradient, RidgeSolve

__all__ = [
    "Averaged",
    "ConjugateGradient",
    "NoiseGain",
    "OptimizerStep",
    "RidgeSolve",
    "Schedule",
    "StepDecay",
    "WStep",
    "WeightUpdater",
    "constant",
    "cosine",
]
