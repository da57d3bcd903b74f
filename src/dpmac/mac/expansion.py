"""The expansion: every layer's loss as a low-order polynomial in its weights, one example at a time.

Around the current weights, with u = w^T [x; 1] and a loss g of the pre-activation, the first-order coefficient of an
example is the outer product of its slope g'(u) and its input [x; 1]: two vectors, never a matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpmac.mac.layers import Coordinates, layers_of
from dpmac.nets.losses import Loss
from dpmac.nets.network import DenseNetwork
from dpmac.privacy.parts import OuterPart


def with_one(x: Tensor) -> Tensor:
    """[x; 1]: the input with the constant that the bias multiplies."""
    return torch.cat([x, torch.ones_like(x[:, :1])], dim=1)


@torch.no_grad()
def first_order(network: DenseNetwork, loss: Loss, coordinates: Coordinates) -> list[OuterPart]:
    """Slopes of all layers: part k has shape (d_out, d_in + 1), weights first, bias in the last column.

    Without the loss's weight, as the paper's dT_n; :func:`slope_weights` gives the factors to apply after the release.
    """
    parts = []
    for layer, inputs, targets in zip(layers_of(network, loss), coordinates.inputs, coordinates.targets, strict=True):
        slopes = layer.loss.slope(layer.pre_activation(inputs), targets)
        parts.append(OuterPart(slopes, with_one(inputs)))
    return parts


def shapes_of(network: DenseNetwork) -> list[tuple[int, ...]]:
    """Shapes of the first-order coefficients, one per layer."""
    return [(linear.out_features, linear.in_features + 1) for linear in network.linears]


def slope_weights(network: DenseNetwork, loss: Loss) -> list[float]:
    """Each layer's factor from released slopes to the gradient of the objective."""
    return [layer.loss.weight for layer in layers_of(network, loss)]
