"""Gaussians rounded to whole numbers, exactly: round(2**bits N) with not one bit of its law out of place.

K4: not one bit of the law of round(2**bits N) is out of place.

The transform in double precision (:mod:`dpmac.kernels.gaussian`) gives x, near the product that the true numbers U
and V would give. How near is proved: :func:`error` bounds it, whatever the digits of U and V are that have not been
drawn. Where x is further than that from every half, its rounding is that of the true product. The others, one draw in
2**(46 - bits) or so, are decided with more digits (:mod:`dpmac.kernels.exact`). Which they are depends on the draws
alone: what they are added to has no say.

The bound, with v = 2**-53, s = 2**bits, and r for the double of the radius over s. u is the middle of what is known of
U: off by 2**-64 for the digits that are not known, and by 2 v u for two roundings. Above 1/2, where doubles lie v apart
and the second rounding takes back what was added, it is off by v / 2 + 2**-63 in all. So -2 log u, the square of the
radius, is off by no more than

    4 v + 2**-62 / (u - 2**-64)                             where u is below 1/2, so that r is above 1.17
    (v + 2**-62) / u, which is at most v + 2**-62 / u + v r**2                             where u is above 1/2

and by 8 v r**2 for the logarithm itself; and the radius by no more than these over r, and 2 v r for the root. 4 v / r
is at most v / r + 2.2 v r where r is above 1.17. The angle is off by less than 10 v (pi, two more roundings, and the
digits that are not known), cosine and sine by 8 v in themselves, and the product is rounded by v r. Together that is
less than ``32 v r + (v + 2**-62 / (u - 2**-64)) / r``, times s. Scaling by powers of two is exact.

What is assumed: doubles are IEEE 754's; logarithm, cosine and sine are within 4 units in the last place, and the square
root within 1. Documented are 1 for the logarithm and 2 for cosine and sine on CUDA devices, 1 for SLEEF and for MKL's
"high accuracy", which torch uses on the CPU, and less than 1 for the root everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from dpmac.kernels.exact import decided
from dpmac.kernels.gaussian import LOW_63, PAIRS, WORDS, box_muller
from dpmac.kernels.streams import AESStream

OF_RADIUS = 2.0**-48  # 32 v
OVER_RADIUS = 2.0**-53  # v
UNKNOWN = 2.0**-62
_FEW = 4  # draws for which Python is quicker than vectors
_FAR = 8.0  # radii beyond it (one in 2**46) are always looked at twice


def steps(sizes: Sequence[int], bits: int, stream: AESStream) -> Iterator[Tensor]:
    """Independent draws of round(2**bits N), float64, so many at a time; each lot's memory is the next one's.

    ``bits`` is from 0 to 48, so that all numbers are below 2**53.
    """
    if max(sizes, default=0) <= _FEW:
        yield from (torch.tensor(_one_by_one(size, bits, stream), dtype=torch.float64) for size in sizes)
        return
    longest = PAIRS * torch.get_num_threads()
    out, spare = (torch.empty(size, dtype=torch.float64) for size in _memory(max(sizes, default=0), longest))
    for size in sizes:
        for start in range(0, size, 2 * longest):
            part = out[start : min(start + 2 * longest, size + size % 2)]
            m = len(part) // 2
            rounded(stream.words(WORDS * m).view(WORDS, m), part.view(2, m), spare[: 3 * m].view(3, m), bits, stream)
        yield out[:size]


def _memory(largest: int, longest: int) -> tuple[int, int]:
    """How much the largest lot takes, and what is needed on the way to it."""
    pairs = -(-largest // 2)
    return 2 * pairs, 3 * min(pairs, longest)


def rounded(words: Tensor, out: Tensor, spare: Tensor, bits: int, stream: AESStream) -> None:
    """Write round(2**bits N) into every column of ``out`` (2, m) from the one of ``words`` (2, m), on any device.

    ``spare`` (3, m) is memory to work in. ``stream`` gives the digits beyond ``words``, where they are needed.
    """
    scale = 2.0**bits
    radii, x = spare[0], spare[1:]
    box_muller(words, radii, x, scale)
    torch.round(x, out=out)
    x.sub_(out)
    shortest, longest = _extremes(radii)
    room = 0.5 - scale * largest_error(shortest / scale, longest / scale)
    least, most = _extremes(x)
    if -room < least and most < room:  # not so if anything is no number
        return
    # Some of the draws are nearer to a half than the worst error of all: look at these pair by pair.
    near = np.unique(np.flatnonzero(~(x.abs_().cpu().numpy() < room)) % x.shape[1])
    for column, (lead, turn) in zip(near.tolist(), words[:, torch.from_numpy(near)].T.tolist(), strict=True):
        whole = looked_at(lead, turn, bits) or decided(lead, turn, bits, stream)
        out[:, column] = torch.tensor(whole, dtype=torch.float64)


def _one_by_one(size: int, bits: int, stream: AESStream) -> list[int]:
    """A few draws, each pair by its own :func:`error`."""
    found: list[int] = []
    while len(found) < size:
        lead, turn = stream.words(WORDS).tolist()
        found += looked_at(lead, turn, bits) or decided(lead, turn, bits, stream)
    return found[:size]


def _extremes(x: Tensor) -> tuple[float, float]:
    """The least and the largest, both NaN if anything is."""
    if x.device.type == "cpu":  # NumPy's are twice as fast as torch's
        numbers = x.numpy()
        return float(numbers.min()), float(numbers.max())
    least, most = torch.aminmax(x)
    return float(least), float(most)


def largest_error(shortest: float, longest: float) -> float:
    """The largest :func:`error` of radii between these."""
    if not (shortest > 0.0 and longest < _FAR):
        return math.inf
    u = math.exp(-(longest**2) / 2)
    return OF_RADIUS * longest + OVER_RADIUS / shortest + 2 * UNKNOWN * (1 / (u * longest) + 1 / shortest)


def error(radius: float, u: float) -> float:
    """What the transform of ``u`` may be off by, over the scale; infinite where nothing is known of the radius."""
    if radius == 0.0 or u <= 2.0**-64:
        return math.inf
    return OF_RADIUS * radius + (OVER_RADIUS + UNKNOWN / (u - 2.0**-64)) / radius


def looked_at(lead: int, turn: int, bits: int) -> tuple[int, int] | None:
    """round(2**bits N) for both Gaussians of one pair, if these words fix it: by the pair's own :func:`error`.

    The whole numbers are those of the products made *here*: products made elsewhere may round to others.
    """
    u = (lead & LOW_63) * 2.0**-63 + 2.0**-64
    radius, angle = math.sqrt(-2.0 * math.log(u)), turn * (math.pi * 2.0**-63)
    room = 0.5 - 2.0**bits * error(radius, u)
    first, second = 2.0**bits * radius * math.cos(angle), 2.0**bits * radius * math.sin(angle)
    if abs(first - round(first)) < room and abs(second - round(second)) < room:
        return round(first), round(second)
    return None
