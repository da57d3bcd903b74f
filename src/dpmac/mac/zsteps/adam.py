"""The paper's Z-step: descend on the sum of all layer losses from the forward values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.mac.coordinates import Coordinates, Problem, forward_values, problems_of
from dpmac.mac.optimizers import optimizer_for
from dpmac.mac.zsteps.base import check_descent
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
        _, values = forward_values(network, x)
        problems = problems_of(network, loss)
        zs = [value.clone() for value in values]
        if zs:
            first = values[0]  # f_1(W_1 x) does not move during the Z-step
            optimizer = optimizer_for(self.optimizer, zs, lr=self.lr)
            for _ in range(self.steps):
                for z, gradient in zip(zs, self._gradients(problems, first, zs, y), strict=True):
                    z.grad = gradient
                optimizer.step()
            for z in zs:
                z.grad = None
        return Coordinates(inputs=(x, *zs), targets=(*zs, y))

    def _gradients(self, problems: list[Problem], first: Tensor, zs: list[Tensor], y: Tensor) -> list[Tensor]:
        """d/dz_k of mu/2 sum_k ||z_k - f_k(z_{k-1})||^2 + output loss, one row per example."""
        gradients = [self.mu * (zs[0] - first)]
        for k, problem in enumerate(problems[1:-1], start=1):
            stage = problem.stage
            u = stage.pre_activation(zs[k - 1])
            residual = self.mu * (zs[k] - stage.activation.f(u))
            gradients[-1].sub_(stage.back(stage.activation.back(residual, u), zs[k - 1]))
            gradients.append(residual)
        last = problems[-1]
        slope = last.loss.weight * last.loss.slope(last.stage.pre_activation(zs[-1]), y)
        gradients[-1].add_(last.stage.back(slope, zs[-1]))
        return gradients
