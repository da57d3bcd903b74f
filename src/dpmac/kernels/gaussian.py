"""Transform random words into the distributions that the package draws from. Deterministic, given the words.

K4: a place is drawn with exactly the stated probability, if that is 1/32 or more. The Gaussians here are for initial
weights only.

Gaussians come from the Box-Muller transform in double precision: a radius sqrt(-2 log u) and a direction, two 64-bit
words for two draws. These are floating-point Gaussians, for initial weights and the like, with radii up to 9.4. The
noise of a release is computed from the same words and is exact, to the last bit and in the farthest tail
(:mod:`dpmac.kernels.rounded`).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from dpmac.kernels.streams import CHUNK, AESStream

WORDS = 2  # for each pair of Gaussians: one for the radius, one for the direction
PAIRS = 1 << 15  # pairs per core at a time: they fit in its cache, with all temporaries
LOW_63 = (1 << 63) - 1
HALF = torch.tensor(2.0**-64, dtype=torch.float64)  # half the value of the last bit of u
_LOW_53 = (1 << 53) - 1


def uniforms(count: int, stream: AESStream) -> Tensor:
    """``count`` draws from [0, 1) with 53 bits each: right for sampling rates down to 1e-9."""
    out = torch.empty(count, dtype=torch.float64)
    for part in torch.split(out, CHUNK // 3):  # short enough that torch does not start other threads
        part.copy_(stream.words(len(part)).bitwise_and_(_LOW_53)).mul_(2.0**-53)
    return out


def places(count: int, rate: float, stream: AESStream) -> Tensor:
    """A sorted sample of ``count`` places, each drawn independently with probability ``rate``.

    Each place compares 16 random bits with the integer part of rate * 2**16, and 53 more with its fractional part if
    they tie. Scaling by a power of two, the integer part and the fractional part are exact in double precision, so the
    probability is off by less than 2**-69. It is exact from 1/32 on, where a double is a whole multiple of 2**-57;
    the package draws smaller rates by :mod:`dpmac.kernels.gaps`.
    """
    lead = math.floor(rate * 2.0**16)
    words = stream.words(-(-count // 4)).numpy().view(np.uint16)[:count]
    found = np.flatnonzero(words <= lead)
    tied = np.flatnonzero(words[found] == lead)
    if len(tied) == 0:
        return torch.from_numpy(found)
    lost = tied[uniforms(len(tied), stream).numpy() >= rate * 2.0**16 - lead]
    return torch.from_numpy(np.delete(found, lost))


def gaussians(count: int, stream: AESStream) -> Tensor:
    """``count`` draws from N(0, 1)."""
    out = torch.empty(count + count % 2, dtype=torch.float64)
    longest = PAIRS * torch.get_num_threads()
    radii = torch.empty(min(longest, len(out) // 2), dtype=torch.float64)
    for part in torch.split(out, 2 * longest):
        pairs = part.view(2, -1)
        m = pairs.shape[1]
        box_muller(stream.words(WORDS * m).view(WORDS, m), radii[:m], pairs)
    return out[:count]


def box_muller(words: Tensor, radii: Tensor, pairs: Tensor, scale: float = 1.0) -> None:
    """Write two independent Gaussians to every column of ``pairs`` (2, m) from the same column of ``words`` (2, m).

    ``words`` is int64 with 64 random bits each, on any device; the sign bit of the first row is dropped. ``scale``, a
    power of two, multiplies the Gaussians and the ``radii`` (m), which are left for the caller. The result is finite
    for all words: u is never 0 and never above 1.
    """
    lead, turn = words
    cosine, sine = pairs
    radii.copy_(lead.bitwise_and_(LOW_63))  # (converting unsigned numbers takes ten times as long)
    torch.add(HALF, radii, alpha=2.0**-63, out=radii)  # u, the midpoint of the interval that lead determines
    radii.log_().mul_(-2.0 * scale**2).sqrt_()
    sine.copy_(turn).mul_(math.pi * 2.0**-63)  # the angle, from -pi to pi
    torch.cos(sine, out=cosine)
    sine.sin_()
    cosine.mul_(radii)
    sine.mul_(radii)
