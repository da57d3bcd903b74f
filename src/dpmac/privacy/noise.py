"""Exact Gaussian noise: what a release adds to its sums, and why that is the Gaussian mechanism of the real numbers.

Every partition i has a grid of g * scale_i, and the noise's deviation is 2**bits grid steps in all of them. A release

1. rounds the sum of every block of rows to whole numbers of grid steps (:meth:`Grid.whole`);
2. adds them up, exactly: whole numbers below 2**52 are doubles, in whatever order and in however many processes;
3. adds whole numbers drawn independently of them, with exactly the law of round(2**bits N), N from N(0, 1)
   (:mod:`dpmac.kernels.rounded`);
4. turns them into the partition's units.

Rounding commutes with whole numbers: k + round(x) = round(k + x). So what is released is round(k + 2**bits N), a
function of the *real* Gaussian mechanism on k, the sum of the rounded sums, and nothing below the grid is ever seen.
What a row can do to k: it stands in one block, and no other block's sum depends on it. Rounding moves every coordinate
of that block's sum by half a step at most, so of two neighbouring ones, in scales, the distance grows from 1 to at most
1 + g sqrt(D) over all D coordinates together, and k moves by just that. The deviation in scales, 2**bits g, is the
noise multiplier times that: this is what :meth:`Grid.of` solves for, rounded up, so the multiplier in the ledger is
true.

Arithmetic in doubles. Multiplying a block's sum by the steps in one scale is one rounding more, 2 u m scales for its m
rows, for which ``bounds.SLACK`` has room. A double is rounded to a whole number exactly. The grid is so coarse that the
largest sum there can be is below 2**51 steps: no addition of sums rounds. That of the noise gives the double next to
the exact k + n, which is a function of it; so are the units, the divisor and the transpose.
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

FEWEST, USUAL, MOST = 20, 30, 48  # bits: steps in the noise's deviation; beyond USUAL, exact draws take long
EXACT = 2.0**52  # whole numbers below it, and their sums, are doubles
_FINE, _COARSE = 11, 7  # the grid widens the noise by 2**-11 at most, and 2**-7 where that would take more than USUAL
_UP = 1.0 + 2.0**-40  # far above the rounding of the few operations that make a grid


@dataclass(frozen=True)
class Grid:
    """Where a release's numbers lie: whole multiples of ``step`` scales; the noise's deviation is 2**bits of them."""

    bits: int
    step: float

    @classmethod
    def of(cls, noise_multiplier: float, partitions: Sequence[Partition], rows: float = 1.0) -> Grid:
        """The grid for noise of at least ``noise_multiplier`` times the sensitivity of what lies on it.

        With D coordinates, 2**bits step >= noise_multiplier (1 + step sqrt(D)). ``rows`` is how many rows' shares are
        added up at most, none longer than a scale: their sum stays below EXACT steps. A multiplier of 0 has no grid:
        step 0.
        """
        if noise_multiplier == 0:
            return cls(0, 0.0)
        reach = noise_multiplier * math.sqrt(sum(math.prod(p.shape) for p in partitions))
        exponent = math.frexp(reach)[1]  # reach < 2**exponent
        bits = max(FEWEST, min(exponent + _FINE, USUAL), exponent + _COARSE)
        if bits > MOST:
            fix = f"give at most {2.0 ** (MOST - _COARSE):.3g} over the square root of the number of coordinates"
            raise ArgumentError("noise_multiplier", noise_multiplier, fix)
        bits = min(bits, math.floor(math.log2(EXACT * noise_multiplier / (2.0 * rows))))  # twice: halves of steps, too
        if bits < exponent + _COARSE:
            fix = "so many rows and so little noise leave no room for exact sums: sample fewer, or add more noise"
            raise ArgumentError("batch", f"room for {rows:.3g} rows", fix)
        return cls(bits, noise_multiplier * 2.0**-bits / (1.0 - reach * 2.0**-bits) * _UP)

    def most_steps(self, rows: float) -> float:
        """The largest number of steps that sums over ``rows`` rows, rounded block by block, can come to."""
        return math.inf if self.step == 0.0 else rows * (1.0 / self.step + 1.0)

    def in_steps(self, scales: Sequence[float]) -> list[float]:
        """What sums of these scales are multiplied by to be in steps; without a grid, 1."""
        return [1.0 if self.step == 0.0 else 1.0 / (self.step * scale) for scale in scales]

    def whole(self, sums: Sequence[Tensor], scales: Sequence[float]) -> list[Tensor]:
        """The sums of a block as whole numbers of steps, in doubles; without a grid, as they are."""
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
    """The sums with fresh noise, over ``divisor``, under their partitions' names, as ``dtype``.

    ``on_grid`` says that they are whole numbers of the grid's steps (:meth:`Grid.whole`); else they are one block's
    own, and are rounded here. For symmetric matrices the noise is (N + N^T) / 2 with N independent in every coordinate:
    a function of ``total + N``, so no less private, with half the variance off the diagonal. Sums may be overwritten.
    """
    if grid.step == 0.0:
        noisy = [(total.double() / divisor).to(dtype) for total in sums]
    else:
        factors = [1.0] * len(sums) if on_grid else grid.in_steps(scales)
        units = [grid.step * scale / divisor for scale in scales]
        noise = source.steps(lot_sizes(sums), grid.bits, sums[0].device)
        noisy = perturbed_sums(sums, factors, units, noise, dtype)
    answers = [(t + t.transpose(-1, -2)) / 2 if p.symmetric else t for t, p in zip(noisy, partitions, strict=True)]
    return {p.name: t for p, t in zip(partitions, answers, strict=True)}
