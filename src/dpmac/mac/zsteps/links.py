"""One stage inside a Z-step that descends: its products and slopes, again and again, in the same buffers.

What it computes is what :class:`~dpmac.nets.stages.Stage`, its activation and its loss say. Where a product can be
written straight into its place, or a derivative follows from a value that is there already, it is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpmac.mac.coordinates import Problem
from dpmac.nets.activations import IDENTITY
from dpmac.nets.layers import Dense
from dpmac.nets.losses import SoftmaxCrossEntropy, SquaredError


class Link:
    """A stage for ``rows`` rows: u of the coordinates z below it, and slopes in u carried back to them.

    ``u``, ``value`` and ``slopes`` are buffers: a call overwrites what the call before it left there. ``sideways``
    keeps them unit by unit in memory, all examples of a unit together.
    """

    def __init__(self, problem: Problem, rows: int, like: Tensor, *, sideways: bool = False) -> None:
        self.stage = problem.stage
        self._plain = _is_plain(problem)
        self._in_place = self.stage.activation.in_place
        shape = (rows, *self.stage.shape)
        if sideways:
            self.u = like.new_empty(shape[::-1]).T
        else:
            self.u = like.new_empty(shape)
        self.value, self.slopes = torch.empty_like(self.u), torch.empty_like(self.u)

    def forward(self, z: Tensor) -> Tensor:
        """u = W z + b."""
        if self._plain:
            torch.addmm(self.stage.layer.bias, z, self.stage.layer.weight.T, out=self.u)
        else:
            self.u = self.stage.pre_activation(z)
        return self.u

    def activate(self) -> Tensor:
        """f(u)."""
        if self._in_place is None:
            self.value = self.stage.activation.f(self.u)
        else:
            self._in_place.value(self.u, self.value)
        return self.value

    def back(self, slopes: Tensor) -> Tensor:
        """Slopes in f(u), as it was last made, carried back to u."""
        if self._in_place is None:
            self.slopes = self.stage.activation.back(slopes, self.u)
        else:
            self._in_place.back(slopes, self.value, self.slopes)
        return self.slopes

    def carry(self, slopes: Tensor, z: Tensor, out: Tensor, *, keep: float, times: float) -> None:
        """``keep`` out + ``times`` (slopes in u carried back to z), in place; with ``keep`` 0 out is not even read."""
        if self._plain:
            out.addmm_(slopes, self.stage.layer.weight, beta=keep, alpha=times)
        elif keep == 0:
            torch.mul(self.stage.back(slopes, z), times, out=out)
        else:
            out.mul_(keep).add_(self.stage.back(slopes, z), alpha=times)


class OutputLink(Link):
    """The last stage, with the task's loss; squared error and softmax are written in place.

    torch's softmax of a row of few classes takes ten times as long as one over columns, which treats many examples at
    once; so there u is kept sideways (a product does not mind).
    """

    def __init__(self, problem: Problem, x: Tensor, y: Tensor) -> None:
        self._loss, self._y = problem.loss, y
        self._softmax = type(self._loss) is SoftmaxCrossEntropy and _is_plain(problem)
        self._squared = type(self._loss) is SquaredError and self._loss.activation == IDENTITY
        super().__init__(problem, len(x), x, sideways=self._softmax)
        self.weight = (2 if self._squared else 1) * self._loss.weight
        if self._softmax:
            self._across, self._mass = y.T.contiguous(), y.sum(dim=1)

    def slope(self) -> Tensor:
        """:attr:`weight` times this is the slope of the weighted loss in u, at the u last made."""
        if self._softmax:
            # over the classes: they come first here, and every column is one example
            torch.softmax(self.u.T, dim=0, out=self.slopes.T).mul_(self._mass).sub_(self._across)
            return self.slopes
        if self._squared:
            return torch.sub(self.u, self._y, out=self.slopes)
        return self._loss.slope(self.u, self._y)

    def handed_on(self) -> tuple[Tensor, Tensor]:
        """u and the weighted slope there, row by row in memory."""
        return self.u.contiguous(), (self.weight * self.slope()).contiguous()


def _is_plain(problem: Problem) -> bool:
    """A dense layer right behind its coordinates: its products can be written where they are wanted."""
    return type(problem.stage.layer) is Dense and not problem.stage.carriers
