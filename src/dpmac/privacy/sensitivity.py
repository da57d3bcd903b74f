"""Analytic sensitivities: how far one example can move a layer's coefficients, proven rather than clipped.

One layer has public weights ``weight`` (D, d_in) and ``bias`` (D,) or None. Every example's input (without the constant
1) and target are projected to norm <= T_z before its coefficients are computed; the caller must do that, example by
example, and nothing here can check it. With x = [input; 1], u_h = w_h^T x and a loss g_h(u_h) of each unit, an example
adds to the layer's sums

    a = sum_h g - u g' + u^2 g''/2        b_h = (g' - u g'') x        C_h = g'' x x^T / 2

(no 1/(2B)). Adding or removing one example changes a sum by that example's term, so an upper bound of the term's
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

from dpmac.checks import ArgumentError, integer, number
from dpmac.nets.activations import Activation
from dpmac.nets.activations import activation as activation_named
from dpmac.nets.losses import Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from dpmac.nets.sups import cells, joint, shells

ROUND_UP = 1 + 1e-6


@dataclass(frozen=True)
class Sensitivity:
    """L2 sensitivities, under adding or removing one example, of a layer's sums a, b and C (Frobenius), each alone.

    b and C are 0 if no admissible example can move them (ReLU units that are never on): nothing is learnt from them.
    """

    a: float
    b: float
    C: float

    def least(self, other: Sensitivity) -> Sensitivity:
        """The smaller of the two for each coefficient: sound if both are."""
        return Sensitivity(min(self.a, other.a), min(self.b, other.b), min(self.C, other.C))


@dataclass(frozen=True)
class _Reach:
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


def _reach(weight: Tensor, bias: Tensor | None, T_z: float) -> _Reach:
    T_z = _radius(T_z)
    if not isinstance(weight, Tensor) or weight.dim() != 2 or 0 in weight.shape:
        shown = tuple(weight.shape) if isinstance(weight, Tensor) else weight
        raise ArgumentError("weight", shown, "give a matrix of shape (units, inputs)")
    if bias is not None and (not isinstance(bias, Tensor) or bias.shape != weight.shape[:1]):
        shown = tuple(bias.shape) if isinstance(bias, Tensor) else bias
        raise ArgumentError("bias", shown, f"give a vector of {len(weight)} numbers, one for each unit, or None")
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and not bool(torch.isfinite(tensor).all()):
            raise ArgumentError(name, float(tensor[~torch.isfinite(tensor)][0]), "every entry must be finite")
    weight = weight.detach().double()
    bias = None if bias is None else bias.detach().double()
    radius = torch.linalg.vector_norm(weight, dim=1) * T_z * (1 + 1e-12)
    centre = torch.zeros_like(radius) if bias is None else bias
    largest = float((radius + centre.abs()).amax())
    if largest > 1e30:  # fourth powers must not overflow
        raise ArgumentError("weight", largest, "||w_h|| T_z + |bias_h| must not exceed 1e30")
    return _Reach(weight, bias, T_z, _input_norm(T_z, bias is not None), centre - radius, centre + radius)


def _radius(T_z: float) -> float:
    return number("T_z", T_z, "give a finite number above 0 (from 1e-30 to 1e30)", low=1e-30, high=1e30)


def _input_norm(T_z: float, bias: bool) -> float:
    return math.sqrt(T_z * T_z + 1) if bias else T_z


def _up(a: float | Tensor, b: float | Tensor, C: float | Tensor) -> Sensitivity:
    return Sensitivity(*(float(value) * ROUND_UP for value in (a, b, C)))


def _norm(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values))


# --- squared error ----------------------------------------------------------------------------------------------------


def general(activation: str | Activation, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:
    """Squared error, any activation, from alpha, beta, gamma: the sups of |f|, |f'|, |f''| over the reach of each unit.

    By the triangle inequality |p| <= alpha + beta rho + gamma rho^2/2, |r| <= (alpha + beta rho)^2 + alpha gamma rho^2,
    |phi| <= beta + gamma rho, |s| <= alpha (beta + gamma rho) + beta^2 rho, |t| <= beta^2 + alpha gamma (see
    :mod:`dpmac.nets.sups` for these functions), and then as in :func:`certified`. Simple, and loose for large weights.
    """
    act, reach = activation_named(activation), _reach(weight, bias, T_z)
    grid, rho = cells(act, float(reach.rho.amax())), reach.rho
    index = grid.index(reach.low, reach.high)
    alpha, beta, gamma = (grid.sup(values, index) for values in (grid.f, grid.df, grid.d2f))
    p = alpha + beta * rho + gamma * rho.square() / 2
    r = (alpha + beta * rho).square() + alpha * gamma * rho.square()
    phi = beta + gamma * rho
    return _combine(
        reach, p, float(r.sum()), alpha * phi + beta.square() * rho, phi, beta.square() + alpha * gamma, gamma
    )


def _combine(reach: _Reach, p: Tensor, r: float, s: Tensor, phi: Tensor, t: Tensor, d2f: Tensor) -> Sensitivity:
    """From bounds per unit (r: of the sum): a by Cauchy-Schwarz, b and C by ||s - z phi|| <= ||s|| + ||z|| max phi."""
    T, T_in = reach.T_z, reach.T_in
    b = 2 * T_in * (_norm(s) + T * float(phi.amax()))
    return _up(T**2 + 2 * T * _norm(p) + r, b, T_in**2 * (_norm(t) + T * float(d2f.amax())))


def certified(activation: str | Activation, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:
    """Squared error, any activation, from certified sups (hats) of the coefficient functions over each unit's reach:

        a <= T_z^2 + 2 T_z ||p^|| + sum r^    b <= 2 T_in (||s^|| + T_z max phi^)    C <= T_in^2 (||t^|| + T_z max f''^)

    since a = ||z||^2 - 2 z^T p + sum r, ||b|| = 2 ||s - z phi|| ||x|| and ||C|| = ||t - z f''|| ||x||^2. (A negative a
    is bounded too: -a = 2 z^T p - ||z||^2 - sum r <= 2 T_z ||p^|| + sum (-r)^.) These hold unit by unit, as if every
    unit could be at its worst at once; :func:`dpmac.nets.sups.joint` tightens them by what ties the units together, and
    the smaller is kept.
    """
    act, reach = activation_named(activation), _reach(weight, bias, T_z)
    grid = cells(act, float(reach.rho.amax()))
    index = grid.index(reach.low, reach.high)
    rise, fall = (float(grid.sup(values, index).sum()) for values in (grid.rise, grid.fall))
    p, s, phi, t, d2f = (grid.sup(values, index) for values in (grid.p, grid.s, grid.phi, grid.t, grid.d2f))
    alone = _combine(reach, p, max(rise, fall - reach.T_z**2), s, phi, t, d2f)
    return alone.least(_up(*joint(grid, shells(grid, reach.weight, reach.bias, reach.T_z), reach.T_z)))


# --- closed forms -----------------------------------------------------------------------------------------------------


def softplus_weight_free(D: int, T_z: float, bias: bool) -> Sensitivity:
    """Squared error and softplus, for any weights whatever: the sups over all u, in closed form.

    f' = sigma, and f''' has the sign of -u. So p' = f'''u^2/2 makes p largest at 0, where it is ln 2, and it falls to 0
    on either side. phi' = -u f''' >= 0: phi grows from 0 to 1. f'' <= 1/4. t' = sigma' (3 sigma - f (2 sigma - 1)) is
    positive up to the one u* = 3.0977 at which f = 3 sigma / (2 sigma - 1) (f grows, the right side falls) and negative
    after it; t, r >= 0 and r' = u^2 t', so both are largest there: t <= 1.045334, r <= 1.277894. s' = -u t' makes s
    grow from 0 to ln(2)/2 at 0, fall to -0.2321 at u*, and grow to 0: |s| <= ln(2)/2.
    """
    D, T_z = integer("D", D, "give the number of units, 1 or more"), _radius(T_z)
    T_in, root = _input_norm(T_z, bias), math.sqrt(D)
    a = T_z**2 + 2 * T_z * math.log(2) * root + 1.277894 * D
    return _up(a, T_in * (math.log(2) * root + 2 * T_z), T_in**2 * (1.045334 * root + T_z / 4))


def relu(D: int, T_z: float, bias: bool) -> Sensitivity:
    """Squared error and ReLU, for any weights: f'' = 0, f' is 0 or 1 and f = f'u, so p = r = s = 0, phi = f', t = f'^2.

    So a = ||z||^2, b_h = -2 z_h f' x and C_h = f'^2 x x^T.
    """
    D, T_z = integer("D", D, "give the number of units, 1 or more"), _radius(T_z)
    T_in = _input_norm(T_z, bias)
    return _up(T_z**2, 2 * T_z * T_in, math.sqrt(D) * T_in**2)


def identity(D: int, T_z: float, bias: bool) -> Sensitivity:
    """Squared error without an activation: as :func:`relu` with f' = 1 everywhere; attained."""
    return relu(D, T_z, bias)


