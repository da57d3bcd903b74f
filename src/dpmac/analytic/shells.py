"""All units of a layer at once: what ties them together makes their bounds tighter than unit by unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.analytic.cells import Cells


def norm(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values))


def _spectrum(matrix: Tensor) -> tuple[float, float]:
    """Bounds below and above of ||matrix v|| / ||v||; the former is 0 if there are more columns than rows."""
    wide = matrix.shape[1] > matrix.shape[0]
    if wide:
        gram = matrix @ matrix.T
    else:
        gram = matrix.T @ matrix
    values = torch.linalg.eigvalsh(gram)
    top = max(float(values[-1]), 0.0) * (1 + 1e-9)
    bottom = 0.0
    if not wide:  # rounding of eigvalsh is of the order 1e-13 top
        bottom = max(float(values[0]) - 1e-9 * top, 0.0)
    return math.sqrt(bottom), math.sqrt(top)


@dataclass(frozen=True)
class Shells:
    """The examples by the norm of their input: shell i has near_i <= ||input|| <= far_i, and, for every example in it,
    least_i <= ||u||^2 <= most_i, ||x|| <= size_i and u_h within the cells ``index[:, i, h]``."""

    size: Tensor
    least: Tensor
    most: Tensor
    index: Tensor


def shells(grid: Cells, weight: Tensor, bias: Tensor | None, T: float) -> Shells:
    """The shells of all inputs of norm <= T; ``grid`` must cover |u| <= ||w_h|| T + |bias_h|."""
    small, large = _spectrum(weight)
    # Without a lower bound on ||u|| only the largest inputs matter. Otherwise ||x||^2 grows by 8 % or so from shell to
    # shell; without a bias it starts at 0, where the first shell may be wide because its ||x|| is small.
    centre = torch.zeros(len(weight), dtype=torch.float64)
    offset, one, floor = 0.0, 0.0, 1e-2 * T * T
    all_small, all_large = small, large
    if bias is not None:
        centre, offset, one, floor = bias, norm(bias), 1.0, 1.0
        all_small, all_large = _spectrum(torch.cat([weight, bias[:, None]], dim=1))
    tied = small + all_small > 0
    count = 1
    if tied:
        count = min(32, max(1, math.ceil(math.log((T * T + one) / floor) / math.log(1.08))))
    far = (floor * ((T * T + one) / floor) ** (torch.arange(1, count + 1).double() / count) - one).clamp(min=0).sqrt()
    far[-1] = T
    near = torch.cat([torch.zeros(1, dtype=torch.float64), far[:-1]])
    radius = torch.linalg.vector_norm(weight, dim=1) * far[:, None] * (1 + 1e-12)
    low, high = centre - radius, centre + radius
    most = torch.minimum((large * far + offset).square(), all_large**2 * (far.square() + one))
    most = torch.minimum(most, torch.maximum(low.square(), high.square()).sum(dim=1)) * (1 + 1e-9)
    least = torch.maximum((small * near - offset).clamp(min=0).square(), all_small**2 * (near.square() + one))
    return Shells((far.square() + one).sqrt(), least * (1 - 1e-9), most, grid.index(low, high))


def joint(grid: Cells, rings: Shells, T: float) -> tuple[float, float, float]:
    """Bounds of |a|, ||b||, ||C|| that hold all units to one input and one target, by Lagrange multipliers.

    They are sound for any multipliers, so a coarse search for good ones is enough.
    b: ||s - z phi||^2 <= sum_h (|s| + |z_h| |phi|)^2, and for lambda > phi^2, maximising over |z_h|,
    (|s| + |z_h| |phi|)^2 <= lambda z_h^2 + s^2 / (1 - phi^2 / lambda), so the sum is at most
    lambda T_z^2 + sum_h sup_u s^2 / (1 - phi^2/lambda). C: the same with t and f''. a: 2 T_z ||p|| <= lambda T_z^2 +
    ||p||^2 / lambda, so a <= (1 + lambda) T_z^2 + sum_h sup_u (r + p^2 / lambda). (-a <= ||p||^2 - sum r, as
    2 z^T p - ||z||^2 <= ||p||^2; kept apart.) Further, least <= sum_h u_h^2 <= most gives, for any function F of u and
    any number nu, sum_h F(u_h) <= sum_h sup_u (F - nu u^2) + nu (most if nu > 0 else least). b and C are bounded shell
    by shell, with the largest ||x|| of the shell, and the worst is taken.
    """
    b = 2 * (rings.size * _worst(grid, rings, T, grid.s, grid.phi).sqrt()).amax()
    C = (rings.size.square() * _worst(grid, rings, T, grid.t, grid.d2f).sqrt()).amax()
    last = Shells(rings.size[-1:], rings.least[-1:] * 0, rings.most[-1:], rings.index[:, -1:])
    p, rise, fall = (grid.sup(values, last.index) for values in (grid.p, grid.rise, grid.fall))
    best = math.inf
    start = max(norm(p), 1e-12 * T) / T
    for power in range(-8, 5):
        multiplier = start * 2.0 ** (power / 2)
        extra = grid.rise + grid.p.square() / multiplier
        best = min(best, float(_with_size(grid, last, extra)) + (1 + multiplier) * T * T)
    below = min(float(_with_size(grid, last, grid.fall + grid.p.square())), 2 * T * norm(p) + float(fall.sum()))
    return max(min(best, T * T + 2 * T * norm(p) + float(rise.sum())), below), float(b), float(C)


def _worst(grid: Cells, rings: Shells, T: float, s: Tensor, phi: Tensor) -> Tensor:
    """Per shell, a bound of ||s - z phi||^2 over ||z|| <= T: see :func:`joint`."""
    s_hat, phi_hat = grid.sup(s, rings.index), grid.sup(phi, rings.index).amax(dim=1)
    norm = torch.linalg.vector_norm(s_hat, dim=1)
    best: Tensor = (norm + T * phi_hat).square()
    top = float(phi_hat[-1])
    if top == 0.0:
        return torch.minimum(best, _with_size(grid, rings, s.square()))
    multipliers = {
        base**2 * (1 + max(float(norm[-1]), 1e-9 * T * base) / (T * base) * 2.0**power)
        for base in {top, max(float(phi_hat[0]), 1e-3 * top)}
        for power in (-5, -3, -2, -1, 0)
    }
    for multiplier in sorted(multipliers):
        slack = 1 - phi.square() / multiplier
        extra = torch.where(slack > 0, s.square() / slack.clamp(min=1e-300), math.inf)
        best = torch.minimum(best, multiplier * T * T + _with_size(grid, rings, extra))
    return best


def _with_size(grid: Cells, rings: Shells, values: Tensor) -> Tensor:
    """Per shell, a bound of sum_h values(u_h) given least <= ||u||^2 <= most: the best of some multipliers nu."""
    plain = grid.sup(values, rings.index).sum(dim=1)
    scale = 0.0
    if bool(plain.isfinite().any()):
        scale = float(plain[plain.isfinite()].abs().amax())
    most = float(rings.most[-1])
    if scale == 0.0 or most == 0.0:
        return plain
    steps = torch.linspace(-3, 2, 16 if len(plain) == 1 else 6, dtype=torch.float64)  # one shell is cheap: look closer
    up = (scale / most) * 4.0**steps
    nu = up
    if float(rings.least.amax()) > 0:
        nu = torch.cat([up, -up])
    nu = nu[:, None]
    # nu u^2 is taken off at the end of the cell where it is least
    offset = torch.where(nu > 0, nu * grid.near.square(), nu * grid.far.square())
    sums = grid.sup(values - offset, rings.index).sum(dim=2)
    tied = sums + torch.where(nu > 0, nu * rings.most, nu * rings.least)
    best: Tensor = torch.minimum(plain, tied.amin(dim=0))
    return best
