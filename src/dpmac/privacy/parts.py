"""Per-example parts: what each example contributes to one partition of a release, before anything is summed.

A part never builds a matrix per example. It keeps the factors (an outer product is two vectors), knows the exact
norm of every example's share from them, can scale every share by its own factor, and can be summed. Summing turns
private numbers into an aggregate, so only :mod:`dpmac.privacy.door` may call :meth:`Part.total`, which a test sees to.
Norms are in double precision, and so are sums but for the chunks of :func:`in_chunks`, whose rounding is counted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpmac.privacy.chunks import SINGLE_ROOM, exactly, in_chunks
from dpmac.privacy.partition import check_dimensions

LARGEST = 1e15  # a vector of single precision that is longer is left out
SMALLEST = 2.0**-126  # the least number that has all digits in single precision
LEAST = 1e-290  # a vector of double precision that a factor leaves shorter, or longer than 1e290, is left out


class Part(Protocol):
    """One partition's shares of a micro-batch, one per example."""

    @property
    def rows(self) -> int:
        """Number of examples."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one share, and of the sum."""

    def norms(self) -> Tensor:
        """Euclidean (Frobenius) norm of each share, float64; not finite where a share is not."""

    def scaled(self, factors: Tensor) -> Part:
        """Each share times its own factor; a factor of 0 gives exactly 0, even for a share that is not finite."""

    @property
    def single(self) -> bool:
        """Whether the sum is made in single precision."""

    def doubled(self) -> Part:
        """The same shares, to be summed in double precision."""

    def explicit(self) -> Tensor:
        """Every share by itself, (rows, *shape), float64: slow, for :mod:`dpmac.privacy.reference` and tests."""

    def total(self, together: int = 1) -> Tensor:
        """The sum of the shares: float64, or float32 where nothing was added up in more. For ``release`` alone.

        So many neighbouring rows as belong ``together``, one person's, are in one product.
        """


def joint_norms(parts: Sequence[Part], scales: Sequence[float]) -> Tensor:
    """Each example's norm of the concatenation of all its shares, share i divided by ``scales[i]``."""
    return functools.reduce(torch.hypot, [part.norms() / scale for part, scale in zip(parts, scales, strict=True)])


def row_norms(rows: Tensor) -> Tensor:
    """Euclidean norm of each row (..., d), accumulated in double precision; no square underflows or overflows."""
    unit, largest = norms_apart(rows)
    return unit * largest


