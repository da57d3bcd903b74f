"""Layers: dense and convolutional ones with weights, and those without that carry coordinates between them."""

from dpmac.nets.layers.base import Layer, Shape, WeightLayer, with_one
from dpmac.nets.layers.beside import Beside, ReLUBeyond
from dpmac.nets.layers.conv import Conv2d
from dpmac.nets.layers.dense import Dense
from dpmac.nets.layers.pooling import AvgPool2d, Flatten, MaxPool2d, Unflatten

LAYERS: dict[str, type[Layer]] = {
    kind.kind: kind
    for kind in (
        Dense,
        Conv2d,
        AvgPool2d,
        MaxPool2d,
        Flatten,
        Unflatten,
        Beside,
        ReLUBeyond,
    )
}
"""Every kind of layer under its name in files. A new one is a file and a line here."""

__all__ = [
    "LAYERS",
    "AvgPool2d",
    "Beside",
    "Conv2d",
    "Dense",
    "Flatten",
    "Layer",
    "MaxPool2d",
    "ReLUBeyond",
    "Shape",
    "Unflatten",
    "WeightLayer",
    "with_one",
]
