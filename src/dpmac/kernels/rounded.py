"""Gaussians rounded to whole numbers, exactly: draws of round(2**bits N).

K4: draws have exactly the distribution of round(2**bits N), to the last bit.

The transform in double precision (:mod:`dpmac.kernels.gaussian`) gives x, which is near the product that the true
numbers U and V would give. :func:`error` is a proved bound on the difference, whatever the digits of U and V are that
have not been drawn. If x is further than that from every half-integer, it rounds to the same number as the true
product. The other draws, about one pair in 2**(46 - bits), are decided with more digits (:mod:`dpmac.kernels.exact`).
Which ones these are depends only on the draws, not on the sums that they are added to.

What is computed, from the 63-bit number ``lead`` and the 64-bit number ``turn`` (by ``gaussian.box_muller``, or for one
pair by :func:`certain`):

    u = lead * 2**-63 + 2**-64                            the midpoint of the interval that is known to contain U
    r = sqrt(-2 log u)                                    the radius
    x = s * r * cos(turn * pi * 2**-63), and with sin     s = 2**bits; scaling by powers of two is exact

The bound on the error of x, with v = 2**-53. u is off by 2**-64 for the digits that were not drawn, and by 2 v u for
two roundings. (Above 1/2, neighbouring doubles differ by v, and the sum rounds back to what ``lead`` was rounded to:
there u is off by v / 2 + 2**-63 in all.) So -2 log u, the square of r, is off by at most

    4 v + 2**-62 / (u - 2**-64)                             where u is below 1/2, so that r is above 1.17
    (v + 2**-62) / u, which is at most v + 2**-62 / u + v r**2                             where u is above 1/2

plus 8 v r**2 for the logarithm itself. r is off by at most these divided by r, plus 2 v r for the square root. 4 v / r
is at most v / r + 2.2 v r where r is above 1.17. The angle is off by less than 10 v (pi, two more roundings, and the
digits that were not drawn), cosine and sine by 8 v themselves, and the product is rounded by v r. In total x is off by
less than s times

    32 v r + (v + 2**-62 / (u - 2**-64)) / r

We assume that doubles are IEEE 754's, that logarithm, cosine and sine are accurate to 4 units in the last place, and
the square root to 1. The documented errors are 1 for the logarithm and 2 for cosine and sine on CUDA devices, 1 for
SLEEF and for MKL's "high accuracy" mode, which torch uses on the CPU, and less than 1 for the square root everywhere.
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
_FEW = 4  # up to this many draws, Python is faster than vectors
_FAR = 8.0  # radii beyond it (one in 2**46) are always checked one by one


def steps(sizes: Sequence[int], bits: int, stream: AESStream) -> Iterator[Tensor]:
    """Independent draws of round(2**bits N) in lots of these sizes, float64; a lot is overwritten by the next one.

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
    """The numbers of doubles needed for the largest lot, and for temporaries."""
    pairs = -(-largest // 2)
    return 2 * pairs, 3 * min(pairs, longest)


def rounded(words: Tensor, out: Tensor, spare: Tensor, bits: int, stream: AESStream) -> None:
    """Write round(2**bits N) to every column of ``out`` (2, m) from the same column of ``words`` (2, m), on any device.

    ``spare`` (3, m) is working memory. ``stream`` provides further digits beyond ``words`` where necessary.
    """
    scale = 2.0**bits
    radii, x = spare[0], spare[1:]
    box_muller(words, radii, x, scale)
    torch.round(x, out=out)
    x.sub_(out)
    shortest, longest = _extremes(radii)
    tolerance = 0.5 - scale * largest_error(shortest / scale, longest / scale)
    least, most = _extremes(x)
    if -tolerance < least and most < tolerance:  # False if anything is NaN
        return
    # Some of the draws are nearer to a half-integer than the largest error bound: check these pair by pair.
    near = np.unique(np.flatnonzero(~(x.abs_().cpu().numpy() < tolerance)) % x.shape[1])
    for column, (lead, turn) in zip(near.tolist(), words[:, torch.from_numpy(near)].T.tolist(), strict=True):
        whole = certain(lead, turn, bits) or decided(lead, turn, bits, stream)
        out[:, column] = torch.tensor(whole, dtype=torch.float64)


def _one_by_one(size: int, bits: int, stream: AESStream) -> list[int]:
    """A few draws, with the :func:`error` of each pair."""
    found: list[int] = []
    while len(found) < size:
        lead, turn = stream.words(WORDS).tolist()
        found += certain(lead, turn, bits) or decided(lead, turn, bits, stream)
    return found[:size]


def _extremes(x: Tensor) -> tuple[float, float]:
    """The minimum and the maximum; both are NaN if anything is."""
    if x.device.type == "cpu":  # NumPy is twice as fast as torch
        numbers = x.numpy()
        return float(numbers.min()), float(numbers.max())
    least, most = torch.aminmax(x)
    return float(least), float(most)


def largest_error(shortest: float, longest: float) -> float:
    """A bound on :func:`error` for all radii between these."""
    if not (shortest > 0.0 and longest < _FAR):
        return math.inf
    u = math.exp(-(longest**2) / 2)
    return OF_RADIUS * longest + OVER_RADIUS / shortest + 2 * UNKNOWN * (1 / (u * longest) + 1 / shortest)


def error(radius: float, u: float) -> float:
    """A bound on the error of the transform of ``u``, divided by the scale; infinite if the radius is unknown."""
    if radius == 0.0 or u <= 2.0**-64:
        return math.inf
    return OF_RADIUS * radius + (OVER_RADIUS + UNKNOWN / (u - 2.0**-64)) / radius


def certain(lead: int, turn: int, bits: int) -> tuple[int, int] | None:
    """round(2**bits N) for both Gaussians of a pair, if these words determine it by the :func:`error` of the pair.

    The whole numbers are those of the products computed *here*: products computed elsewhere may round differently.
    """
    u = (lead & LOW_63) * 2.0**-63 + 2.0**-64
    radius, angle = math.sqrt(-2.0 * math.log(u)), turn * (math.pi * 2.0**-63)
    tolerance = 0.5 - 2.0**bits * error(radius, u)
    first, second = 2.0**bits * radius * math.cos(angle), 2.0**bits * radius * math.sin(angle)
    if abs(first - round(first)) < tolerance and abs(second - round(second)) < tolerance:
        return round(first), round(second)
    return None
