"""W-steps that solve the released polynomial: ridge in closed form, and conjugate gradients. They need a curvature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.mac.polynomial import Polynomial
from dpmac.mac.released import WEIGHT, tamed
from dpmac.mac.wsteps.base import Schedule, constant
from dpmac.nets.network import Network


@dataclass(frozen=True)
class RidgeSolve:
    """Closed form: go ``rate`` of the way to the minimum of P(W) + ridge/2 ||W - W_0||^2, layer by layer.

    Exact in one step for a squared-error layer with identity activation. ``ridge`` > 0 is in units of the objective's
    curvature per example; it damps directions that the noise has drowned. Needs an order-2 expansion.
    """

    ridge: float = 1e-2
    rate: float = 1.0
    schedule: Schedule = constant

    def __post_init__(self) -> None:
        number("ridge", self.ridge, "give a number above 0", low=0.0, high=1e30, strict=True)
        number("rate", self.rate, "give a fraction above 0 and at most 1", low=1e-12, high=1.0)

    def start(self, network: Network, steps: int) -> SolverUpdater:
        return SolverUpdater(network, steps, self.rate, self.schedule, lambda p: p.minimum(self.ridge))


@dataclass(frozen=True)
class ConjugateGradient:
    """``iterations`` of linear conjugate gradients on P(W) + ridge/2 ||W - W_0||^2, every unit on its own.

    Early stopping regularises as a ridge does. ``line_search`` then halves the step until the released objective
    itself has fallen: that evaluates the objective, so it needs the constant to have been released and paid for
    (``SecondOrder(constant=True)``), and refuses otherwise.
    """

    iterations: int = 10
    ridge: float = 1e-2
    rate: float = 1.0
    schedule: Schedule = constant
    line_search: bool = False

    def __post_init__(self) -> None:
        integer("iterations", self.iterations, "give a number of iterations, at least 1")
        number("ridge", self.ridge, "give a number, at least 0", low=0.0, high=1e30)
        number("rate", self.rate, "give a fraction above 0 and at most 1", low=1e-12, high=1.0)

    def start(self, network: Network, steps: int) -> SolverUpdater:
        return SolverUpdater(network, steps, self.rate, self.schedule, self._solve)

    def _solve(self, polynomial: Polynomial) -> Tensor:
        found = conjugate_gradients(polynomial, self.iterations, self.ridge)
        if not self.line_search:
            return found
        start, move = polynomial.centre, found - polynomial.centre
        level = polynomial.value(start)
        for halvings in range(30):
            weights = start + 0.5**halvings * move
            if bool(polynomial.value(weights) <= level):
                return weights
        return start


class SolverUpdater:
    """A solver at work: moves each layer a fraction of the way to what the solver finds."""

    def __init__(
        self,
        network: Network,
        steps: int,
        rate: float,
        schedule: Schedule,
        solve: Callable[[Polynomial], Tensor],
    ) -> None:
        self._network, self._steps, self._rate = network, steps, rate
        self._schedule, self._solve, self._done = schedule, solve, 0

    @property
    def lr(self) -> float:
        return self._rate * self._schedule(min(self._done / max(self._steps, 1), 1.0))

    @property
    def model(self) -> Network:
        return self._network

    @torch.no_grad()
    def apply(self, polynomials: Sequence[Polynomial]) -> None:
        for layer, polynomial in zip(self._network.weight_layers, polynomials, strict=True):
            if polynomial.curvature is None:
                raise ArgumentError("expansion", "order 1", "this W-step needs a curvature: use SecondOrder()")
            moved = polynomial.centre + self.lr * (self._solve(polynomial) - polynomial.centre)
            layer.write(tamed(moved, WEIGHT))
        self._done += 1

    def state(self) -> dict[str, Any]:
        return {"network": dict(self._network.state_dict()), "done": self._done}

    def restore(self, state: dict[str, Any]) -> None:
        self._network.load_state_dict(state["network"])
        self._done = state["done"]

    def skip(self, steps: int) -> None:
        self._done += steps


def conjugate_gradients(polynomial: Polynomial, iterations: int, ridge: float) -> Tensor:
    """Weights after ``iterations`` of conjugate gradients from the centre; each unit has its own step lengths.

    A unit whose next step would not be finite stays where it is.
    """
    moved = torch.zeros_like(polynomial.slope)
    residual = -tamed(polynomial.slope)
    direction = residual.clone()
    energy = residual.square().sum(dim=1, keepdim=True)
    for _ in range(iterations):
        bent = polynomial.bend(direction) + ridge * direction
        length = energy / (direction * bent).sum(dim=1, keepdim=True)
        length = torch.where(torch.isfinite(length) & (length > 0), length, 0.0)  # converged, or no curvature here
        further = moved + length * direction
        residual = residual - length * bent
        fresh = residual.square().sum(dim=1, keepdim=True)
        direction = residual + torch.where(energy > 0, fresh / energy, 0.0) * direction
        fine = torch.isfinite(torch.cat([further, direction, fresh], dim=1)).all(dim=1, keepdim=True)
        moved = torch.where(fine, further, moved)
        residual, direction = torch.where(fine, residual, 0.0), torch.where(fine, direction, 0.0)
        energy = torch.where(fine, fresh, 0.0)
    return polynomial.centre + tamed(moved)
