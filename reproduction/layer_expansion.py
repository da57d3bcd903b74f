"""The paper's example of a layer's loss and its second-order expansion, with the noise of one release on it.

One weight w, no bias: a first layer with w = -0.7 on scalars x, and an output layer with w = 0.7 on top of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.analytic import layer_sensitivity
from dpmac.mac import Polynomial
from dpmac.nets.activations import SOFTPLUS
from dpmac.nets.losses import SquaredError
from dpmac.randomness import NoiseSource

ROWS, T_Z, SIGMA = 500, 1.25, 1.0  # T_z covers all coordinates below: softplus(0.7 * 1.25) = 1.22
LOSS = SquaredError(SOFTPLUS)


@dataclass(frozen=True)
class LayerProblem:
    """Rows of inputs, and the targets softplus(w_true * input)."""

    name: str
    w_true: float
    inputs: Tensor
    targets: Tensor


@dataclass(frozen=True)
class LayerCurves:
    """What the figure shows of a layer, all averaged over 2N: over ``weights`` the loss and its expansion at 0, and at
    ``crosses`` the expansion with fresh noise for each."""

    weights: Tensor
    loss: Tensor
    expansion: Tensor
    crosses: Tensor
    noisy: Tensor


def layer_problems(source: NoiseSource) -> list[LayerProblem]:
    """Both layers of the example."""
    x = source.normal((ROWS, 1)).clamp(-T_Z, T_Z)
    z = SOFTPLUS.f(-0.7 * x)
    return [LayerProblem("input layer", -0.7, x, z), LayerProblem("output layer", 0.7, z, SOFTPLUS.f(0.7 * z))]


def expanded(problem: LayerProblem) -> tuple[Polynomial, tuple[float, float, float]]:
    """T(w) = sum_n (z_n - f(w x_n))^2 to 2nd order around 0, and the standard deviations of the noise on a, b and C.

    All three coefficients of both layers are released at once, so each has sqrt(MK) = sqrt(6) times its sensitivity.
    """
    x = problem.inputs
    centre, u = torch.zeros(1, 1, dtype=torch.float64), torch.zeros_like(x)
    slope = (LOSS.slope(u, problem.targets) * x).sum(dim=0).reshape(1, 1)
    curvature = (LOSS.curvature(u, problem.targets) * x.square()).sum(dim=0).reshape(1, 1, 1)
    bound = layer_sensitivity(LOSS, centre, None, T_Z)
    scale = math.sqrt(3 * 2) * SIGMA
    polynomial = Polynomial(centre, slope, curvature, LOSS.value(u, problem.targets).sum())
    return polynomial, (scale * bound.a, scale * bound.b, scale * bound.C)


def layer_curves(problem: LayerProblem, source: NoiseSource) -> LayerCurves:
    """The loss, its expansion, and the released polynomial a~ + b~ w + C~ w^2 with fresh noise at every cross."""
    polynomial, spread = expanded(problem)
    average = 1 / (2 * ROWS)

    def expansion(weights: Tensor) -> Tensor:
        return torch.stack([torch.as_tensor(polynomial.value(w.reshape(1, 1))).reshape(()) for w in weights])

    weights = torch.linspace(-1.5, 1.5, 121, dtype=torch.float64)
    crosses = weights[::4].repeat(6)
    loss = torch.stack([LOSS.value(w * problem.inputs, problem.targets).sum() for w in weights])
    a, b, c = source.normal((3, len(crosses))) * torch.tensor(spread, dtype=torch.float64).unsqueeze(1)
    noisy = expansion(crosses) + a + b * crosses + c * crosses.square()
    return LayerCurves(weights, loss * average, expansion(weights) * average, crosses, noisy * average)
