"""Exact Gaussian noise: what a release adds to its sums, and why the result is the Gaussian mechanism on real numbers.

Partition i has a grid of step g * scale_i, and the standard deviation of the noise is 2**bits grid steps in each of
them. A release

1. rounds the sum of every block of rows to whole numbers of grid steps (:meth:`Grid.whole`);
2. adds these up exactly, in any order and number of processes: they stay below 2**52, where whole numbers are doubles;
3. adds independent whole numbers with exactly the distribution of round(2**bits N), N from N(0, 1)
   (:mod:`dpmac.kernels.rounded`);
4. converts the result to the partition's units.

Rounding commutes with adding whole numbers: k + round(x) = round(k + x), except at ties, which have probability 0. So
the released number is round(k + 2**bits N), a function of the *real* Gaussian mechanism on k, the sum of the rounded
block sums. Nothing below the grid is ever visible. The sensitivity of k: a row is in one block, and no other block's
sum depends on it. Rounding moves every coordinate of that block's sum by at most half a step, for either of two
neighbouring tables. So their distance, in units of the scales, grows from 1 to at most 1 + g sqrt(D) over all D
coordinates. The standard deviation in units of the scales, 2**bits g, must be the noise multiplier times this distance.
:meth:`Grid.of` solves for g and rounds up, so the multiplier in the ledger is correct.

Double-precision arithmetic: multiplying a block's sum by the number of steps in one scale is one more rounding, at most
u m in length for each of two neighbouring tables. ``parts.SLACK`` covers it: it is one of the two in the m + 2 there.
Rounding to a whole number is exact. The grid is coarse enough that the largest possible sum is below 2**51 steps, and
with its roundings below 2**52: no addition of sums rounds. Adding noise n gives the double nearest to k + n, a function
of k + n; so are unit, divisor and averaging with the transpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.kernels.perturbing import lot_sizes, perturbed_sums
from dpmac.privacy.partition import Partition
from dpmac.randomness import NoiseSource

MIN_BITS, USUAL_BITS, MAX_BITS = 20, 30, 48  # log2 of the noise's standard deviation in steps; many are slow
EXACT = 2.0**52  # whole numbers below it, and the sum of any two, are exact in double precision
_FINE, _COARSE = 11, 7  # the grid widens the noise by at most 2**-11, or 2**-7 if 2**-11 takes over USUAL_BITS
_UP = 1.0 + 2.0**-40  # far above the rounding error of the few operations that compute a grid


@dataclass(frozen=True)
class Grid:
    """The grid of a release: multiples of ``step`` scales; the noise's standard deviation is 2**bits steps."""

    bits: int
    step: float

    @classmethod
    def of(cls, noise_multiplier: float, partitions: Sequence[Partition], rows: float = 1.0) -> Grid:
        """The grid on which noise is at least ``noise_multiplier`` times the sensitivity of the rounded sums.

        With D coordinates, 2**bits step >= noise_multiplier (1 + step sqrt(D)). ``rows`` is the maximal number of rows
        in a sum, none longer than a scale; their sum is below EXACT / 2 steps. A multiplier of 0 has no grid: step 0.
        """
        if noise_multiplier == 0:
            return cls(0, 0.0)
        reach = noise_multiplier * math.sqrt(sum(math.prod(p.shape) for p in partitions))
        exponent = math.frexp(reach)[1]  # reach < 2**exponent
        bits = max(MIN_BITS, min(exponent + _FINE, USUAL_BITS), exponent + _COARSE)
        if bits > MAX_BITS:
            fix = f"give at most {2.0 ** (MAX_BITS - _COARSE):.3g} over the square root of the number of coordinates"
            raise ArgumentError("noise_multiplier", noise_multiplier, fix)
        bits = min(bits, math.floor(math.log2(EXACT * noise_multiplier / (2.0 * rows))))
        if bits < exponent + _COARSE:
            fix = "sums of so many rows with so little noise would not be exact: sample fewer, or add more noise"
            raise ArgumentError("batch", f"up to {rows:.3g} rows", fix)
        return cls(bits, noise_multiplier * 2.0**-bits / (1.0 - reach * 2.0**-bits) * _UP)

    def most_steps(self, rows: float) -> float:
        """An upper bound, in steps, on sums over ``rows`` rows that were rounded block by block."""
        return math.inf if self.step == 0.0 else rows * (1.0 / self.step + 1.0)

    def in_steps(self, scales: Sequence[float]) -> list[float]:
        """The factors that convert sums of these scales to steps, if there is a grid."""
        return [1.0 / (self.step * scale) for scale in scales]

    def whole(self, sums: Sequence[Tensor], scales: Sequence[float]) -> list[Tensor]:
        """The sums of a block, rounded to whole numbers of steps, in double precision; unchanged without a grid."""
        doubled = [total.double() for total in sums]
        if self.step == 0.0:
            return doubled
        return [total.mul(factor).round_() for total, factor in zip(doubled, self.in_steps(scales), strict=True)]


def perturbed(
    sums: Sequence[Tensor],
    partitions: Sequence[Partition],
    scales: Sequence[float],
    grid: Grid,
    source: NoiseSource,
    divisor: float,
    dtype: torch.dtype = torch.float64,
    on_grid: bool = True,
) -> dict[str, Tensor]:
    """The sums plus fresh noise, divided by ``divisor``, under their partitions' names, as ``dtype``.

    ``on_grid`` says that the sums are whole numbers of grid steps (:meth:`Grid.whole`); otherwise they are the sums of
    a single block, and ``perturbed_sums`` rounds them. Symmetric matrices are averaged with their transpose afterwards:
    a function of ``total + N``, so no less private, with half the variance off the diagonal. May overwrite ``sums``.
    """
    if grid.step == 0.0:
        noisy = [(total.double() / divisor).to(dtype) for total in sums]
    else:
        factors = [1.0] * len(sums) if on_grid else grid.in_steps(scales)
        units = [grid.step * scale / divisor for scale in scales]
        noise = source.steps(lot_sizes(sums), grid.bits, sums[0].device)
        noisy = perturbed_sums(sums, factors, units, noise, dtype)
    answer = {p.name: total for p, total in zip(partitions, noisy, strict=True)}
    for p in partitions:
        if p.symmetric:
            answer[p.name] = (answer[p.name] + answer[p.name].transpose(-1, -2)) / 2
    return answer
