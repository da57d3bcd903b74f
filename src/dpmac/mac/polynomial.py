"""What a release becomes: one low-order polynomial per layer, in public numbers only.

Around the public weights W_0 of a layer, with V = W - W_0,

    P(W) = constant + <slope, V> + 1/2 sum_h v_h^T curvature_h v_h

the paper's a + b^T w + w^T C w written around the expansion point: b = slope - curvature w_0 and C = curvature / 2.
Evaluating, minimising or reshaping it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, number
from dpmac.mac.released import cholesky, eigen, tamed


@dataclass(frozen=True)
class Polynomial:
    """A layer's released polynomial; weights are (d_out, d_in + 1) with the bias in the last column.

    ``curvature`` is (d_out, d, d), or (1, d, d) when all units share it, or None at order 1. ``constant`` is None
    unless it was released and paid for.
    """

    around: Tensor | Callable[[], Tensor]  # W_0, or what gives it: order 1 as a rule never asks
    slope: Tensor
    curvature: Tensor | None = None
    constant: Tensor | None = None

    @property
    def centre(self) -> Tensor:
        """W_0, the public weights around which the polynomial was taken."""
        if callable(self.around):
            return self.around()
        return self.around

    def value(self, weights: Tensor) -> Tensor:
        """P(weights). Refuses if the constant was not released: no routine may behave as if it knew the objective."""
        if self.constant is None:
            fix = "release the constant a and pay for it: SecondOrder(constant=True)"
            raise ArgumentError("line search", "no constant", fix)
        return self.constant + self.change(weights)

    def change(self, weights: Tensor) -> Tensor:
        """P(weights) - P(centre), which needs no constant."""
        moved = weights.double() - self.centre
        linear = (self.slope * moved).sum()
        if self.curvature is None:
            return linear
        return linear + 0.5 * (moved * self.bend(moved)).sum()

    def gradient(self, weights: Tensor) -> Tensor:
        """dP/dW at ``weights``."""
        if self.curvature is None:
            return self.slope
        return self.slope + self.bend(weights.double() - self.centre)

    def bend(self, moved: Tensor) -> Tensor:
        """Each unit's curvature times its row of ``moved``."""
        assert self.curvature is not None
        return (self.curvature @ moved.unsqueeze(2)).squeeze(2)

    def coefficients(self) -> tuple[Tensor, Tensor]:
        """The paper's b (d_out, d) and C (d_out or 1, d, d) of the released polynomial."""
        if self.curvature is None:
            return self.slope, torch.zeros(1, *[self.slope.shape[1]] * 2, dtype=torch.float64, device=self.slope.device)
        return self.slope - self.bend(self.centre), self.curvature / 2

    def floored(self, floor: float = 0.0) -> Polynomial:
        """The polynomial with every eigenvalue of its curvature raised to at least ``floor``; 0 makes it semi-definite.

        Noise makes a curvature indefinite, and an indefinite polynomial has no minimum.
        """
        number("floor", floor, "give a number, at least 0", low=0.0, high=1e30)
        if self.curvature is None:
            return self
        values, vectors = eigen(self.curvature)
        raised = (vectors * values.clamp(min=floor).unsqueeze(-2)) @ vectors.transpose(-1, -2)
        return replace(self, curvature=(raised + raised.transpose(-1, -2)) / 2)

    def minimum(self, ridge: float) -> Tensor:
        """The weights that minimise P(W) + ridge/2 ||W - W_0||^2, in closed form by Cholesky.

        Needs a curvature that is positive semi-definite (see :meth:`floored`) and ``ridge`` > 0, or a positive floor.
        Of finite numbers, however large or small, the answer is finite.
        """
        if self.curvature is None:
            least = number("ridge", ridge, "order 1 needs a ridge above 0", low=1e-300)
            return self.centre - tamed(tamed(self.slope) / least)
        slope, curvature = tamed(self.slope), tamed(self.curvature)
        level = 1e-14 * torch.linalg.matrix_norm(curvature).reshape(-1, 1, 1)  # less is lost in rounding
        factor = cholesky(curvature, ridge + level)
        if len(curvature) == 1:  # one factor for all units: solve for all of them at once
            return self.centre - tamed(torch.cholesky_solve(slope.T, factor[0]).T)
        return self.centre - tamed(torch.cholesky_solve(slope.unsqueeze(2), factor).squeeze(2))
