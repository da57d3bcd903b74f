"""Parts of layers whose weights serve many positions: a convolution's slope, summed over an image.

K1: the norm that is given is never below that of the share. K2: sums of shares that were built one by one, in their own
precision.

A share is a sum of outer products, one for each position, and no longer of rank one.

*In single precision* shares are built by one batched product. The share of a row is the single-precision tensor that
comes out: it is measured and summed as it is (:mod:`dpmac.kernels.built`), and how the product rounded is no matter of
privacy. Where all shares of a block fit into memory they are built once (:func:`position_part`); otherwise slice by
slice, each measured and summed in the same pass.

*In double precision* the norm comes from the two Gram matrices of the positions (P^2 (d_in + d_out) operations) or by
building the share (P d_in d_out), whichever is less; that follows from shapes alone. Either way terms of different
positions may cancel, so rounding is bounded against what they were before: the norm that is given is never below that
of the share which is summed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpmac.checks import check_dimensions
from dpmac.kernels.built import BuiltPart
from dpmac.kernels.chunks import CHUNK, SINGLE_MARGIN
from dpmac.kernels.norms import largest_entries, single_norms, times
from dpmac.kernels.outer import OuterPart

UNIT_ROUNDOFF = 2.0**-53
SINGLE_ROUNDOFF = 2.0**-24
MEMORY = 1 << 26  # bytes of shares, or of Gram matrices, to build at a time
GPU_MEMORY = 1 << 28  # the same on a GPU, where few and large kernels are quick
KEPT_MEMORY = 1 << 28  # bytes of shares of one part that are built once and kept
LARGEST = 1e300  # of a share's terms together: beyond it, one could be built that is not finite


def position_part(left: Tensor, right: Tensor, memory: int = KEPT_MEMORY) -> OuterPart | BuiltPart | PositionPart:
    """Share n is the sum over positions p of ``left[n, p] right[n, p]^T``, as the kind of part that costs least.

    That follows from shapes and precision alone. ``memory`` is how many bytes of built shares may be kept.
    """
    if left.shape[1] == 1:
        return OuterPart(left.squeeze(1), right.squeeze(1))
    single = left.dtype == right.dtype == torch.float32
    if single and 4 * left.shape[0] * left.shape[2] * right.shape[2] <= memory:
        return BuiltPart(torch.bmm(left.transpose(1, 2), right))
    return PositionPart(left, right)


@dataclass(frozen=True, eq=False)
class PositionPart:
    """Share n is ``factors[n]`` times the sum over positions p of ``left[n, p] right[n, p]^T``.

    Shares are built one by one before they are added up, so that what cancels inside a share cancels before it meets
    the others: the rounding of the sum over rows is that of shares that keep their promise. Factors (None for 1)
    are applied to built shares: rounded into ``left`` they would undo what cancels.

    In single precision :meth:`total` measures what it sums, and :meth:`norms` gives that from then on. Before, it gives
    a bound for what any build of the shares can measure, in single or in double precision.
    """

    left: Tensor  # (rows, positions, d_out)
    right: Tensor  # (rows, positions, d_in)
    factors: Tensor | None = None  # (rows,), float64
    _summed: list[Tensor] = field(default_factory=list, init=False, repr=False)  # the norms of what was summed

    def __post_init__(self) -> None:
        check_dimensions(self, left=3, right=3, factors=1)

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

    @property
    def single(self) -> bool:
        return self.left.dtype == self.right.dtype == torch.float32

    def norms(self) -> Tensor:
        """An upper bound of each share's norm, above it by rounding alone (see :func:`_gram` and :func:`_built`)."""
        if self._summed:
            return self._summed[0].clone()
        if self.single:
            return self._before_the_sum()
        positions, d_out, d_in = self.left.shape[1], *self.shape
        each = 8 * 2 * positions * positions if self.by_gram else 8 * d_out * d_in
        way = _gram if self.by_gram else _built
        found = [way(*pair) for pair in self._slices(each)]
        norms = torch.cat(found) if found else self.left.new_zeros(0, dtype=torch.float64)
        return norms if self.factors is None else torch.where(self.factors == 0, 0.0, norms * self.factors.abs())

    def doubled(self) -> PositionPart:
        return PositionPart(self.left.double(), self.right.double(), self.factors)

    def explicit(self) -> Tensor:
        if self.single:
            shares = torch.cat([piece.explicit() for piece in self._pieces(1)])
            return shares.reshape(self.rows, *self.shape)
        shares = self.left.double().transpose(1, 2) @ self.right.double()
        return shares if self.factors is None else times(shares, self.factors)

    def scaled(self, factors: Tensor) -> PositionPart:
        fresh = factors.double()
        before = torch.ones_like(fresh) if self.factors is None else self.factors
        return PositionPart(self.left, self.right, torch.where(fresh == 0, 0.0, before * fresh))

    def total(self, spots_per_place: int = 1) -> Tensor:
        if self.single:
            return self._single_total(spots_per_place)
        d_out, d_in = self.shape
        result = torch.zeros(d_out, d_in, dtype=torch.float64, device=self.left.device)
        start = 0
        for left, right in self._slices(8 * d_out * d_in):
            shares = left.double().transpose(1, 2) @ right.double()
            if self.factors is not None:
                here = self.factors[start : start + len(left)].reshape(-1, 1, 1)
                shares = torch.where(here == 0, 0.0, shares * here)  # 0 times anything is 0
            result += shares.sum(dim=0)
            start += len(left)
        return result

    def _single_total(self, spots_per_place: int) -> Tensor:
        """The sum of shares built slice by slice, each measured as it is summed; slices are added up in double
        precision, and no person is cut in two."""
        result = torch.zeros(self.shape, dtype=torch.float64, device=self.left.device)
        found = []
        for piece in self._pieces(spots_per_place):
            result += piece.summed(spots_per_place)
            found.append(piece.norms())
        self._summed[:] = [torch.cat(found) if found else result.new_zeros(0)]
        return result

    def _before_the_sum(self) -> Tensor:
        """What the shares measure, built as they will be summed, and what another way to measure them can add.

        Two builds in single precision are off by gamma_P sum_p |left_p| |right_p|^T each, in every entry: in norm by
        2 (P + 2) u times T = sum_p ||left_p|| ||right_p||, u = 2^-24, of which a measurement makes more by its own
        margins. In double precision, in which a release measures these shares beside others that need it, :func:`_gram`
        adds up to the root of what it adds to the square, and :func:`_built` less. Lengths are rounded up, and so is
        their sum, in double precision.
        """
        pieces = [piece.norms() for piece in self._pieces(1)]
        terms = (single_norms(self.left) * single_norms(self.right)).sum(dim=1)
        positions, d_out, d_in = self.left.shape[1], *self.shape
        single = 2.0 * (positions + 2) * SINGLE_ROUNDOFF
        double = math.sqrt(_gram_rounding(positions, d_out + d_in))
        margins = (1.0 + SINGLE_MARGIN) * (1.0 + (d_in + d_out + 8) * SINGLE_ROUNDOFF)
        off = (single + double) * margins * terms
        measured = torch.cat(pieces) if pieces else terms
        if self.factors is None:
            return measured + off
        return torch.where(self.factors == 0, 0.0, measured + off * self.factors.abs())

    def _pieces(self, spots_per_place: int) -> Iterator[BuiltPart]:
        """The shares in single precision, built slice by slice: so many rows as memory allows, CHUNK at most."""
        d_out, d_in = self.shape
        size = min(CHUNK, max(1, _memory(self.left) // (4 * d_out * d_in)))
        size = max(spots_per_place, size // spots_per_place * spots_per_place)
        for start in range(0, self.rows, size):
            some = slice(start, start + size)
            shares = torch.bmm(self.left[some].transpose(1, 2), self.right[some])
            yield BuiltPart(shares, None if self.factors is None else self.factors[some])

    def _slices(self, bytes_each: int) -> list[tuple[Tensor, Tensor]]:
        size = max(1, _memory(self.left) // bytes_each)
        pairs = zip(torch.split(self.left, size), torch.split(self.right, size), strict=True)
        return list(pairs) if self.rows else []


def _memory(tensor: Tensor) -> int:
    """Bytes to build at a time on the tensor's device."""
    if tensor.is_cuda:
        return GPU_MEMORY
    return MEMORY


def _unit(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Entries of at most 1 and one number an example that the share must be multiplied by.

    Every position is taken over its own largest entries, and the product of those two over the largest such product:
    no square underflows that matters, and none overflows.
    """
    left, right = left.double(), right.double()
    a, b = largest_entries(left), largest_entries(right)
    nothing = (left == 0).all(dim=2) | (right == 0).all(dim=2)  # such a position must not set the measure for others
    weights = torch.where(nothing, 0.0, (a * b).squeeze(2))
    most = largest_entries(weights)
    return left / a * (weights / most).unsqueeze(2), right / b, most.squeeze(1)


def _terms(left: Tensor, right: Tensor) -> Tensor:
    """sum_p ||left_p|| ||right_p||: what the share's norm would be if nothing cancelled."""
    lengths: Tensor = torch.linalg.vector_norm(left, dim=2) * torch.linalg.vector_norm(right, dim=2)
    return lengths.sum(dim=1)


def _gram(left: Tensor, right: Tensor) -> Tensor:
    """||sum_p l_p r_p^T||^2 = sum_pq (l_p^T l_q) (r_p^T r_q).

    An inner product of length d is off by at most d u times the product of the norms, in whatever order it is summed, a
    sum of P^2 products by P^2 u times the sum of their sizes, and scaling to unit entries by a few u; so the whole by
    (d_out + d_in + P^2 + 12) u times (sum_p ||l_p|| ||r_p||)^2. Four times that is added: it covers the rounding of the
    share that is summed as well, which is P u times sum_p ||l_p|| ||r_p|| at most.
    """
    left, right, most = _unit(left, right)
    squared = ((left @ left.transpose(1, 2)) * (right @ right.transpose(1, 2))).sum(dim=(1, 2))
    terms = _terms(left, right)
    rounding = _gram_rounding(left.shape[1], left.shape[2] + right.shape[2]) * terms.square()
    return _measured(torch.sqrt(torch.clamp(squared, min=0.0) + rounding), terms, most)


def _gram_rounding(positions: int, width: int) -> float:
    """What is added to a squared norm by Gram matrices, over the square of the sum of all terms' norms."""
    return 4 * (width + positions**2 + 12) * UNIT_ROUNDOFF


def _built(left: Tensor, right: Tensor) -> Tensor:
    """The norm of the share itself.

    Built here and built again to be summed, it is off by P u times sum_p ||l_p|| ||r_p|| each time, and scaling to unit
    entries adds a few u; the norm of so many numbers is off by half as many u of itself. Twice all that is added.
    """
    left, right, most = _unit(left, right)
    share = (left.transpose(1, 2) @ right).flatten(1)
    norms: Tensor = torch.linalg.vector_norm(share, dim=1) * (1 + (share.shape[1] + 8) * UNIT_ROUNDOFF)
    terms = _terms(left, right)
    return _measured(norms + 4 * (left.shape[1] + 4) * UNIT_ROUNDOFF * terms, terms, most)


def _measured(norms: Tensor, terms: Tensor, most: Tensor) -> Tensor:
    """In the share's own units; infinite where its terms could overflow before they cancel."""
    return torch.where(terms * most <= LARGEST, norms * most, torch.where(norms.isnan(), norms, math.inf))
