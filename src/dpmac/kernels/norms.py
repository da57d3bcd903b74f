"""Norms of rows, and products in which 0 times anything is 0.

K1: in double precision a norm is off by at most (d / 2 + 8) u; in single precision it is rounded up.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def row_norms(rows: Tensor) -> Tensor:
    """Euclidean norm of each row (..., d), accumulated in double precision; no square underflows or overflows."""
    unit, largest = norms_and_scales(rows)
    return unit * largest


def norms_and_scales(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The norm of each row as two factors, so that products of norms can be computed without underflow.

    Double-precision rows are divided by their largest entry first; squares of single-precision numbers are safe in
    double precision.
    """
    if not rows.dtype.is_floating_point:
        rows = rows.double()
    if rows.dtype != torch.float64:
        norms: Tensor = torch.linalg.vector_norm(rows.float(), dim=-1, dtype=torch.float64)
        return norms, torch.ones_like(norms)
    largest = largest_entries(rows)
    scaled: Tensor = torch.linalg.vector_norm(rows / largest, dim=-1)
    return scaled, largest.squeeze(-1)


def single_norms(rows: Tensor) -> Tensor:
    """Norms of single-precision rows, computed in single precision and never below the true ones.

    Adding d squares in any order has a relative error of at most d u, u = 2^-24. Terms that underflow are below 2^-126
    each; overflow gives infinity.
    """
    d = rows.shape[-1]
    found: Tensor = torch.linalg.vector_norm(rows, dim=-1).double()
    return found.mul_(1.0 + (d + 4) * 2.0**-24).add_(math.sqrt(d) * 2.0**-63)


def largest_entries(rows: Tensor) -> Tensor:
    """The largest absolute entry along the last dimension, kept as a dimension; 1 where it is 0 or not finite."""
    if rows.shape[-1] == 0:
        return rows.new_ones(*rows.shape[:-1], 1)
    largest = rows.abs().amax(dim=-1, keepdim=True)
    return torch.where((largest > 0) & torch.isfinite(largest), largest, 1.0)


def times(values: Tensor, factors: Tensor) -> Tensor:
    """Rows of ``values`` times ``factors`` in double precision, where 0 times anything is 0."""
    column = factors.double().reshape(-1, *[1] * (values.dim() - 1))
    return torch.where(column == 0, 0.0, values.double() * column)


def kept(values: Tensor, factors: Tensor) -> Tensor:
    """``values`` with the rows of factor 0 set to zero, so that 0 * inf cannot reach a sum."""
    return torch.where((factors == 0).reshape(-1, *[1] * (values.dim() - 1)), 0.0, values)
