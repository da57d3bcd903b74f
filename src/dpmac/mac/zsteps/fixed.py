"""The fixed-prediction Z-step: one backward sweep, the fast default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import number
from dpmac.mac.coordinates import Carried, Coordinates, forward_pass, problems_of
from dpmac.mac.zsteps.beside import is_wide, solved_beside
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
        if is_wide(network):
            return solved_beside(network, loss, x, y, self.gamma)
        made, problems = forward_pass(network, x), problems_of(network, loss)
        slopes = loss.weight * loss.slope(made.us[-1], y)
        known, errors = [slopes], list[Tensor]()
        for k in range(len(made.values) - 1, -1, -1):
            error = problems[k + 1].stage.back(slopes, made.values[k], made.carried[k + 1])
            errors.insert(0, error)
            slopes = problems[k].stage.activation.back(error, made.us[k])
            known.insert(0, slopes if self.gamma == 1 else self.gamma * slopes)
        inputs, targets = (x, *made.values), Targets(made.values, errors, self.gamma, y)
        carried = Carried(inputs, tuple(values[-1] for values in made.carried))
        return Coordinates(inputs, targets, tuple(made.us), tuple(known), carried)


@dataclass(frozen=True)
class Targets(Sequence[Tensor]):
    """z_k = value - gamma error, k = 1 .. K, and y; made when they are asked for, since slopes alone need none."""

    values: list[Tensor]
    errors: list[Tensor]
    gamma: float
    y: Tensor

    def __len__(self) -> int:
        return len(self.values) + 1

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        if not -len(self) <= k < len(self):
            raise IndexError(k)
        k %= len(self)
        if k == len(self.values):
            return self.y
        return torch.sub(self.values[k], self.errors[k], alpha=self.gamma)
