"""Add noise to large sums in pieces that fit in the cache: new memory for four million doubles would cost more time
than the noise.

K2: a sum times its factor is one rounding in double precision, for which ``parts.SLACK`` of the privacy core has a
margin (one of the two in its m + 2). The product is then rounded to a whole number.
K4: every number gets its own draw, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

CACHED = 1 << 16  # numbers that a core perturbs at a time: its cache holds them


def lot_sizes(sums: Sequence[Tensor]) -> list[int]:
    """The number of draws in each lot."""
    return [sum(stop - start for _, start, stop in lot) for lot in _lots(sums)]


def perturbed_sums(
    sums: Sequence[Tensor],
    factors: Sequence[float],
    units: Sequence[float],
    noise: Iterable[Tensor],
    dtype: torch.dtype,
) -> list[Tensor]:
    """(round(sum * factor) + noise) * unit for every sum, as ``dtype``, in its shape; sums may be overwritten.

    ``noise`` comes in lots of the sizes that :func:`lot_sizes` gives.
    """
    flat = [total.contiguous().view(-1) for total in sums]
    noisy = [total if total.dtype == dtype else torch.empty_like(total, dtype=dtype) for total in flat]
    spare = torch.empty(max(lot_sizes(sums), default=0), dtype=torch.float64, device=sums[0].device)
    if not sums[0].is_cpu:
        (steps,) = noise
        _at_once(flat, factors, units, (spare, steps), noisy)
        return [total.view(given.shape) for total, given in zip(noisy, sums, strict=True)]
    for lot, steps in zip(_lots(sums), noise, strict=True):
        sizes = [stop - start for _, start, stop in lot]
        pieces = zip(lot, torch.split(spare[: sum(sizes)], sizes), torch.split(steps, sizes), strict=True)
        for (number, start, stop), piece, more in pieces:
            piece.copy_(flat[number][start:stop])
            piece.mul_(factors[number]).round_().add_(more).mul_(units[number])
            noisy[number][start:stop].copy_(piece)
    return [total.view(given.shape) for total, given in zip(noisy, sums, strict=True)]


def _at_once(
    flat: list[Tensor],
    factors: Sequence[float],
    units: Sequence[float],
    spare_and_steps: tuple[Tensor, Tensor],
    noisy: list[Tensor],
) -> None:
    """The same for a single lot, all sums in each of six kernels: on a GPU their number is what takes the time."""
    sizes = [total.numel() for total in flat]
    pieces, more = (list(torch.split(numbers, sizes)) for numbers in spare_and_steps)
    torch._foreach_copy_(pieces, flat)
    torch._foreach_mul_(pieces, list(factors))
    torch._foreach_round_(pieces)
    torch._foreach_add_(pieces, more)
    torch._foreach_mul_(pieces, list(units))
    torch._foreach_copy_(noisy, pieces)


def _lots(sums: Sequence[Tensor]) -> Iterator[list[tuple[int, int, int]]]:
    """The sums in lots of pieces (number, start, stop), in order; a single lot on a GPU."""
    longest = sum(total.numel() for total in sums)
    if sums[0].is_cpu:
        longest = CACHED * torch.get_num_threads()
    lot: list[tuple[int, int, int]] = []
    left = longest
    for number, total in enumerate(sums):
        start = 0
        while start < total.numel():
            stop = min(start + left, total.numel())
            lot.append((number, start, stop))
            start, left = stop, left - (stop - start)
            if left == 0:
                yield lot
                lot, left = [], longest
    if lot:
        yield lot
