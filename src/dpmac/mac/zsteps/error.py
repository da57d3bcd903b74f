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
from dpmac.mac.optimizers import optimizer_for
from dpmac.mac.zsteps.base import check_descent
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
        problems = problems_of(network, loss)
        errors = [x.new_zeros((len(x), *problem.stage.shape)) for problem in problems[:-1]]
        if errors:
            optimizer = optimizer_for(self.optimizer, errors, lr=self.lr)
            for _ in range(self.steps):
                for error, gradient in zip(errors, self._gradients(problems, errors, x, y), strict=True):
                    error.grad = gradient
                optimizer.step()
        states, _ = _run(problems, errors, x)
        return Coordinates(inputs=(x, *states), targets=(*states, y))

    def _gradients(self, problems: list[Problem], errors: list[Tensor], x: Tensor, y: Tensor) -> list[Tensor]:
        """d/de_k of mu/2 sum_k ||e_k||^2 + output loss, one row per example: mu e_k + J_k^T (output slope)."""
        states, us = _run(problems, errors, x)
        slopes = problems[-1].loss.weight * problems[-1].loss.slope(us[-1], y)
        gradients: list[Tensor] = []
        for k in range(len(errors) - 1, -1, -1):
            carried = problems[k + 1].stage.back(slopes, states[k])
            gradients.insert(0, self.mu * errors[k] + carried)
            slopes = problems[k].stage.activation.back(carried, us[k])
        return gradients


def _run(problems: list[Problem], errors: list[Tensor], x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """States s_1 .. s_K and pre-activations u_1 .. u_{K+1} of a forward pass that adds each layer's error."""
    states: list[Tensor] = []
    us: list[Tensor] = []
    s = x
    for problem, error in zip(problems[:-1], errors, strict=True):
        us.append(problem.stage.pre_activation(s))
        s = problem.stage.activation.f(us[-1]) + error
        states.append(s)
    us.append(problems[-1].stage.pre_activation(s))
    return states, us
