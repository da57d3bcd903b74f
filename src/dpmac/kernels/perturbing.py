"""Noise on large sums, a cache's worth at a time: fresh memory for four million doubles takes longer than the noise.

K2: a sum times its factor is one rounding in double precision, and then it is rounded to a whole number. K4: every
number gets one draw of its own, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

CACHED = 1 << 16  # numbers that a core perturbs at a time, from the sum to the answer: its cache holds them
Draw = Callable[[list[int]], Iterator[Tensor]]  # lots of whole numbers, of these sizes


def perturbed_sums(
    sums: Sequence[Tensor], factors: Sequence[float], units: Sequence[float], draw: Draw, dtype: torch.dtype
) -> list[Tensor]:
    """(round(sum * factor) + noise) * unit for every sum, as ``dtype``, in its shape; sums may be overwritten."""
    flat = [total.contiguous().view(-1) for total in sums]
    noisy = [total if total.dtype == dtype else torch.empty_like(total, dtype=dtype) for total in flat]
    longest = CACHED * torch.get_num_threads() if flat[0].is_cpu else sum(map(len, flat))
    lots = list(_lots([len(total) for total in flat], longest))
    sizes = [sum(stop - start for _, start, stop in lot) for lot in lots]
    spare = torch.empty(max(sizes, default=0), dtype=torch.float64, device=flat[0].device)
    for lot, size, steps in zip(lots, sizes, draw(sizes), strict=True):
        pieces = torch.split(spare[:size], [stop - start for _, start, stop in lot])
        noise = torch.split(steps, [stop - start for _, start, stop in lot])
        for piece, more, (number, start, stop) in zip(pieces, noise, lot, strict=True):
            piece.copy_(flat[number][start:stop])
            piece.mul_(factors[number]).round_().add_(more).mul_(units[number])
            noisy[number][start:stop].copy_(piece)
    return [total.view(given.shape) for total, given in zip(noisy, sums, strict=True)]


def _lots(lengths: Sequence[int], longest: int) -> Iterator[list[tuple[int, int, int]]]:
    """Pieces (number, start, stop) of vectors of these lengths, in order, together so many that a lot is full."""
    lot: list[tuple[int, int, int]] = []
    left = longest
    for number, length in enumerate(lengths):
        start = 0
        while start < length:
            stop = min(start + left, length)
            lot.append((number, start, stop))
            start, left = stop, left - (stop - start)
            if left == 0:
                yield lot
                lot, left = [], longest
    if lot:
        yield lot
