"""Certified one-dimensional sups: upper bounds, on cells that tile an interval, of an activation's functions.

With u a pre-activation, z a target and g = (z - f(u))^2, the second-order expansion has per-unit coefficients

    a: z^2 - 2 z p + r       b: 2 (s - z phi)       C: t - z f''          (times 1, x and x x^T)
    p = f - f'u + f''u^2/2   r = (f - f'u)^2 + f f''u^2   phi = f' - f''u   s = f phi - f'^2 u   t = f'^2 + f f''

(expand a = g - u g' + u^2 g''/2, b = g' - u g'', C = g''/2). On a cell of half-width e around a midpoint m, where f is
three times differentiable, the mean value theorem gives |F(u)| <= |F(m)| + e sup|F'|, and by differentiating

    p' = f'''u^2/2    r' = u^2 t'    phi' = -u f'''    s' = -u t'    t' = 3 f'f'' + f f'''

so bounds of |f'''| on the cells are enough: they bound f'' by the same theorem, then f', then f, then t', then the
rest. A sup over any union of cells is the largest cell bound, and so is the sup of anything increasing in them. No
monotonicity is assumed. The cells have an edge at 0, so a kink there (ReLU, ELU) lies between two cells and each cell
sees a smooth function; 0 itself belongs to the cell below it, as in the package's conventions f'(0) = 0 for ReLU and
f''(0) = 1 for ELU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.nets.activations import Activation

COUNT = 1500  # cells on either side of 0; widths grow with |u|, so the reach may be large
ROUNDING = 1e-13  # of the terms that make up a coefficient: far above their rounding errors in double precision


def _third_logistic_slope(near: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001 - even
    """Softplus: f''' = s'(1 - 2s), with s' <= e^-|u| and |1 - 2s| <= 1; its largest value is 1/(6 sqrt 3)."""
    return torch.clamp(torch.exp(-near), max=1 / (6 * math.sqrt(3)))


def _third_sigmoid(near: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001 - even
    """Sigmoid: f''' = y (1 - 6y) with y = s' in (0, 1/4], so |f'''| <= min(y, 1/8), and y <= e^-|u|."""
    return torch.clamp(torch.exp(-near), max=0.125)


def _third_tanh(near: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001 - even
    """Tanh: f''' = -2 y (3y - 2) with y = sech^2 in (0, 1], so |f'''| <= min(4y, 2), and y <= 4 e^-2|u|."""
    return torch.clamp(16 * torch.exp(-2 * near), max=2.0)


def _third_gelu(near: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001 - even
    """GELU: f''' = (u^3 - 4u) n(u), n the normal density; |f'''| peaks where u^4 - 7u^2 + 4 = 0.

    The peaks are 0.77877 at |u| = 0.79229 and 0.09874 at 2.52434, beyond which it falls. Between them it is 0 at 2.
    """
    density = torch.exp(-0.5 * near.square()) / math.sqrt(2 * math.pi)
    here = (near.pow(3) - 4 * near).abs() * density
    return torch.where(near < 0.7923, 0.7789, torch.where(near < 2.5244, torch.clamp(here, min=0.09876), here))


def _third_elu(near: Tensor, u: Tensor) -> Tensor:
    """ELU: f''' = e^u below 0 and 0 above. f'' jumps at 0, which is an edge between cells."""
    return torch.where(u < 0, torch.exp(-near), 0.0)


def _third_none(near: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001 - piecewise linear
    return torch.zeros_like(near)


# sup of |f'''| over the cell around u whose end nearer to 0 is at distance ``near``; they fall as |u| grows.
THIRD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "identity": _third_none,
    "relu": _third_none,
    "softplus": _third_logistic_slope,
    "tanh": _third_tanh,
    "sigmoid": _third_sigmoid,
    "elu": _third_elu,
    "gelu": _third_gelu,
}


