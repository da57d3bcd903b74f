"""A Z-step in closed form: the Gauss-Newton minimum over all layers' errors at once, one small solve per example.

With J_k = du_out/de_k at the forward values, e_k the error added to hidden layer k, and the output loss expanded to
second order in the output's pre-activation (slope g, Hessian H, both with the loss's weight), the minimum of
mu/2 sum_k ||e_k||^2 + loss(u_out + sum_k J_k e_k) is

    e_k = -J_k^T v        (mu I + H S) v = g        S = sum_k J_k J_k^T                              (the solve)

so it is back-propagation's sweep with v in the place of the slope. H S is not symmetric; with H = A A^T

    (mu I + A A^T S)^{-1} = (I - A (mu I + A^T S A)^{-1} A^T S) / mu

needs a Cholesky factor only, of a matrix that is at least mu I whatever the network.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, number
from dpmac.mac.coordinates import Coordinates, forward_values
from dpmac.nets.layers import Dense
from dpmac.nets.losses import Loss
from dpmac.nets.network import Network
from dpmac.nets.stages import Stage

SLICE = 2**26  # bytes of Jacobians to take at a time: more is no faster, it only leaves the cache
LIMIT = 2**30  # bytes of one example's Jacobians, above which a network is refused
ROUNDING = 1e-12  # of the trace: a mu below it would be lost in double precision's rounding of A^T S A


@dataclass(frozen=True)
class GaussNewton:
    """Gauss-Newton targets: z_k = f_k + e_k at the forward values, e_k from the solve above. No steps, no rate.

    ``mu`` runs from Gauss-Newton (small: the e_k together take the output to the minimum of its expanded loss) to
    back-propagation (large: mu e_k tends to minus its gradient). Inputs are the forward values, so layer k's residual
    is exactly e_k; in float32 it is held to about 1e-7 ||f_k||, so give doubles if mu is to be very large.

    H is the loss's Hessian in u (``Loss.hessian_root``): diag(p (1 - p)) for sigmoid, diag(p) - p p^T for softmax, and
    for squared error its Gauss-Newton part diag(f'^2), which is the whole for an identity output.

    Memory: rows x d_out x (2 widest hidden layer + 4 d_out) doubles. Rows go in slices that keep this near 64 MiB;
    a slice's length follows from the network's sizes alone. The number of rows is secret under Poisson sampling, so it
    decides nothing here; a network of which one single row would take more than 1 GiB is refused.

    Row n depends on example n and the weights alone. An example whose solve is not finite gets coordinates that are
    not finite, and the bound makes its share zero; it never raises and leaves every other row as it is, bit for bit.
    """

    mu: float = 1.0

    def __post_init__(self) -> None:
        fix = "give a penalty above 0: 1, or less for stronger Gauss-Newton targets, or more for back-propagation"
        number("mu", self.mu, fix, low=0.0, high=1e12, strict=True)

    @torch.no_grad()
    def solve(self, network: Network, loss: Loss, x: Tensor, y: Tensor) -> Coordinates:
        us, values = forward_values(network, x)
        stages = network.stages
        exact = [copy.deepcopy(stage.layer).double() for stage in stages]  # where J_k^T has a null space v is large
        stages = [replace(stage, layer=layer) for stage, layer in zip(stages, exact, strict=True)]
        targets: list[Tensor] = [y]
        slopes = y
        if values:
            slopes = self._output(stages, loss, us, values, y)
        for k in range(len(values) - 1, -1, -1):
            value = values[k].double()
            carried = stages[k + 1].back(slopes, value)
            targets.insert(0, (value - carried).to(values[k].dtype))
            slopes = carried * stages[k].activation.df(us[k].double())
        return Coordinates(inputs=(x, *values), targets=tuple(targets))

    def _output(self, stages: list[Stage], loss: Loss, us: list[Tensor], values: list[Tensor], y: Tensor) -> Tensor:
        """v of every row, a slice at a time."""
        size = rows_at_once(stages)
        starts = range(0, max(len(y), 1), size)  # an empty batch is one empty slice

        def cut(tensors: list[Tensor], n: int) -> list[Tensor]:
            return [tensor[n : n + size].double() for tensor in tensors]

        return torch.cat([self._solved(stages, loss, cut(us, n), cut(values, n), *cut([y], n)) for n in starts])

    def _solved(self, stages: list[Stage], loss: Loss, us: list[Tensor], values: list[Tensor], y: Tensor) -> Tensor:
        """v = (mu I + H S)^{-1} g, one row per example, in double precision."""
        u = us[-1]
        root = loss.hessian_root(u, y)
        g = loss.weight * loss.slope(u, y)
        S = _spread(stages, us, values, len(stages) - 1)
        matrix = root.transposed(root.transposed(S.expand(len(u), -1, -1)).mT)  # A^T S A: columns, then rows
        trace = matrix.diagonal(dim1=1, dim2=2).sum(dim=1)
        mu = torch.clamp(ROUNDING * trace, min=self.mu).unsqueeze(1)
        matrix.diagonal(dim1=1, dim2=2).add_(mu)
        w = _cholesky_solved(matrix, root.transposed((S @ g.unsqueeze(2)).mT).squeeze(1))
        return (g - root.times(w)) / mu


def rows_at_once(stages: list[Stage]) -> int:
    """Rows whose Jacobians fit in :data:`SLICE`, one at least: a function of the network's public sizes alone."""
    d_out, widest = stages[-1].units, max(stage.units for stage in stages[:-1])
    each = 8 * d_out * (2 * widest + 4 * d_out)
    if each > LIMIT:
        fix = (
            f"one example's Jacobians ({d_out} outputs x {widest} units) would take {each / 2**30:.1f} GiB of memory; "
            "make the output or the widest hidden layer narrower, or use FixedPrediction() or ErrorCoordinates()"
        )
        raise ArgumentError("sizes", [stage.units for stage in stages], fix)
    return max(1, SLICE // each)


def _spread(stages: list[Stage], us: list[Tensor], values: list[Tensor], top: int) -> Tensor:
    """sum_{k < top} J_k J_k^T with J_k = du_top/de_k, (rows, d, d); S for the last layer.

    Where the Jacobian is the same for all rows (a dense layer on top of one hidden layer) there are no rows, and one
    matrix serves all. Below a layer that is narrower than the top everything passes through it, so its own (smaller)
    sum is taken, and carried up.
    """
    identity = torch.eye(stages[top].units, dtype=torch.float64, device=us[0].device)
    jacobian = _carried(stages[top], identity, values[top - 1])  # of the layer k below, and then from there on down
    spread = jacobian @ jacobian.mT
    for k in range(top - 1, 0, -1):
        scaled = jacobian * stages[k].activation.df(us[k]).flatten(1).unsqueeze(1)
        if stages[k].units < stages[top].units:
            return spread + scaled @ _spread(stages, us, values, k) @ scaled.mT
        jacobian = _carried(stages[k], scaled, values[k - 1])
        spread = spread + jacobian @ jacobian.mT
    return spread


def _carried(stage: Stage, slopes: Tensor, z: Tensor) -> Tensor:
    """Rows of slopes in a stage's pre-activation, (m, units) for all examples or (rows, m, units), carried back to z.

    A dense stage without carriers is the same map for every example, so its Jacobian needs no rows.
    """
    if isinstance(stage.layer, Dense) and not stage.carriers:
        return stage.back(slopes, z)
    every = slopes.expand(len(z), -1, -1)
    m = every.shape[1]
    flat = every.reshape(len(z) * m, *stage.shape)
    carried = stage.back(flat, z.repeat_interleave(m, dim=0))
    return carried.reshape(len(z), m, math.prod(z.shape[1:]))


def _cholesky_solved(matrix: Tensor, right: Tensor) -> Tensor:
    """matrix^{-1} right for each example; NaN in the rows (and those only) where that is not possible.

    A library may raise for the whole batch on a matrix that is not finite, and a failed factor may hold finite
    leftovers. So such a row is solved with the identity in its place, and then blanked.
    """
    fine = matrix.isfinite().flatten(1).all(dim=1)
    identity = torch.eye(matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
    factor, failed = torch.linalg.cholesky_ex(torch.where(fine.reshape(-1, 1, 1), matrix, identity))
    fine = fine & (failed == 0)
    factor = torch.where(fine.reshape(-1, 1, 1), factor, identity)
    solved = torch.cholesky_solve(right.unsqueeze(2), factor).squeeze(2)
    return torch.where(fine.unsqueeze(1), solved, math.nan)
