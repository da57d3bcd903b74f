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
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.nets.activations import Activation

COUNT = 1500  # cells on either side of 0; widths grow with |u|, so the reach may be large
ROUNDING = 1e-13  # of the terms that make up a coefficient: far above their rounding errors in double precision


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
    if activation.third is None:
        fix = "no bound of its third derivative is known: give it one (Activation.third), or use one of ours"
        raise ArgumentError("activation", activation.name, fix)
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
    third = activation.third(near, u)
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
