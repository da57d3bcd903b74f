"""Averaged weights: a W-step around any other."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dpmac.checks import number
from dpmac.mac.polynomial import Polynomial
from dpmac.mac.wsteps.base import WeightUpdater, WStep
from dpmac.nets.network import Network


@dataclass(frozen=True)
class Averaged:
    """Any W-step, with an exponential moving average of the weights as the model that is kept: free post-processing.

    ``decay`` is the weight of the past; it is lower in the first steps, so that the start is soon forgotten. Training
    itself goes on from the weights that are not averaged.
    """

    wstep: WStep
    decay: float = 0.99

    def __post_init__(self) -> None:
        number("decay", self.decay, "give a number from 0 to below 1", low=0.0, high=1.0 - 1e-9)

    def start(self, network: Network, steps: int) -> AveragedUpdater:
        return AveragedUpdater(self.wstep.start(network, steps), self.decay)


class AveragedUpdater:
    """An updater whose model is the moving average of another's."""

    def __init__(self, inner: WeightUpdater, decay: float) -> None:
        self._inner, self._decay, self._done = inner, decay, 0
        self.model = copy.deepcopy(inner.model)

    @property
    def lr(self) -> float:
        return self._inner.lr

    @property
    def last_decay(self) -> float:
        """The weight of the past in the last step."""
        return min(self._decay, self._done / (10.0 + self._done))

    @torch.no_grad()
    def apply(self, polynomials: Sequence[Polynomial]) -> None:
        self._inner.apply(polynomials)
        self._done += 1
        decay = self.last_decay
        for kept, fresh in zip(self.model.parameters(), self._inner.model.parameters(), strict=True):
            kept.lerp_(fresh, 1.0 - decay)

    def state(self) -> dict[str, Any]:
        return {"inner": self._inner.state(), "average": dict(self.model.state_dict()), "done": self._done}

    def restore(self, state: dict[str, Any]) -> None:
        self._inner.restore(state["inner"])
        self.model.load_state_dict(state["average"])
        self._done = state["done"]

    def skip(self, steps: int) -> None:
        self._inner.skip(steps)
