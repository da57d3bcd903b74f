"""Shares that were built for every row: gradients of small tensors, of convolutions, of whatever has no shorter form.

K1: the norm is measured on the very numbers that are summed: in single precision rounded up, in double precision at
least (1 - (d + 32) u) times the true one, for d numbers. K2: the share of a row is the tensor as it was built, so the
sum over rows of (factor x share) is :func:`~dpmac.kernels.chunks.in_chunks` with a left vector of one number, the
factor. In single precision it is therefore off by at most ``SINGLE_MARGIN`` for two neighbours together, by which norms
are increased; in double precision, for m rows, by at most m (m + 2) u scales, which ``SLACK`` of
:mod:`dpmac.privacy.parts` covers for two neighbours.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.kernels.chunks import SINGLE_MARGIN, in_chunks
from dpmac.kernels.norms import kept, row_norms, single_norms, times
from dpmac.kernels.outer import fit_single

UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, eq=False)
class BuiltPart:
    """Share n is ``factors[n]`` times ``values[n]``.

    Values of single precision are summed in single precision. A share that is not finite, or too large for its
    precision, is left out of the sum, but its norm is still reported.
    """

    values: Tensor  # (rows, ...), float32 or float64
    factors: Tensor | None = None  # (rows,), float64, of :meth:`scaled`

    @property
    def rows(self) -> int:
        return self.values.shape[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape[1:])

    @property
    def single(self) -> bool:
        return self.values.dtype == torch.float32

    def norms(self) -> Tensor:
        return scaled_norms(self._lengths, self.single, self.factors)

    def scaled(self, factors: Tensor) -> BuiltPart:
        return BuiltPart(self.values, all_factors(self.factors, factors))

    def doubled(self) -> BuiltPart:
        return BuiltPart(self.values.double(), self.factors)

    def explicit(self) -> Tensor:
        return self.values.double() if self.factors is None else times(self.values, self.factors)

    def total(self, spots_per_place: int = 1) -> Tensor:
        return self.summed(spots_per_place)

    def summed(self, spots_per_place: int) -> Tensor:
        """:meth:`total`, for kernels that build their shares slice by slice and sum each of them in this way."""
        factors = self.values.new_ones(self.rows, dtype=torch.float64) if self.factors is None else self.factors
        if not self.single:
            return times(self.values, torch.where(torch.isfinite(self._lengths), factors, 0.0)).sum(dim=0)
        fits = fit_single(torch.ones_like(self._lengths), self._lengths, factors.abs(), 1.0)
        flat = self.values.reshape(self.rows, math.prod(self.shape))
        # 0 * inf must not reach a sum (a GPU is not asked whether there is any: that takes longer than doing it)
        if flat.device.type != "cpu" or not bool(fits.all()):
            factors = torch.where(fits, factors, 0.0)
            flat = kept(flat, factors)
        return in_chunks(factors.float().unsqueeze(1), flat, False, spots_per_place).reshape(self.shape)

    @functools.cached_property
    def _lengths(self) -> Tensor:
        """The norm of every share without its factor: measured once for this object, and anew by each that
        :meth:`scaled` gives, so that what the release measures is what it then sums."""
        return built_norms(self.values)


def scaled_norms(lengths: Tensor, single: bool, factors: Tensor | None) -> Tensor:
    """The norms of shares of these lengths times their factors, with the margin for sums in single precision."""
    margin = 1.0 + SINGLE_MARGIN if single else 1.0
    whole = lengths * margin
    if factors is None:
        return whole
    return (whole * factors).abs_().masked_fill_(factors == 0, 0.0)


def all_factors(before: Tensor | None, more: Tensor) -> Tensor:
    """The factors of shares that had some before (None: 1) and get ``more``."""
    return more.double() if before is None else before * more.double()


def built_norms(values: Tensor) -> Tensor:
    """The norm of ``values[n]`` for every n, float64: in single precision never below the true one, in double precision
    off by at most (d + 32) u.

    In single precision the numbers behind each entry of the second dimension are measured together, and these lengths
    in double precision: the margin that :func:`~dpmac.kernels.norms.single_norms` adds then grows with the length of
    one unit's weights, and not with that of the whole tensor.
    """
    rows = values.shape[0]
    if values.dtype != torch.float32:
        return row_norms(values.double().reshape(rows, math.prod(values.shape[1:])))
    if values.dim() <= 2:
        return single_norms(values.reshape(rows, math.prod(values.shape[1:])))
    units = single_norms(values.reshape(rows, values.shape[1], math.prod(values.shape[2:])))
    found: Tensor = torch.linalg.vector_norm(units, dim=1)
    return found.mul_(1.0 + (values.shape[1] + 4) * UNIT_ROUNDOFF)
