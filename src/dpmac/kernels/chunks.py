"""Sums of outer products in single precision: the chunks of rows that are multiplied at a time, and their rounding.

K2: the rounding error of single precision is bounded here, and a margin for it is part of every norm.

A double-precision product takes twice as long as a single-precision one. Instead, we bound the rounding error of single
precision by :data:`SINGLE_MARGIN`, and add this margin to every norm that a bound or the release uses.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

CHUNK = 256  # maximal number of rows in one single-precision product
GROUP = 8  # number of products of CHUNK rows added in single precision; more if they have fewer rows, see group_of
_UNITS = 2 * CHUNK**2 + CHUNK * GROUP * (GROUP + 1)  # bound on the total rounding error, in units of 2**-24
SINGLE_MARGIN = _UNITS * 2.0**-24 * 1.001  # relative to a share's bound; see in_chunks
_SMALL = 1 << 15  # up to this many entries of a product, a batched kernel is faster on a CPU


def in_chunks(left: Tensor, right: Tensor, one: bool, spots_per_place: int = 1) -> Tensor:
    """left^T [right, 1] for single-precision factors: products of b rows (a chunk) are added in single precision, h
    products at a time (a group), and the groups in double precision.

    Rounding error, if every share is within its bound, in units of that bound and with u = 2^-24: every entry of a
    chunk's product is off by at most gamma_b sum_n |left[n]| |right[n]|^T (gamma_b = b u / (1 - b u), in whatever order
    a kernel adds), so the product is off by b^2 u in norm. The j-th addition of a group is off by j b u (pairwise
    summation, or any other order, is off by less in total: each addition is off by u times what is below it in the
    tree). Only the chunk of the row that appears or disappears, and the additions after it, can round differently:
    twice that error, (2 b^2 + b h (h + 1)) u, is at most :data:`SINGLE_MARGIN`.
    """
    width, units = right.shape[1], left.shape[1]
    if left.shape[0] == 0:
        return left.new_zeros((units, width + one), dtype=torch.float64)
    on_gpu, chunk = left.device.type != "cpu", chunk_of(left.shape[0], spots_per_place)
    dtype = torch.float32
    if on_gpu or left.shape[0] > chunk * group_of(chunk):
        dtype = torch.float64  # several groups
    products = left.new_empty(units, width, dtype=dtype)
    if on_gpu or units * width <= _SMALL:
        _batched(left, right, products, chunk)
    else:
        _one_by_one(left, right, products, chunk)
    if one:
        return with_last_column(products, _sums(left))
    return products


def chunk_of(rows: int, spots_per_place: int = 1) -> int:
    """The number of rows in a chunk, at most CHUNK: chunks of equal length if possible, without a remainder.

    A multiple of ``spots_per_place``, which is a power of two up to CHUNK that divides the number of rows: no person's
    rows are split.
    """
    even, rest = divmod(rows, -(-rows // CHUNK))
    if rest == 0 and even % spots_per_place == 0:
        return even
    return CHUNK


def group_of(chunk: int) -> int:
    """The maximal number of chunks of ``chunk`` rows that are added in single precision: GROUP for CHUNK rows."""
    return (math.isqrt(1 + 4 * ((_UNITS - 2 * chunk**2) // chunk)) - 1) // 2


def _batched(left: Tensor, right: Tensor, out: Tensor, chunk: int) -> None:
    """All whole chunks in one batched product."""
    whole = left.shape[0] // chunk * chunk
    sums = list[Tensor]()
    if whole:
        a, b = (t[:whole].reshape(-1, chunk, t.shape[1]) for t in (left, right))
        sums = [group.sum(dim=0) for group in torch.split(torch.bmm(a.transpose(1, 2), b), group_of(chunk))]
    if whole < left.shape[0]:
        sums.append(left[whole:].T @ right[whole:])
    out.copy_(sums[0])
    for more in sums[1:]:
        out.add_(more.to(out.dtype))  # (torch takes five times as long for mixed dtypes)


def _one_by_one(left: Tensor, right: Tensor, out: Tensor, chunk: int) -> None:
    """One product at a time, for large products; written to ``out`` directly if there is one group."""
    more, sums = left.new_empty(out.shape), out
    if out.dtype != left.dtype:
        sums = torch.empty_like(more)
    step = chunk * group_of(chunk)
    for first in range(0, left.shape[0], step):
        torch.mm(left[first : first + chunk].T, right[first : first + chunk], out=sums)
        for start in range(first + chunk, min(first + step, left.shape[0]), chunk):
            rows = slice(start, start + chunk)
            torch.mm(left[rows].T, right[rows], out=more)
            sums.add_(more)
        if sums is not out and first == 0:
            out.copy_(sums)
        elif sums is not out:
            out.add_(sums.double())


def _sums(rows: Tensor) -> Tensor:
    """The sum over rows, 32 at a time in single precision and these in double: no less exact than :func:`in_chunks`.

    The sum of one group may be rounded to single precision at the end: by at most c g u, less than its additions.
    """
    whole = rows.shape[0] // 32 * 32
    total = rows[:whole].reshape(-1, 32, rows.shape[1]).sum(dim=1).sum(dim=0, dtype=torch.float64)
    if whole < rows.shape[0]:
        total = total + rows[whole:].sum(dim=0)
    return total


def exactly(left: Tensor, right: Tensor, one: bool) -> Tensor:
    """The same in double precision."""
    products = left.T @ right
    if one:
        return with_last_column(products, left.sum(dim=0))
    return products


def with_last_column(matrix: Tensor, last: Tensor) -> Tensor:
    """The matrix with one more column (much faster than ``torch.cat`` along rows)."""
    whole = matrix.new_empty(matrix.shape[0], matrix.shape[1] + 1)
    whole[:, :-1] = matrix
    whole[:, -1] = last
    return whole
