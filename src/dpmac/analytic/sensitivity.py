"""Analytic sensitivities: how far one example can move a layer's coefficients, proven rather than clipped.

One layer has public weights ``weight`` (D, d_in) and ``bias`` (D,) or None. Every example's input (without the constant
1) and target are projected to norm <= T_z before its coefficients are computed; the caller must do that, example by
example, and nothing here can check it. With x = [input; 1], u_h = w_h^T x and a loss g_h(u_h) of each unit, an example
adds to the layer's sums

    a = sum_h g - u g' + u^2 g''/2        b_h = (g' - u g'') x        C_h = g'' x x^T / 2

(no 1/(2B)). Blanking or filling in one row changes a sum by that example's term, so an upper bound of the term's
Euclidean norm over all admissible examples is the sensitivity. All of ||a||, ||b||, ||C|| (b and C over all units) are
bounded here by triangle and Cauchy-Schwarz inequalities from what is known of an admissible example: with T_in =
sqrt(T_z^2 + 1), or T_z without a bias,

    ||x|| <= T_in,   ||z|| <= T_z,   |u_h - bias_h| <= ||w_h|| T_z,   hence |u_h| <= rho_h = ||w_h|| T_z + |bias_h|.

The paper's printed bounds (appendices E to H) are not used: several are too small, see the tests. Everything is
computed in double precision from weights alone, and results are rounded up by a relative 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, number

ROUND_UP = 1 + 1e-6


@dataclass(frozen=True)
class Sensitivity:
    """L2 sensitivities, when one row is blanked or filled in, of a layer's sums a, b and C (Frobenius), each alone.

    b and C are 0 if no admissible example can move them (ReLU units that are never on): nothing is learnt from them.
    """

    a: float
    b: float
    C: float

    def least(self, other: Sensitivity) -> Sensitivity:
        """The smaller of the two for each coefficient: sound if both are."""
        return Sensitivity(min(self.a, other.a), min(self.b, other.b), min(self.C, other.C))


@dataclass(frozen=True)
class Reach:
    """What an admissible example can do: ||x|| <= T_in and low_h <= u_h <= high_h (so |u_h| <= rho_h)."""

    weight: Tensor
    bias: Tensor | None
    T_z: float
    T_in: float
    low: Tensor
    high: Tensor

    @property
    def rho(self) -> Tensor:
        return torch.maximum(-self.low, self.high)


def reach_of(weight: Tensor, bias: Tensor | None, T_z: float) -> Reach:
    T_z = radius_of(T_z)
    if not isinstance(weight, Tensor) or weight.dim() != 2 or 0 in weight.shape:
        raise ArgumentError("weight", _shown(weight), "give a matrix of shape (units, inputs)")
    if bias is not None and (not isinstance(bias, Tensor) or bias.shape != weight.shape[:1]):
        raise ArgumentError("bias", _shown(bias), f"give a vector of {len(weight)} numbers, one for each unit, or None")
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and not bool(torch.isfinite(tensor).all()):
            raise ArgumentError(name, float(tensor[~torch.isfinite(tensor)][0]), "every entry must be finite")
    weight = weight.detach().double()
    if bias is not None:
        bias = bias.detach().double()
    radius = torch.linalg.vector_norm(weight, dim=1) * T_z * (1 + 1e-12)
    centre = bias
    if centre is None:
        centre = torch.zeros_like(radius)
    largest = float((radius + centre.abs()).amax())
    if largest > 1e30:  # fourth powers must not overflow
        raise ArgumentError("weight", largest, "||w_h|| T_z + |bias_h| must not exceed 1e30")
    return Reach(weight, bias, T_z, input_norm(T_z, bias is not None), centre - radius, centre + radius)


def _shown(given: object) -> object:
    """A tensor's shape, for an error; anything else as it is."""
    if isinstance(given, Tensor):
        return tuple(given.shape)
    return given


def radius_of(T_z: float) -> float:
    return number("T_z", T_z, "give a finite number above 0 (from 1e-30 to 1e30)", low=1e-30, high=1e30)


def input_norm(T_z: float, bias: bool) -> float:
    if bias:
        return math.sqrt(T_z * T_z + 1)
    return T_z


def rounded_up(a: float | Tensor, b: float | Tensor, C: float | Tensor) -> Sensitivity:
    return Sensitivity(*(float(value) * ROUND_UP for value in (a, b, C)))
