"""Cross-entropy: sensitivities of an output layer for the sigmoid and the softmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dpmac.analytic.cells import cells
from dpmac.analytic.sensitivity import Sensitivity, reach_of, rounded_up
from dpmac.analytic.shells import norm, shells
from dpmac.nets.activations import IDENTITY


def sigmoid_cross_entropy(weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:
    """g = softplus(u) - y u with y in [0, 1] (its norm need not be bounded; the input's must be).

    a = sum p(u), free of y, with p of softplus: positive, largest at 0 (see ``SOFTPLUS_SUPS``) and so at the
    reachable u nearest to 0; at most ln 2. b_h = (phi(u) - y) x with phi = sigma - u sigma' growing from 0 to 1 and
    phi(-u) = 1 - phi(u), so |phi - y| <= max(phi(high), phi(-low)) <= phi(rho). C_h = sigma' x x^T / 2, where
    sigma' <= 1/4 falls with |u|.
    """
    reach = reach_of(weight, bias, T_z)
    nearest = torch.zeros_like(reach.low).clamp(min=reach.low, max=reach.high)
    slope = torch.sigmoid(nearest) * torch.sigmoid(-nearest)
    log_odds = torch.logaddexp(nearest, torch.zeros_like(nearest))
    p = log_odds - nearest * torch.sigmoid(nearest) + 0.5 * nearest.square() * slope
    end = torch.maximum(reach.high, -reach.low)
    phi = torch.sigmoid(end) - end * torch.sigmoid(end) * torch.sigmoid(-end)
    return rounded_up((p + 1e-12 * (1 + nearest.abs())).sum(), reach.T_in * norm(phi), reach.T_in**2 * norm(slope) / 2)


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
    reach = reach_of(weight, bias, T_z)
    D, rho = len(reach.low), reach.rho
    others = ~torch.eye(D, dtype=torch.bool)
    without_itself = torch.where(others, 0.0, -math.inf)  # leaves the unit itself out of a sum over the others
    high = torch.sigmoid(reach.high - torch.logsumexp(reach.low + without_itself, dim=1))
    low = torch.sigmoid(reach.low - torch.logsumexp(reach.high + without_itself, dim=1))
    tiny = 1e-12  # probabilities within rounding of 0 or 1 are neither
    q = _at_nearest(0.5, low, high, 1) + tiny
    k = _at_nearest(1 / 3, low, high, 2) + tiny
    size = float(shells(cells(IDENTITY, float(rho.amax())), reach.weight, reach.bias, reach.T_z).most[-1])
    curve = min(float(q.square().sum()), float(k.amax()), 1.0)
    moved = min(float((rho * q).square().sum()), float((rho.square() * k).amax()), size * float(q.amax()) ** 2)
    miss = 1 - low + tiny
    off = torch.where(others, torch.minimum(high, miss[:, None]), 0.0).amax(dim=1)
    gap = min(float((miss.square() + miss * off).amax()), 2.0)
    bent = min(float((rho.square() * q).sum()), float((rho.square() * miss).amax()), size * float(q.amax()))
    a = math.log(D) + bent / 2 + tiny
    return rounded_up(a, reach.T_in * (math.sqrt(gap) + math.sqrt(moved)), reach.T_in**2 * math.sqrt(curve) / 2)


def _at_nearest(peak: float, low: Tensor, high: Tensor, power: int) -> Tensor:
    """Largest p (1 - p)^power for p in [low, high]: it rises to ``peak`` and falls after it."""
    p = torch.full_like(low, peak).clamp(min=low, max=high)
    return p * (1 - p) ** power
