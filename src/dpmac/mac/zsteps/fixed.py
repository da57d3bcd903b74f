"""The fixed-prediction Z-step: one backward sweep, the fast default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
        slopes = loss.weight * loss.slope(us[-1], y)
        known, errors = [slopes], list[Tensor]()
        for k in range(len(values) - 1, -1, -1):
            error = problems[k + 1].stage.back(slopes, values[k])
            errors.insert(0, error)
            slopes = problems[k].stage.activation.back(error, us[k])
            known.insert(0, slopes if self.gamma == 1 else self.gamma * slopes)
        return Coordinates((x, *values), Targets(values, errors, self.gamma, y), tuple(us), tuple(known))

    @torch.no_grad()
    def slopes(self, network: Network, loss: Loss, x: Tensor, y: Tensor) -> Coordinates:
        """What :meth:`solve` finds, for an expansion that asks for inputs and slopes alone: there are no others.

        The sweep then overwrites what it has no more use for, which a CPU's caches thank it for.
        """
        stages, u = network.stages, x
        inputs: list[Tensor] = [x]
        before: list[Tensor] = []  # of every stage but the last: values where f' is a function of them, or u
        for stage in stages[:-1]:
            u = stage.pre_activation(inputs[-1])
            there = stage.activation.in_place
            inputs.append(stage.activation.f(u) if there is None else there.value(u, u))
            before.append(u)
        u = stages[-1].pre_activation(inputs[-1])
        slopes = loss.slope(u, y)
        found = [slopes if loss.weight == 1 else slopes.mul_(loss.weight)]
        for k in range(len(stages) - 2, -1, -1):
            error = stages[k + 1].back(found[0], inputs[k + 1])
            act, there = stages[k].activation, stages[k].activation.in_place
            found.insert(0, act.back(error, before[k]) if there is None else there.back(error, before[k], error))
        if self.gamma != 1:
            found[:-1] = [self.gamma * slope for slope in found[:-1]]
        return Coordinates(tuple(inputs), (), None, tuple(found))


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
        return self.y if k == len(self.values) else torch.sub(self.values[k], self.errors[k], alpha=self.gamma)
