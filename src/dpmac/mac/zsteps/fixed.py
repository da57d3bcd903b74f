"""The fixed-prediction Z-step: one backward sweep, the fast default."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import number
from dpmac.mac.coordinates import Coordinates, forward_values, problems_of
from dpmac.nets.losses import Loss
from dpmac.nets.network import Network


@dataclass(frozen=True)
class FixedPrediction:
    """The fixed-prediction limit: one backward sweep at the forward values, z_k = f_k - gamma dloss/df_k.

    Every layer keeps its forward input, so its slope is exactly back-propagation's gradient times ``gamma`` (and the
    output layer's without it): the signal reaches all layers at full strength in one sweep. Cheapest Z-step there is.
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        number("gamma", self.gamma, "give a step above 0", low=0.0, high=1e12, strict=True)

    @torch.no_grad()
    def solve(self, network: Network, loss: Loss, x: Tensor, y: Tensor) -> Coordinates:
        us, values = forward_values(network, x)
        problems = problems_of(network, loss)
        targets: list[Tensor] = [y]
        slopes = loss.weight * loss.slope(us[-1], y)
        for k in range(len(values) - 1, -1, -1):
            error = problems[k + 1].stage.back(slopes, values[k])
            targets.insert(0, values[k] - self.gamma * error)
            slopes = error * problems[k].stage.activation.df(us[k])
        return Coordinates(inputs=(x, *values), targets=tuple(targets))
