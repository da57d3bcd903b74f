"""DP-SGD: per-example gradients of the whole network by back-propagation, clipped, summed and released.

Back-propagated deltas give the same rank-one parts as MAC's slopes, so DP-SGD is a choice of pieces of the same
trainer: the fixed-prediction Z-step, the gradients as parts, and a bound. ``JointClip(Theta)`` is the usual flat
clipping of the whole gradient, ``PerLayerClip(Theta)`` clips layer by layer. Norms come from the factors: no
per-example gradient is ever built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpmac.mac.coordinates import FixedPrediction
from dpmac.mac.expansion import FirstOrder, weights_of
from dpmac.mac.layers import Coordinates, layers_of
from dpmac.mac.polynomial import Polynomial
from dpmac.nets.losses import Loss
from dpmac.nets.network import DenseNetwork
from dpmac.privacy.bound import Block, Bound
from dpmac.privacy.parts import OuterPart, Part
from dpmac.privacy.plan import Plan
from dpmac.training.trainer import Trainer


@dataclass(frozen=True)
class Gradients:
    """Order 1 with each layer's slope already times its weight in the objective.

    With :class:`FixedPrediction` (gamma 1) example n's parts are exactly the gradient of its loss in all weights, so a
    threshold on them means what it means in DP-SGD.
    """

    def blocks(self, network: DenseNetwork, loss: Loss) -> list[Block]:
        return FirstOrder().blocks(network, loss)

    @torch.no_grad()
    def parts(self, network: DenseNetwork, loss: Loss, coordinates: Coordinates) -> list[Part]:
        parts: list[Part] = []
        for layer, slope in zip(layers_of(network, loss), FirstOrder().parts(network, loss, coordinates), strict=True):
            assert isinstance(slope, OuterPart)
            parts.append(OuterPart(layer.loss.weight * slope.left, slope.right))
        return parts

    def polynomials(self, network: DenseNetwork, loss: Loss, released: Sequence[Tensor]) -> list[Polynomial]:
        layers = layers_of(network, loss)
        return [Polynomial(weights_of(layer), gradient) for layer, gradient in zip(layers, released, strict=True)]


def dp_sgd(network: DenseNetwork, loss: Loss, plan: Plan, bound: Bound, **more: Any) -> Trainer:
    """A trainer that does DP-SGD: ``bound`` is ``JointClip(Theta)`` for flat clipping, ``PerLayerClip`` for layers.

    ``more`` goes to :class:`~dpmac.training.Trainer`: ``wstep`` (any torch optimiser), ``source``, ``micro_batch``, ...
    """
    return Trainer(network, loss, plan, FixedPrediction(), bound, expansion=Gradients(), **more)
