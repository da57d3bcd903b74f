"""The fixed-prediction Z-step: one backward sweep, the fast default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import number
from dpmac.mac.coordinates import Coordinates, forward_pass, problems_of
from dpmac.nets.activations import IDENTITY
from dpmac.nets.losses import Loss
from dpmac.nets.network import Network
from dpmac.nets.stages import Stage


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
        made, problems = forward_pass(network, x), problems_of(network, loss)
        slopes = loss.weight * loss.slope(made.us[-1], y)
        known, errors = [slopes], list[Tensor | Error]()
        for k in range(len(made.values) - 1, -1, -1):
            below, error = problems[k].stage, Error(problems[k + 1].stage, slopes, made.carried[k + 1])
            needed = below.layer.weighted
            if k == 0 and needed is not None and below.activation == IDENTITY:  # nothing below asks for the others
                errors.insert(0, error)
                slopes = error.stage.back_to(needed, slopes, error.values)
            else:
                whole = error.whole()
                errors.insert(0, whole)
                slopes = below.activation.back(whole, made.us[k])
            known.insert(0, slopes if self.gamma == 1 else self.gamma * slopes)
        targets = Targets(made.values, errors, self.gamma, y)
        return Coordinates(
            (x, *made.values), targets, tuple(made.us), tuple(known), tuple(values[-1] for values in made.carried)
        )


@dataclass(frozen=True)
class Error:
    """The slope in a stage's coordinates, made when it is asked for."""

    stage: Stage
    slopes: Tensor
    values: tuple[Tensor, ...]

    @torch.no_grad()
    def whole(self) -> Tensor:
        return self.stage.back(self.slopes, self.values[0], self.values)


@dataclass(frozen=True)
class Targets(Sequence[Tensor]):
    """z_k = value - gamma error, k = 1 .. K, and y; made when they are asked for, since slopes alone need none."""

    values: list[Tensor]
    errors: list[Tensor | Error]
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
        error = self.errors[k]
        if isinstance(error, Error):
            error = error.whole()
        return torch.sub(self.values[k], error, alpha=self.gamma)
