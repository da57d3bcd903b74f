"""Per-example parts: what each example contributes to one partition of a release, before anything is summed.

A part never builds a matrix per example. It keeps the factors (an outer product is two vectors), knows the exact
norm of every example's share from them, can scale every share by its own factor, and can be summed. Summing turns
private numbers into an aggregate, so only :mod:`dpmac.privacy.door` may call :meth:`Part.total`, which a test sees to.
Norms are in double precision, and so are sums but for the chunks of :func:`in_chunks`, whose rounding is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from dpmac.privacy.chunks import SINGLE_ROOM, exactly, in_chunks, joined
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

    def total(self, together: int = 1) -> Tensor:
        """The sum of the shares: float64, or float32 where nothing was added up in more. For ``release`` alone.

        So many neighbouring rows as belong ``together``, one person's, are in one product.
        """


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

    Factors are kept beside the vectors and multiplied in when shares are summed, and lengths are measured once: a
    bound, a mask and the door's check all go over (rows,) numbers. Factors of single precision are summed in single
    precision, and :meth:`norms` then has the worst rounding of that added to it (:data:`SINGLE_ROOM`).
    """

    left: Tensor  # (rows, d_out)
    right: Tensor  # (rows, d_in)
    one: bool = False
    factors: Tensor | None = None  # (rows,), of :meth:`scaled`
    spent: bool = False  # ``left`` is nobody else's, and may be overwritten when shares are summed
    _measured: tuple[Tensor, Tensor, Tensor] | None = field(default=None, repr=False)
    _versions: tuple[int, int] | None = field(default=None, repr=False)  # of the vectors when they were measured

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
        """Whether the sum is made in single precision."""
        return self.left.dtype == self.right.dtype == torch.float32

    def norms(self) -> Tensor:
        whole = self.lengths()[0]
        if self.factors is None:
            return whole.clone()  # what a bound does to it in place must not reach the door
        return (whole * self.factors).abs_().masked_fill_(self.factors == 0, 0.0)

    def scaled(self, factors: Tensor) -> OuterPart:
        more = factors.double()
        return self.with_factors(more if self.factors is None else self.factors * more)

    def with_factors(self, factors: Tensor) -> OuterPart:
        """The same vectors, measured or not, with these factors."""
        return OuterPart(self.left, self.right, self.one, factors, self.spent, self._measured, self._versions)

    def given_up(self) -> OuterPart:
        """The same shares, whose ``left`` the giver has no more use for."""
        return OuterPart(self.left, self.right, self.one, self.factors, True, self._measured, self._versions)

    def afresh(self) -> OuterPart:
        """The same shares, not measured yet: of a stranger's the door takes no word."""
        return OuterPart(self.left, self.right, self.one, self.factors)

    def doubled(self) -> OuterPart:
        """The same shares in double precision."""
        return OuterPart(self.left.double(), self.right.double(), self.one, self.factors)

    def total(self, together: int = 1) -> Tensor:
        return joined(self.apart(together), self.shape)

    def apart(self, together: int = 1, fit: bool = False) -> Tensor:
        """The sum; with ``one`` as a vector, all columns but the last, row by row, and then the last.

        ``fit`` says that all shares are known to fit their precision. For ``release`` alone.
        """
        if self._versions is not None and not self.measured:
            raise RuntimeError("shares were written to after they were measured; nothing was released")
        factors = self.left.new_ones(self.rows, dtype=torch.float64) if self.factors is None else self.factors
        # of one layout whatever the rows hold: products of another may round differently
        slopes, inputs = self.left.contiguous(), self.right.contiguous()
        # 0 * inf must not reach a sum (a GPU is not asked whether there is any: that takes longer than doing it)
        if not fit:
            fits = self._fits(factors)
            if self.left.device.type != "cpu" or not bool(fits.all()):
                factors = torch.where(fits, factors, 0.0)
                slopes, inputs = kept(slopes, factors), kept(inputs, factors)
        if self.single:
            column = factors.float().unsqueeze(1)
            return in_chunks(slopes.mul_(column) if self.spent else slopes * column, inputs, self.one, together)
        return exactly(slopes.double() * factors.unsqueeze(1), inputs.double(), self.one)

    def _fits(self, factors: Tensor) -> Tensor:
        """Which shares can be summed in their precision; the others are left out."""
        whole, left, right = self.lengths()
        if self.single:
            return fit_single(left, right, factors.abs(), math.sqrt(max(1, self.left.shape[1])))
        # and here what a factor makes of a short vector beside a long one, or the other way round
        length = left * factors.abs()
        within = (length >= LEAST).logical_and_(length <= 1.0 / LEAST).logical_or_(factors == 0)
        return torch.isfinite(whole).logical_and_(within)

    @property
    def measured(self) -> bool:
        """Whether the vectors have been measured, and not been written to since."""
        return self._measured is not None and self._versions == (self.left._version, self.right._version)

    def keep(self, found: tuple[Tensor, Tensor, Tensor]) -> None:
        """Take the vectors for measured: what :meth:`lengths` gives from now on, until they are written to."""
        object.__setattr__(self, "_measured", found)
        object.__setattr__(self, "_versions", (self.left._version, self.right._version))

    def lengths(self) -> tuple[Tensor, Tensor, Tensor]:
        """The norm of every share, without its factor, and of its two vectors: measured once, unless they change."""
        if not self.measured:
            self.keep(self._measured_single() if self.single else self._measured_double())
        assert self._measured is not None
        return self._measured

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

    def scaled(self, factors: Tensor) -> DensePart:
        return DensePart(times(self.values, factors))

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

    def scaled(self, factors: Tensor) -> GramPart:
        # half of it on either side of x x^T: a small weight beside a long row has no digits to lose
        roots = torch.where((self.weights == 0).all(dim=1), 0.0, factors.double().abs().sqrt())
        return GramPart(times(self.weights, factors.sign()), times(self.inputs, roots))

    def total(self, together: int = 1) -> Tensor:  # noqa: ARG002 - not in chunks
        inputs, weights = self.inputs.double(), self.weights.double()
        units = [(inputs * weights[:, j : j + 1]).T @ inputs for j in range(weights.shape[1])]
        stacked = torch.stack(units) if units else inputs.new_zeros(self.shape)
        return (stacked + stacked.transpose(1, 2)) / 2  # exactly symmetric, whatever the matrix product rounds