@dataclass(frozen=True)
class Cells:
    """Upper bounds on the cells of [-reach, reach], from left to right; cell j is [edges[j], edges[j + 1]].

    ``near`` and ``far`` are the smallest and largest |u| of each cell, ``rise`` bounds r and ``fall`` -r (either may
    be negative); the rest bound the absolute values of the functions they are named after.
    """

    edges: Tensor
    near: Tensor
    far: Tensor
    f: Tensor
    df: Tensor
    d2f: Tensor
    p: Tensor
    rise: Tensor
    fall: Tensor
    s: Tensor
    phi: Tensor
    t: Tensor

    def index(self, low: Tensor, high: Tensor) -> Tensor:
        """The first and the last cell that meet [low, high] (tensors of one shape), stacked: for :meth:`sup`."""
        slack = 1e-6 * torch.maximum(low.abs(), high.abs())  # u may have been rounded, even to single precision
        low, high = low - slack, high + slack
        if float(low.amin()) < float(self.edges[0]) or float(high.amax()) > float(self.edges[-1]):
            reach = max(-float(low.amin()), float(high.amax()))
            raise ArgumentError("reach", reach, f"the cells cover [{float(self.edges[0])}, {float(self.edges[-1])}]")
        # A point on an edge belongs to both its cells, so that closed cells cover it whichever side f takes there.
        first = torch.searchsorted(self.edges, low) - 1
        last = torch.searchsorted(self.edges, high, right=True) - 1
        return torch.stack([first, last]).clamp(0, len(self.near) - 1)

    @staticmethod
    def sup(values: Tensor, index: Tensor) -> Tensor:
        """Largest of ``values`` (..., cells) over the cells of ``index`` (2, *shape): a tensor (..., *shape).

        Two blocks of a power of two of cells, one from either end, cover an interval: the maxima of all such blocks
        are made once, by doubling, for all intervals.
        """
        first, last = index[0].reshape(-1), index[1].reshape(-1)
        levels = torch.log2((last - first + 1).double()).floor().long()
        result = values.new_empty(*values.shape[:-1], len(first))
        block = values
        for level in range(int(levels.amax()) + 1):
            here = levels == level
            if bool(here.any()):
                left = block.index_select(-1, first[here])
                right = block.index_select(-1, last[here] - (1 << level) + 1)
                result[..., here] = torch.maximum(left, right)
            block = torch.maximum(block[..., : -(1 << level)], block[..., 1 << level :])
        return result.reshape(*values.shape[:-1], *index.shape[1:])


def cells(activation: Activation, reach: float) -> Cells:
    """The cells of [-reach, reach] with bounds for ``activation``; ``reach`` >= 0, finite.

    Widths are about ``min(1, reach) asinh(reach) / COUNT`` near 0 and grow like |u|: bounds exceed the sups by well
    under 1 % where those are not small against the width.
    """
    if activation.name not in THIRD:
        known = ", ".join(THIRD)
        raise ArgumentError("activation", activation.name, f"no bound of its third derivative is known; use {known}")
    reach = max(reach, 1e-9) * (1 + 1e-5)
    unit = min(1.0, reach)
    steps = torch.linspace(0.0, 1.0, COUNT + 1, dtype=torch.float64)
    edges = unit * torch.sinh(math.asinh(reach / unit) * steps)
    edges = torch.cat([-edges[1:].flip(0), edges])
    left, right = edges[:-1], edges[1:]
    near, far = torch.minimum(left.abs(), right.abs()), torch.maximum(left.abs(), right.abs())
    half = 0.5 * (right - left) * (1 + 1e-12)
    u = 0.5 * (left + right)

    f, df, d2f = activation.f(u), activation.df(u), activation.d2f(u)
    third = THIRD[activation.name](near, u)
    gamma = d2f.abs() + half * third
    beta = df.abs() + half * gamma
    alpha = f.abs() + half * beta
    slope_t = 3 * beta * gamma + alpha * third  # bounds |t'|

    phi = df - d2f * u
    flat = f - df * u
    r = flat.square() + f * d2f * u.square()
    slip_r = half * far.square() * slope_t + ROUNDING * ((alpha + beta * far).square() + alpha * gamma * far.square())
    slip_p = half * 0.5 * far.square() * third + ROUNDING * (alpha + beta * far + gamma * far.square())
    slip_phi = half * far * third + ROUNDING * (beta + gamma * far)
    slip_s = half * far * slope_t + ROUNDING * (alpha * (beta + gamma * far) + beta.square() * far)
    slip_t = half * slope_t + ROUNDING * (beta.square() + alpha * gamma)
    return Cells(
        edges=edges,
        near=near,
        far=far,
        f=alpha,
        df=beta,
        d2f=gamma,
        p=(flat + 0.5 * d2f * u.square()).abs() + slip_p,
        rise=r + slip_r,
        fall=slip_r - r,
        s=(f * phi - df.square() * u).abs() + slip_s,
        phi=phi.abs() + slip_phi,
        t=(df.square() + f * d2f).abs() + slip_t,
    )


