"""The paper's Z-step: descend on the sum of all layer losses from the forward values."""

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
class AdamCoordinates:
    """The paper's Z-step: start at the forward values and descend on the sum of all layer losses.

    ``steps`` steps of a torch optimiser (Adam by default), its state fresh for every batch; ``mu`` weighs the hidden
    layers' losses against the output's. Each example descends on its own loss, so neither the batch's size nor its
    other rows are felt, whatever epsilon the optimiser has.
    """

    steps: int = 30
    lr: float = 0.003
    mu: float = 1.0
    optimizer: type[torch.optim.Optimizer] = torch.optim.Adam

    def __post_init__(self) -> None:
        check_descent(self.steps, self.lr, self.mu, self.optimizer)

    @torch.no_grad()
    def solve(self, network: Network, loss: Loss, x: Tensor, y: Tensor) -> Coordinates:
        descent = Descent(problems_of(network, loss), x, y, self.mu)
        for move in moves(self.optimizer, descent.numbers, descent.gradient, self.lr, self.steps):
            descent.descend()
            move()
        return descent.found()


class Descent:
    """Every example's mu/2 sum_k ||z_k - f_k(z_{k-1})||^2 + output loss, and its gradient, in buffers made once.

    It starts at the forward values; ``numbers`` are the coordinates ``zs`` of all hidden layers in one flat buffer, and
    ``gradient`` is theirs. What is in the buffers after a call is of use until the next.
    """

    def __init__(self, problems: list[Problem], x: Tensor, y: Tensor, mu: float) -> None:
        self._x, self._y, self._mu = x, y, mu
        rows, shapes = len(x), [problem.stage.shape for problem in problems[:-1]]
        self.numbers = x.new_empty(rows * sum(problem.stage.units for problem in problems[:-1]))
        self.gradient = torch.empty_like(self.numbers)
        self.zs, self.gradients = views(self.numbers, rows, shapes), views(self.gradient, rows, shapes)
        self._links = [Link(problem, rows, x) for problem in problems[:-1]]
        self._top = OutputLink(problems[-1], x, y)
        below = x
        for link, z in zip(self._links, self.zs, strict=True):  # f_1(W_1 x) does not move: it is made only here
            link.forward(below)
            below = z.copy_(link.activate())

    def descend(self) -> None:
        """d/dz_k of the objective, k = 1 .. K, into ``gradients``: mu (z_k - f_k) and what stage k + 1 carries back."""
        mu = self._mu
        self._residual(0)
        slopes = self._slopes()
        for k, (z, gradient) in enumerate(zip(self.zs, self.gradients, strict=True)):
            if k + 1 < len(self._links):
                link, times = self._links[k + 1], mu
            else:
                link, times = self._top, self._top.weight
            link.carry(slopes[k], z, gradient, keep=-mu, times=times)

    def found(self) -> Coordinates:
        """The coordinates as they are, with the pre-activations there, and slopes: no product is left to do again."""
        first = [link.back(self._residual(0)) for link in self._links[:1]]
        hidden = self._slopes()[:-1]
        u, slope = self._top.handed_on()
        us = (*(link.u for link in self._links), u)
        return Coordinates((self._x, *self.zs), (*self.zs, self._y), us, (*first, *hidden, slope))

    def _slopes(self) -> list[Tensor]:
        """Of every stage's loss but the first's in its u: half the squared distance has (f_k - z_k) f_k'."""
        found: list[Tensor] = []
        for k, link in enumerate(self._links[1:], start=1):
            link.forward(self.zs[k - 1])
            link.activate()
            found.append(link.back(self._residual(k)))
        self._top.forward(self.zs[-1] if self.zs else self._x)
        return [*found, self._top.slope()]

    def _residual(self, k: int) -> Tensor:
        """f_k - z_k, into the buffer that is to be the gradient."""
        return torch.sub(self._links[k].value, self.zs[k], out=self.gradients[k])
