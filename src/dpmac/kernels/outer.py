"""Outer products, a dense layer's slopes: norms from their two vectors (K1), and one matrix product for the sum (K2).

K1: the norm of a share is the product of its vectors' norms: in single precision rounded up, in double precision at
least (1 - (d + 32) u) times the true one, for d numbers. K2: in double precision the sum of m rows is off by at most
m (m + 2) u scales, which ``SLACK`` of :mod:`dpmac.privacy.parts` covers for two neighbours; in single precision, for
two neighbours together, by at most :data:`SINGLE_MARGIN`, by which norms are increased: the product is that of
``in_chunks`` whichever of the two vectors has the factor. A share that its precision cannot represent is left out of
the sum, but its norm is still reported.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import check_dimensions
from dpmac.kernels.chunks import SINGLE_MARGIN, exactly, in_chunks
from dpmac.kernels.norms import kept, norms_and_scales, single_norms, times

LARGEST = 1e15  # a vector of single precision that is longer is left out
SMALLEST = 2.0**-126  # the least number that has all digits in single precision
SHORTEST = 1e-290  # a vector of double precision that a factor leaves shorter, or longer than 1e290, is left out


def fit_single(left: Tensor, right: Tensor, size: Tensor, root: Tensor | float) -> Tensor:
    """Which shares single precision holds: by the lengths of their vectors, the size of their factors, and the root of
    how many numbers are in ``left``, which is the one that the factor is multiplied into.

    Beyond LARGEST it could overflow on the way; what is not finite is beyond. And a factor below SMALLEST, or what it
    leaves, would be rounded by much, up as well as down.
    """
    longest = left * size
    least = torch.minimum(size, longest / root)
    return (torch.maximum(longest, right) <= LARGEST).logical_and_((least >= SMALLEST).logical_or_(size == 0))


def times_with_one(rows: Tensor, factors: Tensor, one: bool) -> Tensor:
    """[x, 1] times its factor for every row x, or x times its factor, in single precision."""
    scaled = rows.new_empty(rows.shape[0], rows.shape[1] + one)
    torch.mul(rows, factors.float().unsqueeze(1), out=scaled[:, : rows.shape[1]])
    if one:
        scaled[:, -1] = factors
    return scaled


@dataclass(frozen=True, eq=False)
class OuterPart:
    """Share n is the outer product ``left[n] right[n]^T``: the slope of a dense layer.

    Its Frobenius norm is ||left[n]|| ||right[n]||, at O(d_out + d_in) cost, and the sum of all shares is the
    one matrix product ``left^T right``. With ``one`` every right[n] has a 1 behind its last entry, which is not stored:
    the constant that a bias multiplies.

    Factors are kept beside the vectors and multiplied in when shares are summed: into the shorter vector where that is
    the right one, since each pass over the longer one takes time. Vectors of single precision are summed
    in single precision, and :meth:`norms` then has the worst rounding of that added to it (:data:`SINGLE_MARGIN`).
    """

    left: Tensor  # (rows, d_out)
    right: Tensor  # (rows, d_in)
    one: bool = False
    factors: Tensor | None = None  # (rows,), of :meth:`scaled`

    def __post_init__(self) -> None:
        check_dimensions(self, left=2, right=2, factors=1)

    @property
    def rows(self) -> int:
        return self.left.shape[0]  # (of a tensor, len takes ten times as long)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.left.shape[1], self.right.shape[1] + self.one)

    @property
    def single(self) -> bool:
        return self.left.dtype == self.right.dtype == torch.float32

    @property
    def _short_right(self) -> bool:
        """Whether factors are multiplied into ``right`` and its 1: in single precision, if these are fewer numbers."""
        return self.single and self.shape[1] < self.shape[0]

    def norms(self) -> Tensor:
        whole = self._lengths[0]
        if self.factors is None:
            return whole.clone()  # what a bound does to it in place must not reach the sum
        return (whole * self.factors).abs_().masked_fill_(self.factors == 0, 0.0)

    def scaled(self, factors: Tensor) -> OuterPart:
        more = factors.double()
        return OuterPart(self.left, self.right, self.one, more if self.factors is None else self.factors * more)

    def doubled(self) -> OuterPart:
        return OuterPart(self.left.double(), self.right.double(), self.one, self.factors)

    def explicit(self) -> Tensor:
        right = self.right.double()
        if self.one:
            right = torch.cat([right, right.new_ones(self.rows, 1)], dim=1)
        shares = self.left.double().unsqueeze(2) * right.unsqueeze(1)
        return shares if self.factors is None else times(shares, self.factors)

    def total(self, spots_per_place: int = 1) -> Tensor:
        factors = self.left.new_ones(self.rows, dtype=torch.float64) if self.factors is None else self.factors
        # of one layout whatever the rows hold: products of another may round differently
        slopes, inputs = self.left.contiguous(), self.right.contiguous()
        fits = self._fits(factors)
        # 0 * inf must not reach a sum (a GPU is not asked whether there is any: that takes longer than doing it)
        if self.left.device.type != "cpu" or not bool(fits.all()):
            factors = torch.where(fits, factors, 0.0)
            slopes, inputs = kept(slopes, factors), kept(inputs, factors)
        if self._short_right:
            return in_chunks(times_with_one(inputs, factors, self.one), slopes, False, spots_per_place).T.contiguous()
        if self.single:
            return in_chunks(slopes * factors.float().unsqueeze(1), inputs, self.one, spots_per_place)
        return exactly(slopes.double() * factors.unsqueeze(1), inputs.double(), self.one)

    def _fits(self, factors: Tensor) -> Tensor:
        """Which shares can be summed in their precision; the others are left out."""
        whole, left, right = self._lengths
        if self._short_right:
            return fit_single(right, left, factors.abs(), math.sqrt(self.shape[1]))
        if self.single:
            return fit_single(left, right, factors.abs(), math.sqrt(max(1, self.left.shape[1])))
        # and here what a factor makes of a short vector beside a long one, or the other way round
        length = left * factors.abs()
        within = (length >= SHORTEST).logical_and_(length <= 1.0 / SHORTEST).logical_or_(factors == 0)
        return torch.isfinite(whole).logical_and_(within)

    @functools.cached_property
    def _lengths(self) -> tuple[Tensor, Tensor, Tensor]:
        """The norm of every share, without its factor, and of its two vectors: measured once for this object.

        :meth:`scaled` gives a new object, which measures again. So what the release measures is what it then sums,
        whatever code has seen the vectors before.
        """
        return self._measured_single() if self.single else self._measured_double()

    def _measured_single(self) -> tuple[Tensor, Tensor, Tensor]:
        left, right = single_norms(self.left), single_norms(self.right)
        if self.one:
            # lengths are 0 or above 1e-19 and below 1e39
            right = right.square_().add_(1.0).sqrt_().mul_(1.0 + 2.0**-50)
        return (left * right).mul_(1.0 + SINGLE_MARGIN), left, right

    def _measured_double(self) -> tuple[Tensor, Tensor, Tensor]:
        (left, a), (right, b) = norms_and_scales(self.left), norms_and_scales(self.right)
        if self.one:
            right, b = torch.hypot(right * b, torch.ones_like(right)), torch.ones_like(b)
        return left * right * (a * b), left * a, right * b
