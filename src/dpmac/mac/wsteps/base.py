"""What a W-step is: what the weights do with a release. Post-processing: any number of steps costs no further privacy.

Each takes the layers' released polynomials and moves the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dpmac.mac.polynomial import Polynomial
from dpmac.nets.network import Network

Schedule = Callable[[float], float]  # part of the run that is done, 0 to 1, to a factor on the learning rate


class WeightUpdater(Protocol):
    """A W-step at work on one network."""

    def apply(self, polynomials: Sequence[Polynomial]) -> None:
        """Take the released polynomials of all layers and move the weights."""

    @property
    def lr(self) -> float:
        """The learning rate (or the fraction of the way to the minimum) of the next step."""

    @property
    def model(self) -> Network:
        """The network to judge and to keep: the one being trained, or an average of its past."""

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, weights included, in plain values and tensors."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where :meth:`state` was taken."""

    def skip(self, steps: int) -> None:
        """Leave out ``steps`` steps, whose releases were lost: the schedule goes on, the weights stay."""


class WStep(Protocol):
    """Makes an updater for a network and a run of known length."""

    def start(self, network: Network, steps: int) -> WeightUpdater: ...


def constant(done: float) -> float:  # noqa: ARG001
    """No decay."""
    return 1.0


def cosine(done: float) -> float:
    """Half a cosine from 1 to 0."""
    return 0.5 * (1.0 + math.cos(math.pi * done))


@dataclass(frozen=True)
class StepDecay:
    """The paper's schedule: the rate times ``factor`` after each of ``epochs`` equal parts of the run."""

    factor: float
    epochs: int

    def __call__(self, done: float) -> float:
        return self.factor ** math.floor(done * self.epochs + 1e-9)
