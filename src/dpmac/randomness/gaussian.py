"""From random words to the laws that the package draws from. Deterministic: all randomness is in the words.

Gaussians come from the Box-Muller transform in double precision: a radius sqrt(-2 log u) and a direction, from three
words of 64 bits for two draws. How fine they are:

- u has 126 bits, of which a double keeps the 53 that count. So it has full relative precision down to 2**-73: radii lie
  less than 2**-26 apart near 0 and less than 2**-48 from 1 to 10, where what a double can hold is what limits them.
  They stay closer than 2**-20, the grid that a release is rounded to, out to 12.3, and end at 13.3. A true pair of
  Gaussians goes beyond 12.3 once in 2**109 draws. (With 53 bits in all, radii beyond 7 would lie further apart than
  that grid, and a draw out there could rule a neighbouring table out.)
- The direction has 64 bits, of which a double keeps 53 or more that count: at 13.3, directions are 2**-47 apart.

These are floating-point Gaussians, with a rounding error of some 2**-50; they are not exact discrete ones.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from dpmac.randomness.streams import CHUNK, AESStream

WORDS = 3  # behind every pair of Gaussians: two for the radius, one for the direction
LOW_63 = (1 << 63) - 1
_LOW_53 = (1 << 53) - 1


def uniforms(count: int, stream: AESStream) -> Tensor:
    """``count`` draws from [0, 1) with 53 bits each: right for sampling rates down to 1e-9."""
    out = torch.empty(count, dtype=torch.float64)
    for part in torch.split(out, CHUNK // WORDS):  # so short that torch does not wake other threads for it
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
    lost = tied[uniforms(len(tied), stream).numpy() >= rate * 2.0**16 - lead]
    return torch.from_numpy(np.delete(found, lost))


def gaussians(count: int, stream: AESStream) -> Tensor:
    """``count`` draws from N(0, 1)."""
    out = torch.empty(count + count % 2, dtype=torch.float64)
    for part in torch.split(out, 2 * (CHUNK // WORDS) * torch.get_num_threads()):  # what the cores' caches hold
        pairs = part.view(2, -1)
        box_muller(stream.words(WORDS * pairs.shape[1]).view(WORDS, -1), pairs)
    return out[:count]


def box_muller(words: Tensor, out: Tensor) -> None:
    """Write two independent Gaussians into every column of ``out`` (2, m) from the one of ``words`` (3, m).

    ``words`` is int64 of 64 random bits each, on any device, and is destroyed. Whatever the words are, the result is
    finite: u is never 0 and never above 1.
    """
    radius, other = out
    lead, rest, turn = words
    # u = (lead + (rest + 1/2) / 2**63) / 2**63. Where lead has more than 54 bits, rest is below its rounding.
    radius.copy_(lead.bitwise_and_(LOW_63))
    other.copy_(rest.bitwise_and_(LOW_63)).add_(0.5)
    radius.add_(other, alpha=2.0**-63).mul_(2.0**-63)
    radius.log_().mul_(-2.0).sqrt_()
    other.copy_(turn).mul_(math.pi * 2.0**-63)  # from -pi to pi
    cosine = torch.cos(other, out=lead.view(torch.float64))
    other.sin_().mul_(radius)
    radius.mul_(cosine)
