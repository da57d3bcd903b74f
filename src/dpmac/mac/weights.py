"""W-steps: what the weights do with a release. Post-processing: any number of steps costs no further privacy.

Each takes the layers' released polynomials and moves the weights. The first takes any torch optimiser, at either
order; the other two use the curvature of an order-2 release.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.mac.polynomial import Polynomial
from dpmac.nets.network import DenseNetwork

Schedule = Callable[[float], float]  # part of the run that is done, 0 to 1, to a factor on the learning rate


class WeightUpdater(Protocol):
    """A W-step at work on one network."""

    def apply(self, polynomials: Sequence[Polynomial]) -> None:
        """Take the released polynomials of all layers and move the weights."""

    @property
    def lr(self) -> float:
        """The learning rate (or the fraction of the way to the minimum) of the next step."""

    @property
    def model(self) -> DenseNetwork:
        """The network to judge and to keep: the one being trained, or an average of its past."""


class WStep(Protocol):
    """Makes an updater for a network and a run of known length."""

    def start(self, network: DenseNetwork, steps: int) -> WeightUpdater: ...


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


@dataclass(frozen=True)
class OptimizerStep:
    """``inner_steps`` steps of any torch optimiser on each released polynomial, with a learning-rate schedule.

    At order 1 the polynomial's gradient is the released slope, the same at every inner step; at order 2 it follows the
    weights. ``schedule`` maps the part of the run that is done to a factor on ``lr``; ``options`` go to the optimiser.
    """

    lr: float = 0.01
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam
    schedule: Schedule = constant
    inner_steps: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        number("lr", self.lr, "give a learning rate above 0", low=0.0, high=1e9, strict=True)
        integer("inner_steps", self.inner_steps, "give a number of steps per release, at least 1")

    def start(self, network: DenseNetwork, steps: int) -> OptimizerUpdater:
        return OptimizerUpdater(self, network, steps)


class OptimizerUpdater:
    """An :class:`OptimizerStep` at work: hands released gradients to a plain torch optimiser and scheduler."""

    def __init__(self, step: OptimizerStep, network: DenseNetwork, steps: int) -> None:
        self._network, self._inner = network, step.inner_steps
        self.optimizer = step.optimizer(network.parameters(), lr=step.lr, **step.options)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda index: step.schedule(min(index / max(steps, 1), 1.0))
        )

    @property
    def lr(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    @property
    def model(self) -> DenseNetwork:
        return self._network

    def apply(self, polynomials: Sequence[Polynomial]) -> None:
        for _ in range(self._inner):
            for linear, polynomial in zip(self._network.linears, polynomials, strict=True):
                here = torch.cat([linear.weight.detach(), linear.bias.detach().unsqueeze(1)], dim=1)
                exact = polynomial.gradient(here).to(linear.weight.dtype)
                linear.weight.grad = exact[:, :-1].contiguous()
                linear.bias.grad = exact[:, -1].contiguous()
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.scheduler.step()


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

    def start(self, network: DenseNetwork, steps: int) -> SolverUpdater:
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

    def start(self, network: DenseNetwork, steps: int) -> SolverUpdater:
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
        network: DenseNetwork,
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
    def model(self) -> DenseNetwork:
        return self._network

    @torch.no_grad()
    def apply(self, polynomials: Sequence[Polynomial]) -> None:
        for linear, polynomial in zip(self._network.linears, polynomials, strict=True):
            if polynomial.curvature is None:
                raise ArgumentError("expansion", "order 1", "this W-step needs a curvature: use SecondOrder()")
            moved = polynomial.centre + self.lr * (self._solve(polynomial) - polynomial.centre)
            linear.weight.copy_(moved[:, :-1])
            linear.bias.copy_(moved[:, -1])
        self._done += 1


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

    def start(self, network: DenseNetwork, steps: int) -> AveragedUpdater:
        return AveragedUpdater(self.wstep.start(network, steps), self.decay)


class AveragedUpdater:
    """An updater whose model is the moving average of another's."""

    def __init__(self, inner: WeightUpdater, decay: float) -> None:
        self._inner, self._decay, self._done = inner, decay, 0
        self.model = copy.deepcopy(inner.model)

    @property
    def lr(self) -> float:
        return self._inner.lr

    @torch.no_grad()
    def apply(self, polynomials: Sequence[Polynomial]) -> None:
        self._inner.apply(polynomials)
        self._done += 1
        decay = min(self._decay, self._done / (10.0 + self._done))
        for kept, fresh in zip(self.model.parameters(), self._inner.model.parameters(), strict=True):
            kept.lerp_(fresh, 1.0 - decay)


def conjugate_gradients(polynomial: Polynomial, iterations: int, ridge: float) -> Tensor:
    """Weights after ``iterations`` of conjugate gradients from the centre; each unit has its own step lengths."""
    moved = torch.zeros_like(polynomial.slope)
    residual = -polynomial.slope
    direction = residual.clone()
    energy = residual.square().sum(dim=1, keepdim=True)
    for _ in range(iterations):
        bent = polynomial.bend(direction) + ridge * direction
        length = energy / (direction * bent).sum(dim=1, keepdim=True)
        length = torch.where(torch.isfinite(length) & (length > 0), length, 0.0)  # converged, or no curvature here
        moved = moved + length * direction
        residual = residual - length * bent
        fresh = residual.square().sum(dim=1, keepdim=True)
        direction = residual + torch.where(energy > 0, fresh / energy, 0.0) * direction
        energy = fresh
    return polynomial.centre + moved
