"""Networks: activations and losses with their derivatives, layers, the stack they make, and the fronts before it."""

from dpmac.nets.activations import ACTIVATIONS, Activation, activation
from dpmac.nets.layers import AvgPool2d, Conv2d, Dense, Flatten, Layer, MaxPool2d, Unflatten, WeightLayer
from dpmac.nets.losses import LOSSES, Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError, loss
from dpmac.nets.network import DenseNetwork, Network, Stage

__all__ = [
    "ACTIVATIONS",
    "LOSSES",
    "Activation",
    "AvgPool2d",
    "Conv2d",
    "Dense",
    "DenseNetwork",
    "Flatten",
    "Layer",
    "Loss",
    "MaxPool2d",
    "Network",
    "SigmoidCrossEntropy",
    "SoftmaxCrossEntropy",
    "SquaredError",
    "Stage",
    "Unflatten",
    "WeightLayer",
    "activation",
    "loss",
]
