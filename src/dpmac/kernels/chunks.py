"""Sums of outer products in single precision: chunks of rows whose products round, and by how much at most.

K2: what single precision rounds by is counted here, and set aside in every norm.

A product of double precision takes twice as long as one of single. What single precision rounds is counted instead, in
:data:`SINGLE_MARGIN`, and every norm that a bound and the door go by has room for it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

CHUNK = 256  # rows in one single-precision product, at most
GROUP = 8  # such products, of so many rows, that are added up in single precision; of fewer, more: see group_of
_UNITS = 2 * CHUNK**2 + CHUNK * GROUP * (GROUP + 1)  # what all that can be off by, in units of 2**-24
SINGLE_MARGIN = _UNITS * 2.0**-24 * 1.001  # of a share's bound; see in_chunks
_SMALL = 1 << 15  # numbers of a product for which a batched kernel is the quicker one on a CPU


def in_chunks(left: Tensor, right: Tensor, one: bool, together: int = 1) -> Tensor:
    """left^T [right, 1] of single-precision factors: products of c rows, a chunk,
    added up in single precision g at a time, a group, and those in double precision.

    With every share within its bound, in units of that bound and u = 2^-24: a chunk's product is off by
    gamma_c sum_n |left[n]| |right[n]|^T at most in every entry (gamma_k = k u / (1 - k u), in whatever order a
    kernel adds), so by c^2 u in norm; the j-th addition of a group by j c u (added two by two, or in any other order,
    by less in all: each addition is off by u times what is below it in the tree). Only the chunk of the row that comes
    or goes, and the additions behind it, can round differently: twice that, (2 c^2 + c g (g + 1)) u, is
    :data:`SINGLE_MARGIN` at most.
    """
    width, units = right.shape[1], left.shape[1]
    if left.shape[0] == 0:
        return left.new_zeros((units, width + one), dtype=torch.float64)
    on_gpu, chunk = left.device.type != "cpu", chunk_of(left.shape[0], together)
    many = on_gpu or left.shape[0] > chunk * group_of(chunk)
    products = left.new_empty(units, width, dtype=torch.float64 if many else torch.float32)
    (_batched if on_gpu or units * width <= _SMALL else _one_by_one)(left, right, products, chunk)
    return with_last_column(products, _sums(left)) if one else products


def chunk_of(rows: int, together: int = 1) -> int:
    """Rows in a chunk, CHUNK at most: chunks of one length if there can be such, with no remainder to treat apart.

    A multiple of ``together``, a power of two up to CHUNK, as the number of rows is: no person is cut in two.
    """
    even, rest = divmod(rows, max(1, -(-rows // CHUNK)))
    return even if rest == 0 and even > 0 and even % together == 0 else CHUNK


def group_of(chunk: int) -> int:
    """How many chunks of so many rows are added up in single precision at most: GROUP of them if they are of CHUNK."""
    return (math.isqrt(1 + 4 * ((_UNITS - 2 * chunk**2) // chunk)) - 1) // 2


def _batched(left: Tensor, right: Tensor, out: Tensor, chunk: int) -> None:
    """All whole chunks at one go."""
    whole = left.shape[0] // chunk * chunk
    a, b = (t[:whole].reshape(-1, chunk, t.shape[1]) for t in (left, right))
    sums = (
        [group.sum(dim=0) for group in torch.split(torch.bmm(a.transpose(1, 2), b), group_of(chunk))] if whole else []
    )
    if whole < left.shape[0]:
        sums.append(left[whole:].T @ right[whole:])
    out.copy_(sums[0])
    for more in sums[1:]:
        out.add_(more.to(out.dtype))  # (of two kinds at once, torch takes five times as long)


def _one_by_one(left: Tensor, right: Tensor, out: Tensor, chunk: int) -> None:
    """Large products, made where they are wanted."""
    more = left.new_empty(out.shape)
    sums = out if out.dtype == left.dtype else torch.empty_like(more)
    step = chunk * group_of(chunk)
    for first in range(0, left.shape[0], step):
        for start in range(first, min(first + step, left.shape[0]), chunk):
            rows = slice(start, start + chunk)
            torch.mm(left[rows].T, right[rows], out=sums if start == first else more)
            _ = sums if start == first else sums.add_(more)
        if sums is not out:
            _ = out.copy_(sums) if first == 0 else out.add_(sums.double())


def _sums(rows: Tensor) -> Tensor:
    """The sum over rows, 32 at a time in single precision, those in double: as exact as :func:`in_chunks`, and more.

    That of one group may be rounded to single precision in the end: by c g u at most, less than its additions.
    """
    whole = rows.shape[0] // 32 * 32
    total = rows[:whole].reshape(-1, 32, rows.shape[1]).sum(dim=1).sum(dim=0, dtype=torch.float64)
    return total if whole == rows.shape[0] else total + rows[whole:].sum(dim=0)


def exactly(left: Tensor, right: Tensor, one: bool) -> Tensor:
    """The same in double precision."""
    products = left.T @ right
    return with_last_column(products, left.sum(dim=0)) if one else products


def with_last_column(matrix: Tensor, last: Tensor) -> Tensor:
    """The matrix with one column more (much quicker than ``torch.cat`` along rows)."""
    whole = matrix.new_empty(matrix.shape[0], matrix.shape[1] + 1)
    whole[:, :-1] = matrix
    whole[:, -1] = last
    return whole