def norms_apart(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The norm of each row as two factors, so that a product of norms can be made without underflow.

    Double rows are taken over their largest entry first; squares of single-precision numbers are safe in double.
    """
    if rows.dtype != torch.float64:
        norms: Tensor = torch.linalg.vector_norm(rows.float(), dim=-1, dtype=torch.float64)
        return norms, torch.ones_like(norms)
    largest = largest_entries(rows)
    scaled: Tensor = torch.linalg.vector_norm(rows / largest, dim=-1)
    return scaled, largest.squeeze(-1)


def _single_norms(rows: Tensor) -> Tensor:
    """Norms of single-precision rows, measured in single precision and never below the true ones.

    Adding d squares in any order is off by d u of their sum, u = 2^-24, and what underflows is below 2^-126 each; what
    overflows gives infinity.
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


def fit_single(left: Tensor, right: Tensor, size: Tensor, root: Tensor | float) -> Tensor:
    """Which shares single precision holds: by the lengths of their vectors, the size of their factors, and the root of
    how many numbers are in ``left``.

    Beyond LARGEST it could overflow on the way; what is not finite is beyond. And a factor below SMALLEST, or what it
    leaves, would be rounded by much, up as well as down.
    """
    longest = left * size
    least = torch.minimum(size, longest / root)
    return (torch.maximum(longest, right) <= LARGEST).logical_and_((least >= SMALLEST).logical_or_(size == 0))


def times(values: Tensor, factors: Tensor) -> Tensor:
    """Rows of ``values`` times ``factors`` in double precision, where 0 times anything is 0."""
    column = factors.double().reshape(-1, *[1] * (values.dim() - 1))
    return torch.where(column == 0, 0.0, values.double() * column)


def kept(values: Tensor, factors: Tensor) -> Tensor:
    """Rows of ``values`` with those of factor 0 blanked, so that 0 * inf cannot reach a sum."""
    return torch.where((factors == 0).reshape(-1, *[1] * (values.dim() - 1)), 0.0, values)


@dataclass(frozen=True, eq=False)
class OuterPart:
    """Share n is the outer product ``left[n] right[n]^T``: the slope of a dense layer.

    Its Frobenius norm is ||left[n]|| ||right[n]||, exactly, at O(d_out + d_in) cost, and the sum of all shares is the
    one matrix product ``left^T right``. With ``one`` every right[n] has a 1 behind its last entry, which is not stored:
    the constant that a bias multiplies.

    Factors are kept beside the vectors and multiplied in when shares are summed. Vectors of single precision are summed
    in single precision, and :meth:`norms` then has the worst rounding of that added to it (:data:`SINGLE_ROOM`).
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

    def total(self, together: int = 1) -> Tensor:
        factors = self.left.new_ones(self.rows, dtype=torch.float64) if self.factors is None else self.factors
        # of one layout whatever the rows hold: products of another may round differently
        slopes, inputs = self.left.contiguous(), self.right.contiguous()
        fits = self._fits(factors)
        # 0 * inf must not reach a sum (a GPU is not asked whether there is any: that takes longer than doing it)
        if self.left.device.type != "cpu" or not bool(fits.all()):
            factors = torch.where(fits, factors, 0.0)
            slopes, inputs = kept(slopes, factors), kept(inputs, factors)
        if self.single:
            return in_chunks(slopes * factors.float().unsqueeze(1), inputs, self.one, together)
        return exactly(slopes.double() * factors.unsqueeze(1), inputs.double(), self.one)

    def _fits(self, factors: Tensor) -> Tensor:
        """Which shares can be summed in their precision; the others are left out."""
        whole, left, right = self._lengths
        if self.single:
            return fit_single(left, right, factors.abs(), math.sqrt(max(1, self.left.shape[1])))
        # and here what a factor makes of a short vector beside a long one, or the other way round
        length = left * factors.abs()
        within = (length >= LEAST).logical_and_(length <= 1.0 / LEAST).logical_or_(factors == 0)
        return torch.isfinite(whole).logical_and_(within)

    @functools.cached_property
    def _lengths(self) -> tuple[Tensor, Tensor, Tensor]:
        """The norm of every share, without its factor, and of its two vectors: measured once for this object.

        :meth:`scaled` gives a new object, which measures again. So what the release measures is what it then sums,
        whatever code has seen the vectors before.
        """
        return self._measured_single() if self.single else self._measured_double()

    def _measured_single(self) -> tuple[Tensor, Tensor, Tensor]:
        left, right = _single_norms(self.left), _single_norms(self.right)
        if self.one:
            # lengths are 0 or above 1e-19 and below 1e39
            right = right.square_().add_(1.0).sqrt_().mul_(1.0 + 2.0**-50)
        return (left * right).mul_(1.0 + SINGLE_ROOM), left, right

    def _measured_double(self) -> tuple[Tensor, Tensor, Tensor]:
        (left, a), (right, b) = norms_apart(self.left), norms_apart(self.right)
        if self.one:
            right, b = torch.hypot(right * b, torch.ones_like(right)), torch.ones_like(b)
        return left * right * (a * b), left * a, right * b


@dataclass(frozen=True)
class DensePart:
    """Share n is ``values[n]`` itself: counts, indicators, scalars."""

    values: Tensor  # (rows, ...)

    @property
    def rows(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape[1:])

    def norms(self) -> Tensor:
        return row_norms(self.values.double().reshape(self.rows, math.prod(self.shape)))

    single = False

    def doubled(self) -> DensePart:
        return self

    def scaled(self, factors: Tensor) -> DensePart:
        return DensePart(times(self.values, factors))

    def explicit(self) -> Tensor:
        return self.values.double()

    def total(self, together: int = 1) -> Tensor:  # noqa: ARG002 - not in chunks
        return self.values.double().sum(dim=0)


@dataclass(frozen=True)
class GramPart:
    """Share n is the stack of symmetric matrices ``weights[n, j] rows[n] rows[n]^T``, one for each unit j.

    The curvature of a dense layer, or with a single column of ones the Gram matrix of its inputs. The norm of a share
    is ||weights[n]|| ||inputs[n]||^2, exactly, and no share is ever built.
    """

    weights: Tensor  # (rows, units)
    inputs: Tensor  # (rows, d_in)

    def __post_init__(self) -> None:
        check_dimensions(self, weights=2, inputs=2)

    @property
    def rows(self) -> int:
        return len(self.weights)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.weights.shape[1], self.inputs.shape[1], self.inputs.shape[1])

    def norms(self) -> Tensor:
        (weights, a), (inputs, b) = norms_apart(self.weights), norms_apart(self.inputs)
        found = weights * inputs.square() * (a * b * b)  # in this order: b * b alone could underflow
        return torch.where((weights == 0) & torch.isfinite(inputs), 0.0, found)  # b * b may well be infinite there

    single = False

    def doubled(self) -> GramPart:
        return self

    def explicit(self) -> Tensor:
        inputs, weights = self.inputs.double(), self.weights.double()
        return weights[:, :, None, None] * (inputs.unsqueeze(2) * inputs.unsqueeze(1)).unsqueeze(1)

    def scaled(self, factors: Tensor) -> GramPart:
        # half of it on either side of x x^T: a small weight beside a long row has no digits to lose
        roots = torch.where((self.weights == 0).all(dim=1), 0.0, factors.double().abs().sqrt())
        return GramPart(times(self.weights, factors.sign()), times(self.inputs, roots))

    def total(self, together: int = 1) -> Tensor:  # noqa: ARG002 - not in chunks
        inputs, weights = self.inputs.double(), self.weights.double()
        units = [(inputs * weights[:, j : j + 1]).T @ inputs for j in range(weights.shape[1])]
        stacked = torch.stack(units) if units else inputs.new_zeros(self.shape)
        return (stacked + stacked.transpose(1, 2)) / 2  # exactly symmetric, whatever the matrix product rounds