# --- cross-entropy ----------------------------------------------------------------------------------------------------


def sigmoid_cross_entropy(weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:
    """g = softplus(u) - y u with y in [0, 1] (its norm need not be bounded; the input's must be).

    a = sum p(u), free of y, with p of softplus: positive, largest at 0 (see :func:`softplus_weight_free`) and so at the
    reachable u nearest to 0; at most ln 2. b_h = (phi(u) - y) x with phi = sigma - u sigma' growing from 0 to 1 and
    phi(-u) = 1 - phi(u), so |phi - y| <= max(phi(high), phi(-low)) <= phi(rho). C_h = sigma' x x^T / 2, where
    sigma' <= 1/4 falls with |u|.
    """
    reach = _reach(weight, bias, T_z)
    nearest = torch.zeros_like(reach.low).clamp(min=reach.low, max=reach.high)
    slope = torch.sigmoid(nearest) * torch.sigmoid(-nearest)
    log_odds = torch.logaddexp(nearest, torch.zeros_like(nearest))
    p = log_odds - nearest * torch.sigmoid(nearest) + 0.5 * nearest.square() * slope
    end = torch.maximum(reach.high, -reach.low)
    phi = torch.sigmoid(end) - end * torch.sigmoid(end) * torch.sigmoid(-end)
    return _up((p + 1e-12 * (1 + nearest.abs())).sum(), reach.T_in * _norm(phi), reach.T_in**2 * _norm(slope) / 2)


def softmax_cross_entropy(weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:
    """g = logsumexp(u) - y^T u with y a distribution, expanded with the diagonal q_h = p_h (1 - p_h) of the curvature.

    Over the reach, p_h lies in [l_h, h_h] (its own u at one end, all others at the other); let q^_h be the largest
    q_h and k_h the largest p_h (1 - p_h)^2 there (at most 1/4, at 1/2, and 4/27, at 1/3). Since q_h^2 <= k_h p_h and
    sum p_h = 1, sum c_h q_h^2 <= max c_h k_h for any c_h >= 0.

    C: ||C|| = ||q|| ||x||^2 / 2, with ||q||^2 at most sum q^_h^2 and max k_h.
    b: b_h = (p_h - y_h - u_h q_h) x. ||p - y|| is convex in y, so largest at a vertex k, where its square is
    (1 - p_k)^2 + sum_{j != k} p_j^2 <= (1 - l_k)^2 + (1 - l_k) max_j min(h_j, 1 - l_k) <= 2; and ||u q||^2 is at most
    sum rho_h^2 q^_h^2, max rho_h^2 k_h and ||u||^2 max q^_h^2.
    a: the y cancels and a = H(p) + sum u_h^2 q_h / 2 with the entropy H <= ln D; sum u_h^2 q_h is at most
    sum rho_h^2 q^_h, max rho_h^2 (1 - l_h) and ||u||^2 max q^_h. It grows with the size of the logits, and
    must: with all logits equal to v, a = ln D + v^2 (1 - 1/D) / 2.
    """
    reach = _reach(weight, bias, T_z)
    D, rho = len(reach.low), reach.rho
    others = ~torch.eye(D, dtype=torch.bool)
    apart = torch.where(others, 0.0, -math.inf)  # leaves the unit itself out of a sum over the others
    high = torch.sigmoid(reach.high - torch.logsumexp(reach.low + apart, dim=1))
    low = torch.sigmoid(reach.low - torch.logsumexp(reach.high + apart, dim=1))
    tiny = 1e-12  # probabilities within rounding of 0 or 1 are neither
    q = _at_nearest(0.5, low, high, 1) + tiny
    k = _at_nearest(1 / 3, low, high, 2) + tiny
    size = float(
        shells(cells(activation_named("identity"), float(rho.amax())), reach.weight, reach.bias, reach.T_z).most[-1]
    )
    curve = min(float(q.square().sum()), float(k.amax()), 1.0)
    moved = min(float((rho * q).square().sum()), float((rho.square() * k).amax()), size * float(q.amax()) ** 2)
    miss = 1 - low + tiny
    off = torch.where(others, torch.minimum(high, miss[:, None]), 0.0).amax(dim=1)
    gap = min(float((miss.square() + miss * off).amax()), 2.0)
    bent = min(float((rho.square() * q).sum()), float((rho.square() * miss).amax()), size * float(q.amax()))
    a = math.log(D) + bent / 2 + tiny
    return _up(a, reach.T_in * (math.sqrt(gap) + math.sqrt(moved)), reach.T_in**2 * math.sqrt(curve) / 2)


def _at_nearest(peak: float, low: Tensor, high: Tensor, power: int) -> Tensor:
    """Largest p (1 - p)^power for p in [low, high]: it rises to ``peak`` and falls after it."""
    p = torch.full_like(low, peak).clamp(min=low, max=high)
    return p * (1 - p) ** power


def layer_sensitivity(loss: Loss, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:
    """The tightest of the proven bounds for a layer of this loss, for each of a, b and C.

    Targets must be what the loss supposes: norm <= T_z for squared error, in [0, 1] for the sigmoid's cross-entropy, a
    distribution for the softmax's.
    """
    if isinstance(loss, SigmoidCrossEntropy):
        return sigmoid_cross_entropy(weight, bias, T_z)
    if isinstance(loss, SoftmaxCrossEntropy):
        return softmax_cross_entropy(weight, bias, T_z)
    if not isinstance(loss, SquaredError):
        raise ArgumentError("loss", loss, "no sensitivity is proven for it; use squared error or a cross-entropy")
    name = loss.activation.name
    if name in ("relu", "identity"):
        reach = _reach(weight, bias, T_z)
        return relu(len(reach.low), reach.T_z, bias is not None).least(certified(loss.activation, weight, bias, T_z))
    best = certified(loss.activation, weight, bias, T_z).least(general(loss.activation, weight, bias, T_z))
    if name == "softplus":
        best = best.least(softplus_weight_free(len(weight), T_z, bias is not None))
    return best
