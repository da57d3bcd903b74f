"""Networks: activations and losses with their derivatives, layers, stacks of them, and feature maps."""

from dpmac.nets.activations import ACTIVATIONS, Activation, activation
from dpmac.nets.layers import AvgPool2d, Conv2d, Dense, Flatten, Layer, MaxPool2d, Unflatten, WeightLayer
from dpmac.nets.losses import (
    LOSSES,
    Loss,
    MultiLabelCrossEntropy,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
    SquaredError,
    loss,
)
from dpmac.nets.network import DenseNetwork, Network, WideNetwork
from dpmac.nets.stages import Stage
from dpmac.nets.weighting import WeightedClasses

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
    "MultiLabelCrossEntropy",
    "Network",
    "SigmoidCrossEntropy",
    "SoftmaxCrossEntropy",
    "SquaredError",
    "Stage",
    "Unflatten",
    "WeightLayer",
    "WeightedClasses",
    "WideNetwork",
    "activation",
    "loss",
]
