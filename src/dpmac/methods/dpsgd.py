"""DP-SGD: per-example gradients of the whole network by back-propagation, clipped, summed and released.

Back-propagated deltas give the same parts as MAC's slopes, so DP-SGD is a choice of pieces of the same trainer
(``Trainer.dp_sgd``): the fixed-prediction Z-step, the gradients as parts, and a bound. ``JointClip(Theta)`` is the
usual flat clipping of the whole gradient, ``PerLayerClip(Theta)`` clips layer by layer. Norms come from the factors:
no per-example gradient of a dense layer is ever built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.mac import Coordinates, FirstOrder, Polynomial
from dpmac.mac.expansions import weighted_slopes
from dpmac.nets import Loss, Network
from dpmac.privacy import Part, Partition


@dataclass(frozen=True)
class Gradients:
    """Order 1 with each layer's slope already times its weight in the objective.

    With :class:`~dpmac.mac.FixedPrediction` (gamma 1) example n's parts are exactly the gradient of its loss in all
    weights, so a threshold on them means what it means in DP-SGD.
    """

    def partitions(self, network: Network, loss: Loss) -> list[Partition]:
        return FirstOrder().partitions(network, loss)

    @torch.no_grad()
    def parts(self, network: Network, loss: Loss, coordinates: Coordinates) -> list[Part]:
        return [
            problem.stage.layer.part(slope, inputs)
            for problem, inputs, slope in weighted_slopes(network, loss, coordinates)
        ]

    def polynomials(
        self,
        network: Network,
        loss: Loss,  # noqa: ARG002 - slopes have its weight already
        answer: Mapping[str, Tensor],
    ) -> list[Polynomial]:
        return [Polynomial(stage.layer.matrix_now(), answer[stage.name]) for stage in network.stages]
