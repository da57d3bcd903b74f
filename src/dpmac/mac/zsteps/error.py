"""A Z-step in error coordinates: descend on every layer's error at once, so that the first step reaches them all.

In the paper's Z-step a layer feels only its neighbours, and a signal from the output needs one step for each layer it
passes, a factor of the step's size smaller each time: the first layers' updates vanish. Written in the errors e_k of
s_k = f_k(W_k [s_{k-1}; 1]) + e_k the objective is the same, but the output depends on every e_k directly.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.mac.coordinates import Coordinates, Problem, problems_of
from dpmac.mac.zsteps.base import check_descent
from dpmac.mac.zsteps.links import Link, OutputLink
from dpmac.mac.zsteps.moves import moves, views
from dpmac.nets.losses import Loss
from dpmac.nets.network import Network


@dataclass(frozen=True)
class ErrorCoordinates:
    """Start at e = 0 and descend on mu/2 sum_k ||e_k||^2 + output loss over the errors e_k of all hidden layers.

    Each of the ``steps`` steps is one forward and one closed-form backward sweep. The first gradient is exactly
    back-propagation's, in every layer; further steps go on towards the equilibrium that the paper's Z-step has too.
    ``optimizer`` is an elementwise torch optimiser (as in :class:`AdamCoordinates`), its state fresh for every batch.
    Adam, the default, moves every number by about ``lr`` a step, so it holds for weights of any size. Plain descent
    (``torch.optim.SGD``) keeps closer to back-propagation's directions but needs lr < 2 / (mu + the largest eigenvalue
    of J H J^T), which reaches 100 and more as a network trains: take lr 0.01 or less.

    Row n of the result depends on example n and the weights alone: losses are sums over units, and nothing is divided
    by the batch or stopped by it. Where plain descent diverges it does so for that example only; a row that is not
    finite is left so, and the bound makes its share zero.
    """

    steps: int = 10
    lr: float = 0.003
    mu: float = 1.0
    optimizer: type[torch.optim.Optimizer] = torch.optim.Adam

    def __post_init__(self) -> None:
        check_descent(self.steps, self.lr, self.mu, self.optimizer)

    @torch.no_grad()
    def solve(self, network: Network, loss: Loss, x: Tensor, y: Tensor) -> Coordinates:
        sweeps = Sweeps(problems_of(network, loss), x, y, self.mu)
        for move in moves(self.optimizer, sweeps.numbers, sweeps.gradient, self.lr, self.steps):
            sweeps.descend()
            move()
        return sweeps.found()


class Sweeps:
    """Every example's mu/2 sum_k ||e_k||^2 + output loss, and its gradient, in buffers made once.

    It starts at e = 0; ``numbers`` are the ``errors`` of all hidden layers in one flat buffer, ``gradient`` is theirs.
    """

    def __init__(self, problems: list[Problem], x: Tensor, y: Tensor, mu: float) -> None:
        self._x, self._y, self._mu = x, y, mu
        rows, shapes = len(x), [problem.stage.shape for problem in problems[:-1]]
        self.numbers = x.new_zeros(rows * sum(problem.stage.units for problem in problems[:-1]))
        self.gradient, states = torch.empty_like(self.numbers), torch.empty_like(self.numbers)
        self.errors, self.gradients = views(self.numbers, rows, shapes), views(self.gradient, rows, shapes)
        self._states = views(states, rows, shapes)
        self._links = [Link(problem, rows, x) for problem in problems[:-1]]
        self._top = OutputLink(problems[-1], x, y)
        if self._links:  # f_1(W_1 x) is the same in every sweep: it is made only here
            self._links[0].forward(x)
            self._links[0].activate()

    def found(self) -> Coordinates:
        """States with the errors as they are, and pre-activations and slopes there. The errors are used up."""
        self._forward()
        hidden = zip(
            self._links, self.errors, strict=True
        )  # half the squared distance has (f_k - s_k) f_k' = -e_k f_k'
        slopes = [link.back(error.neg_()) for link, error in hidden]
        u, slope = self._top.handed_on()
        us = (*(link.u for link in self._links), u)
        return Coordinates((self._x, *self._states), (*self._states, self._y), us, (*slopes, slope))

    def _forward(self) -> None:
        """States s_k = f_k(W_k [s_{k-1}; 1]) + e_k, and every pre-activation there."""
        for k, (link, error, state) in enumerate(zip(self._links, self.errors, self._states, strict=True)):
            if k > 0:
                link.forward(self._states[k - 1])
                link.activate()
            torch.add(link.value, error, out=state)
        self._top.forward(self._states[-1] if self._states else self._x)

    def descend(self) -> None:
        """d/de_k of mu/2 sum_k ||e_k||^2 + output loss into ``gradients``: mu e_k + J_k^T (output slope)."""
        self._forward()
        link: Link = self._top
        slopes, times = self._top.slope(), self._top.weight
        for k in range(len(self._states) - 1, -1, -1):
            link.carry(slopes, self._states[k], self.gradients[k], keep=0.0, times=times)
            link, times = self._links[k], 1.0
            if k > 0:
                slopes = link.back(self.gradients[k])
            self.gradients[k].add_(self.errors[k], alpha=self._mu)
