"""Networks: activations and losses with their derivatives, and the dense network itself."""

from dpmac.nets.activations import ACTIVATIONS, Activation, activation
from dpmac.nets.losses import LOSSES, Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError, loss
from dpmac.nets.network import DenseNetwork

__all__ = [
    "ACTIVATIONS",
    "LOSSES",
    "Activation",
    "DenseNetwork",
    "Loss",
    "SigmoidCrossEntropy",
    "SoftmaxCrossEntropy",
    "SquaredError",
    "activation",
    "loss",
]
