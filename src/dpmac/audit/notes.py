"""A W-step that takes notes: it is handed what was released, and nothing else, as any W-step is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpmac.mac import OptimizerStep, Polynomial
from dpmac.mac.wsteps.base import WeightUpdater
from dpmac.nets import Network

RATE = 0.05  # of learning: weights are to move


@dataclass(frozen=True)
class Notes:
    """Calls ``note(network, polynomials)`` at every step, before the weights move as Adam would move them."""

    note: Callable[[Network, Sequence[Polynomial]], None]

    def start(self, network: Network, steps: int) -> WeightUpdater:
        return _Noting(OptimizerStep(RATE).start(network, steps), network, self.note)


class _Noting:
    def __init__(
        self, inner: WeightUpdater, network: Network, note: Callable[[Network, Sequence[Polynomial]], None]
    ) -> None:
        self._inner, self._network, self._note = inner, network, note

    def apply(self, polynomials: Sequence[Polynomial]) -> None:
        self._note(self._network, polynomials)
        self._inner.apply(polynomials)

    @property
    def lr(self) -> float:
        return self._inner.lr

    @property
    def model(self) -> Network:
        return self._inner.model

    def state(self) -> dict[str, Any]:
        return self._inner.state()

    def restore(self, state: dict[str, Any]) -> None:
        self._inner.restore(state)

    def skip(self, steps: int) -> None:
        self._inner.skip(steps)
