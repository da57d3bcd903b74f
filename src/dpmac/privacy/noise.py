"""Exact Gaussian noise: what a release adds to its sums, and why that is the Gaussian mechanism of the real numbers.

Every partition i has a grid of g * scale_i, and the noise's deviation is 2**bits grid steps in all of them. A release

1. rounds the sum of every block of rows to whole numbers of grid steps (:meth:`Grid.rounded`);
2. adds them up, exactly: whole numbers below 2**52 are doubles, in whatever order and in however many processes;
3. adds whole numbers drawn independently of them, with exactly the law of round(2**bits N), N from N(0, 1)
   (:mod:`dpmac.randomness.rounded`);
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.privacy.chunks import joined
from dpmac.privacy.partition import Partition
from dpmac.randomness import NoiseSource

FEWEST, USUAL, MOST = 20, 30, 48  # bits: steps in the noise's deviation; beyond USUAL, exact draws grow dear
EXACT = 2.0**52  # whole numbers below it, and their sums, are doubles
_FINE, _COARSE = 11, 7  # the grid widens the noise by 2**-11 at most, and 2**-7 where that would take more than USUAL
_CACHED = 1 << 16  # numbers that a core perturbs at a time, from the draw to the grid: its cache holds them
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

    def rounded(self, sums: Sequence[Tensor], scales: Sequence[float]) -> list[Tensor]:
        """Sums of a block as whole numbers of steps, in doubles; without a grid, as they are."""
        if self.step == 0.0:
            return [total.double() for total in sums]
        steps = _in_steps(sums, [1.0 / (self.step * scale) for scale in scales])
        torch._foreach_round_(steps)
        return steps


def perturbed(
    totals: Sequence[Tensor],
    partitions: Sequence[Partition],
    scales: Sequence[float],
    grid: Grid,
    source: NoiseSource,
    divisor: float,
    on_grid: bool = False,
    dtype: torch.dtype = torch.float64,
    apart: bool = False,
) -> dict[str, Tensor]:
    """The totals on the ``grid`` with fresh noise, over ``divisor``, under their partitions' names, as ``dtype``.

    ``on_grid`` says that they are whole numbers of its steps already (:meth:`Grid.rounded`); else they are one block's,
    of single or double precision, and are rounded here, as each piece is in the cache. Totals on the CPU may be
    overwritten. For symmetric matrices the noise is (N + N^T) / 2 with N independent in every coordinate: a function of
    ``total + N``, so no less private, with half the variance off the diagonal. ``apart`` leaves matrices whose last
    column stands behind the others as they are (:func:`~dpmac.privacy.chunks.joined`).
    """
    if grid.step == 0.0:
        noisy = [(total.double() / divisor).to(dtype) for total in totals]
    else:
        sums = [total.contiguous() for total in totals]
        factors = [1.0 if on_grid else 1.0 / (grid.step * scale) for scale in scales]
        units = [grid.step * scale / divisor for scale in scales]
        if sums[0].device.type == "cpu":
            noisy = _piece_by_piece(sums, factors, units, grid.bits, source, dtype)
        else:
            drawn = source.steps([sum(total.numel() for total in sums)], grid.bits, sums[0].device)
            noisy = [total.to(dtype) for total in _at_once(sums, factors, units, drawn)]
        noisy = [(t + t.transpose(-1, -2)) / 2 if p.symmetric else t for p, t in zip(partitions, noisy, strict=True)]
    return {p.name: t if apart else joined(t, p.shape) for p, t in zip(partitions, noisy, strict=True)}


def _piece_by_piece(
    sums: Sequence[Tensor],
    factors: Sequence[float],
    units: Sequence[float],
    bits: int,
    source: NoiseSource,
    dtype: torch.dtype,
) -> list[Tensor]:
    """round(sum * factor) + noise, times the unit: all that, for as many numbers at a time as the caches hold."""
    noisy = [total if total.dtype == dtype else torch.empty_like(total, dtype=dtype) for total in sums]
    lots = list(_lots([total.view(-1) for total in sums]))
    places = _lots([total.view(-1) for total in noisy])
    sizes = [sum(map(len, pieces)) for pieces, _ in lots]
    spare = torch.empty(max(sizes, default=0), dtype=torch.float64)
    for (pieces, which), (out, _), steps in zip(lots, places, source.steps(sizes, bits), strict=True):
        lengths = [len(piece) for piece in pieces]
        whole = spare[: sum(lengths)]
        split = torch.split(whole, lengths)
        torch._foreach_copy_(split, pieces)
        alike = len({(factors[i], units[i]) for i in which}) == 1
        each = [(whole, steps, which[0])]
        if not alike:
            each = list(zip(split, torch.split(steps, lengths), which, strict=True))
        for part, noise, i in each:
            part.mul_(factors[i]).round_().add_(noise).mul_(units[i])
        torch._foreach_copy_(out, split)
    return noisy


def _at_once(sums: list[Tensor], factors: list[float], units: list[float], drawn: Iterator[Tensor]) -> list[Tensor]:
    """The same on a device that counts launches; the sums may lie where the next ones will be made, and are left."""
    whole = _in_steps(sums, factors)
    torch._foreach_round_(whole)
    (steps,) = drawn
    split = torch.split(steps, [total.numel() for total in whole])
    torch._foreach_add_(whole, [noise.view(total.shape) for noise, total in zip(split, whole, strict=True)])
    torch._foreach_mul_(whole, units)
    return whole


def _in_steps(sums: Sequence[Tensor], factors: list[float]) -> list[Tensor]:
    """Each sum times the steps in one of it, in double precision and in new memory."""
    return list(torch._foreach_mul([total.double() for total in sums], factors))


def _lots(flat: Sequence[Tensor]) -> Iterator[tuple[list[Tensor], list[int]]]:
    """Pieces of the vectors that are perturbed together, as much as the caches hold, each with its vector's number."""
    room = longest = _CACHED * torch.get_num_threads()
    pieces: list[Tensor] = []
    which: list[int] = []
    for number, vector in enumerate(flat):
        start = 0
        while start < len(vector):
            piece = vector[start : start + room]
            pieces.append(piece)
            which.append(number)
            start, room = start + len(piece), room - len(piece)
            if room == 0:
                yield pieces, which
                pieces, which, room = [], [], longest
    if pieces:
        yield pieces, which
