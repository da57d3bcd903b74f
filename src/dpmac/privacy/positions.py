"""Parts of layers whose weights serve many positions: a convolution's slope, summed over an image.

A share is a sum of outer products, one for each position, and no longer of rank one. Its norm comes from the two Gram
matrices of the positions (P^2 (d_in + d_out) operations) or by building the share (P d_in d_out), whichever is less;
that follows from shapes alone. Either way terms of different positions may cancel, so rounding is bounded against what
they were before: the norm that is given is never below the true one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.privacy.parts import kept, times

UNIT_ROUNDOFF = 2.0**-53
MEMORY = 1 << 26  # bytes of shares, or of Gram matrices, to build at a time


@dataclass(frozen=True)
class PositionPart:
    """Share n is the sum over positions p of ``left[n, p] right[n, p]^T``.

    Shares are built one by one before they are added up, so that what cancels inside a share cancels before it meets
    the others: the rounding of the sum over examples is that of shares that keep their promise.
    """

    left: Tensor  # (rows, positions, d_out)
    right: Tensor  # (rows, positions, d_in)

    @property
    def rows(self) -> int:
        return len(self.left)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.left.shape[2], self.right.shape[2])

    @property
    def by_gram(self) -> bool:
        """True where Gram matrices are the cheaper way to the norms."""
        positions, d_out, d_in = self.left.shape[1], *self.shape
        return positions * (d_in + d_out) < d_in * d_out

    def norms(self) -> Tensor:
        """An upper bound of each share's norm, above it by rounding alone (see :func:`_gram` and :func:`_built`)."""
        positions, d_out, d_in = self.left.shape[1], *self.shape
        each = 8 * 2 * positions * positions if self.by_gram else 8 * d_out * d_in
        way = _gram if self.by_gram else _built
        found = [way(*pair) for pair in self._slices(each)]
        return torch.cat(found) if found else self.left.new_zeros(0, dtype=torch.float64)

    def scaled(self, factors: Tensor) -> PositionPart:
        return PositionPart(times(self.left, factors), kept(self.right, factors))

    def total(self) -> Tensor:
        d_out, d_in = self.shape
        result = torch.zeros(d_out, d_in, dtype=torch.float64, device=self.left.device)
        for left, right in self._slices(8 * d_out * d_in):
            result += (left.double().transpose(1, 2) @ right.double()).sum(dim=0)
        return result

    def _slices(self, bytes_each: int) -> list[tuple[Tensor, Tensor]]:
        size = max(1, MEMORY // bytes_each)
        return list(zip(torch.split(self.left, size), torch.split(self.right, size), strict=True)) if self.rows else []


def _unit(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Every example's matrix over its largest entry, and that entry: no square underflows or overflows then."""
    exact = rows.double()
    largest = exact.abs().amax(dim=(1, 2)) if exact.shape[1] * exact.shape[2] else exact.new_zeros(len(exact))
    safe = torch.where((largest > 0) & torch.isfinite(largest), largest, 1.0)
    return exact / safe.reshape(-1, 1, 1), safe


def _terms(left: Tensor, right: Tensor) -> Tensor:
    """sum_p ||left_p|| ||right_p||: what the share's norm would be if nothing cancelled."""
    lengths: Tensor = torch.linalg.vector_norm(left, dim=2) * torch.linalg.vector_norm(right, dim=2)
    return lengths.sum(dim=1)


def _gram(left: Tensor, right: Tensor) -> Tensor:
    """||sum_p l_p r_p^T||^2 = sum_pq (l_p^T l_q) (r_p^T r_q).

    An inner product of length d is off by at most d u times the product of the norms, in whatever order it is summed, a
    sum of P^2 products by P^2 u times the sum of their sizes; so the whole by (d_out + d_in + P^2 + 4) u times
    (sum_p ||l_p|| ||r_p||)^2. Twice that is added.
    """
    (left, a), (right, b) = _unit(left), _unit(right)
    squared = ((left @ left.transpose(1, 2)) * (right @ right.transpose(1, 2))).sum(dim=(1, 2))
    count = left.shape[2] + right.shape[2] + left.shape[1] ** 2 + 4
    rounding = 2 * count * UNIT_ROUNDOFF * _terms(left, right).square()
    return torch.sqrt(torch.clamp(squared, min=0.0) + rounding) * a * b


def _built(left: Tensor, right: Tensor) -> Tensor:
    """The norm of the share itself, whose entries are off by at most P u times the sum of their terms' sizes."""
    (left, a), (right, b) = _unit(left), _unit(right)
    share = (left.transpose(1, 2) @ right).flatten(1)
    norms: Tensor = torch.linalg.vector_norm(share, dim=1)
    return (norms + 2 * left.shape[1] * UNIT_ROUNDOFF * _terms(left, right)) * a * b
