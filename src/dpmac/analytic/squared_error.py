"""Squared error: sensitivities for any activation, certified, and closed forms for some."""

from __future__ import annotations

import math

from torch import Tensor

from dpmac.analytic.cells import cells
from dpmac.analytic.sensitivity import Reach, Sensitivity, input_norm, radius_of, reach_of, rounded_up
from dpmac.analytic.shells import joint, norm, shells
from dpmac.checks import integer
from dpmac.nets.activations import Activation, GlobalSups
from dpmac.nets.activations import activation as activation_named


def general(activation: str | Activation, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:
    """Squared error, any activation, from alpha, beta, gamma: the sups of |f|, |f'|, |f''| over the reach of each unit.

    By the triangle inequality |p| <= alpha + beta rho + gamma rho^2/2, |r| <= (alpha + beta rho)^2 + alpha gamma rho^2,
    |phi| <= beta + gamma rho, |s| <= alpha (beta + gamma rho) + beta^2 rho, |t| <= beta^2 + alpha gamma (see
    :mod:`dpmac.analytic.cells` for these functions), and then as in :func:`certified`. Loose for large weights.
    """
    act, reach = activation_named(activation), reach_of(weight, bias, T_z)
    grid, rho = cells(act, float(reach.rho.amax())), reach.rho
    index = grid.index(reach.low, reach.high)
    alpha, beta, gamma = (grid.sup(values, index) for values in (grid.f, grid.df, grid.d2f))
    p = alpha + beta * rho + gamma * rho.square() / 2
    r = (alpha + beta * rho).square() + alpha * gamma * rho.square()
    phi = beta + gamma * rho
    return _combine(
        reach, p, float(r.sum()), alpha * phi + beta.square() * rho, phi, beta.square() + alpha * gamma, gamma
    )


def _combine(reach: Reach, p: Tensor, r: float, s: Tensor, phi: Tensor, t: Tensor, d2f: Tensor) -> Sensitivity:
    """From bounds per unit (r: of the sum): a by Cauchy-Schwarz, b and C by ||s - z phi|| <= ||s|| + ||z|| max phi."""
    T, T_in = reach.T_z, reach.T_in
    b = 2 * T_in * (norm(s) + T * float(phi.amax()))
    return rounded_up(T**2 + 2 * T * norm(p) + r, b, T_in**2 * (norm(t) + T * float(d2f.amax())))


def certified(activation: str | Activation, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:
    """Squared error, any activation, from certified sups (hats) of the coefficient functions over each unit's reach:

        a <= T_z^2 + 2 T_z ||p^|| + sum r^    b <= 2 T_in (||s^|| + T_z max phi^)    C <= T_in^2 (||t^|| + T_z max f''^)

    since a = ||z||^2 - 2 z^T p + sum r, ||b|| = 2 ||s - z phi|| ||x|| and ||C|| = ||t - z f''|| ||x||^2. (A negative a
    is bounded too: -a = 2 z^T p - ||z||^2 - sum r <= 2 T_z ||p^|| + sum (-r)^.) These hold unit by unit, as if every
    unit could be at its worst at once; :func:`dpmac.analytic.shells.joint` tightens them by what ties the units
    together, and the smaller is kept.
    """
    act, reach = activation_named(activation), reach_of(weight, bias, T_z)
    grid = cells(act, float(reach.rho.amax()))
    index = grid.index(reach.low, reach.high)
    rise, fall = (float(grid.sup(values, index).sum()) for values in (grid.rise, grid.fall))
    p, s, phi, t, d2f = (grid.sup(values, index) for values in (grid.p, grid.s, grid.phi, grid.t, grid.d2f))
    alone = _combine(reach, p, max(rise, fall - reach.T_z**2), s, phi, t, d2f)
    return alone.least(rounded_up(*joint(grid, shells(grid, reach.weight, reach.bias, reach.T_z), reach.T_z)))


def weight_free(sups: GlobalSups, D: int, T_z: float, bias: bool) -> Sensitivity:
    """Squared error, for any weights whatever, from sups over all u (``Activation.sups``); as :func:`certified`."""
    D, T_z = integer("D", D, "give the number of units, 1 or more"), radius_of(T_z)
    T_in, root = input_norm(T_z, bias), math.sqrt(D)
    a = T_z**2 + 2 * T_z * sups.p * root + sups.r * D
    return rounded_up(a, 2 * T_in * (sups.s * root + T_z * sups.phi), T_in**2 * (sups.t * root + T_z * sups.d2f))


def straight(D: int, T_z: float, bias: bool) -> Sensitivity:
    """Squared error and ReLU or identity (``Activation.straight``), for any weights.

    f'' = 0, f' is within [0, 1] and f = f'u, so p = r = s = 0, phi = f', t = f'^2: a = ||z||^2, b_h = -2 z_h f' x and
    C_h = f'^2 x x^T.
    """
    D, T_z = integer("D", D, "give the number of units, 1 or more"), radius_of(T_z)
    T_in = input_norm(T_z, bias)
    return rounded_up(T_z**2, 2 * T_z * T_in, math.sqrt(D) * T_in**2)


def squared_error(activation: Activation, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:
    """The tightest of the above that hold for ``activation``, for each of a, b and C."""
    best = certified(activation, weight, bias, T_z)
    if activation.straight:
        return best.least(straight(len(weight), T_z, bias is not None))
    best = best.least(general(activation, weight, bias, T_z))
    if activation.sups is not None:
        best = best.least(weight_free(activation.sups, len(weight), T_z, bias is not None))
    return best