# --- all units of a layer at once -----------------------------------------------------------------------------------


def _spectrum(matrix: Tensor) -> tuple[float, float]:
    """Bounds below and above of ||matrix v|| / ||v||; the former is 0 if there are more columns than rows."""
    wide = matrix.shape[1] > matrix.shape[0]
    gram = matrix @ matrix.T if wide else matrix.T @ matrix
    values = torch.linalg.eigvalsh(gram)
    top = max(float(values[-1]), 0.0) * (1 + 1e-9)
    bottom = 0.0 if wide else max(float(values[0]) - 1e-9 * top, 0.0)  # rounding of eigvalsh is of the order 1e-13 top
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
    offset = 0.0 if bias is None else _norm(bias)
    one = 0.0 if bias is None else 1.0
    all_small, all_large = (small, large) if bias is None else _spectrum(torch.cat([weight, bias[:, None]], dim=1))
    # Without a lower bound on ||u|| only the largest inputs matter. Otherwise ||x||^2 grows by 8 % or so from shell to
    # shell; without a bias it starts at 0, where the first shell may be wide because its ||x|| is small.
    floor = one if bias is not None else 1e-2 * T * T
    tied = small + all_small > 0
    count = min(32, max(1, math.ceil(math.log((T * T + one) / floor) / math.log(1.08)))) if tied else 1
    far = (floor * ((T * T + one) / floor) ** (torch.arange(1, count + 1).double() / count) - one).clamp(min=0).sqrt()
    far[-1] = T
    near = torch.cat([torch.zeros(1, dtype=torch.float64), far[:-1]])
    centre = 0.0 if bias is None else bias
    radius = torch.linalg.vector_norm(weight, dim=1) * far[:, None] * (1 + 1e-12)
    low, high = centre - radius, centre + radius
    most = torch.minimum((large * far + offset).square(), all_large**2 * (far.square() + one))
    most = torch.minimum(most, torch.maximum(low.square(), high.square()).sum(dim=1)) * (1 + 1e-9)
    least = torch.maximum((small * near - offset).clamp(min=0).square(), all_small**2 * (near.square() + one))
    return Shells((far.square() + one).sqrt(), least * (1 - 1e-9), most, grid.index(low, high))


def _norm(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values))


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
    start = max(_norm(p), 1e-12 * T) / T
    for power in range(-8, 5):
        multiplier = start * 2.0 ** (power / 2)
        extra = grid.rise + grid.p.square() / multiplier
        best = min(best, float(_with_size(grid, last, extra)) + (1 + multiplier) * T * T)
    below = min(float(_with_size(grid, last, grid.fall + grid.p.square())), 2 * T * _norm(p) + float(fall.sum()))
    return max(min(best, T * T + 2 * T * _norm(p) + float(rise.sum())), below), float(b), float(C)


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
        room = 1 - phi.square() / multiplier
        extra = torch.where(room > 0, s.square() / room.clamp(min=1e-300), math.inf)
        best = torch.minimum(best, multiplier * T * T + _with_size(grid, rings, extra))
    return best


def _with_size(grid: Cells, rings: Shells, values: Tensor) -> Tensor:
    """Per shell, a bound of sum_h values(u_h) given least <= ||u||^2 <= most: the best of some multipliers nu."""
    plain = grid.sup(values, rings.index).sum(dim=1)
    scale = float(plain[plain.isfinite()].abs().amax()) if bool(plain.isfinite().any()) else 0.0
    most = float(rings.most[-1])
    if scale == 0.0 or most == 0.0:
        return plain
    steps = torch.linspace(-3, 2, 16 if len(plain) == 1 else 6, dtype=torch.float64)  # one shell is cheap: look closer
    up = (scale / most) * 4.0**steps
    nu = torch.cat([up, -up]) if float(rings.least.amax()) > 0 else up
    nu = nu[:, None]
    # nu u^2 is taken off at the end of the cell where it is least
    offset = torch.where(nu > 0, nu * grid.near.square(), nu * grid.far.square())
    sums = grid.sup(values - offset, rings.index).sum(dim=2)
    tied = sums + torch.where(nu > 0, nu * rings.most, nu * rings.least)
    best: Tensor = torch.minimum(plain, tied.amin(dim=0))
    return best
