"""From random words to the laws that the package draws from. Deterministic: all randomness is in the words.

K4 for places, whose chance is off by less than 2**-69. The Gaussians here are for initial weights only.

Gaussians come from the Box-Muller transform in double precision: a radius sqrt(-2 log u) and a direction, from two
words of 64 bits for two draws. These are floating-point Gaussians, for initial weights and the like, whose radii end at
9.4; what a release adds is drawn from the same words and is exact, to the last bit and in the farthest tail
(:mod:`dpmac.kernels.rounded`).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from dpmac.kernels.streams import CHUNK, AESStream

WORDS = 2  # behind every pair of Gaussians: one for the radius, one for the direction
PAIRS = 1 << 15  # that a core makes at a time: with all that is needed on the way, its cache holds them
LOW_63 = (1 << 63) - 1
HALF = torch.tensor(2.0**-64, dtype=torch.float64)  # of what the last bit of u counts
_LOW_53 = (1 << 53) - 1


def uniforms(count: int, stream: AESStream) -> Tensor:
    """``count`` draws from [0, 1) with 53 bits each: right for sampling rates down to 1e-9."""
    out = torch.empty(count, dtype=torch.float64)
    for part in torch.split(out, CHUNK // 3):  # so short that torch does not wake other threads for it
        part.copy_(stream.words(len(part)).bitwise_and_(_LOW_53)).mul_(2.0**-53)
    return out


def places(count: int, rate: float, stream: AESStream) -> Tensor:
    """Which of ``count`` places stand, each by itself with probability ``rate``; in order.

    Each place compares 16 bits with rate * 2**16, and 53 more where they tie with its whole part. Scaling by a power
    of two, the whole part and what is left are exact in a double, so the probability is off by less than 2**-69.
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
    """Write two independent Gaussians into every column of ``pairs`` (2, m) from the one of ``words`` (2, m).

    ``words`` is int64 of 64 random bits each, on any device, of which the first row loses its sign. ``scale``, a power
    of two, multiplies the Gaussians and the ``radii`` (m), which are left for whoever wants to know them. Whatever the
    words are, the result is finite: u is never 0 and never above 1.
    """
    lead, turn = words
    cosine, sine = pairs
    radii.copy_(lead.bitwise_and_(LOW_63))  # (from numbers without a sign, the conversion takes ten times as long)
    torch.add(HALF, radii, alpha=2.0**-63, out=radii)  # u, in the middle of what lead says of it
    radii.log_().mul_(-2.0 * scale**2).sqrt_()
    sine.copy_(turn).mul_(math.pi * 2.0**-63)  # the angle, from -pi to pi
    torch.cos(sine, out=cosine)
    sine.sin_()
    cosine.mul_(radii)
    sine.mul_(radii)
