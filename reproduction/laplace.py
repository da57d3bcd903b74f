"""Sums of whole numbers with exact discrete Laplace noise: pure epsilon. For a baseline only.

The package releases by Gaussian noise, and its ledger knows nothing else: what is released here is in no ledger, and
outside the package's guarantee. The random numbers come from its sources, though, and the noise has exactly the stated
law: P(z) is proportional to exp(-|z| / scale), over all whole numbers z.

**Claim.** Let f be a vector of whole numbers, a sum over the rows of a share of each row's own, and let no share have
an L1 norm above the sensitivity. Then f + noise, with an independent draw for each coefficient, is
(sensitivity / scale)-differentially private; neighbours have one row there or blank. For their sums f and f' and any
outcome z, the exponents |z - f|_1 / scale and |z - f'|_1 / scale differ by |f - f'|_1 / scale at most. All of it is in
whole numbers; no rounding enters the argument.

The sampler is that of Canonne, Kamath and Steinke (2020), for many draws at a time: Laplace by a uniform remainder and
a geometric quotient, both from coins of probability exp(-a / b) that are tossed with whole numbers only. How long it
takes depends on the draws, not on the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.randomness import NoiseSource

_WORD = 1 << 53  # a source's uniforms are whole multiples of 2**-53


@dataclass(frozen=True)
class Answer:
    """Noisy sums, in the units of the sums; the ``scale`` of their noise and what they cost."""

    sums: Tensor
    scale: int
    epsilon: Fraction


def perturbed(sums: Tensor, sensitivity: int, epsilon: float, source: NoiseSource) -> Answer:
    """``sums`` (int64) with noise for this epsilon; none at all if it is infinite.

    That no row adds more than ``sensitivity`` (L1) is the caller's to prove. The cost is at most ``epsilon``: the scale
    is rounded up.
    """
    if sums.dtype != torch.int64:
        raise ArgumentError("sums", sums.dtype, "give whole numbers, as int64")
    if sensitivity < 1:
        raise ArgumentError("sensitivity", sensitivity, "give a whole number, at least 1")
    if not epsilon > 0:
        raise ArgumentError("epsilon", epsilon, "give a number above 0, or inf for no noise")
    if math.isinf(epsilon):
        return Answer(sums.double(), 0, Fraction(0))
    scale = math.ceil(Fraction(sensitivity) / Fraction(epsilon))
    noise = discrete_laplace(sums.numel(), scale, source).reshape(sums.shape)
    return Answer((sums + noise).double(), scale, Fraction(sensitivity, scale))


def discrete_laplace(count: int, scale: int, source: NoiseSource) -> Tensor:
    """``count`` independent whole numbers z with probabilities proportional to exp(-|z| / scale)."""
    if not 1 <= scale < 1 << 46:  # 64 times the scale must be far below 2**53
        raise ArgumentError("scale", scale, "give a whole number from 1 to 2**46")
    drawn, found = [torch.empty(0, dtype=torch.int64)], 0
    while found < count:
        tries = 2 * (count - found) + 16
        remainder = _below(torch.full((tries,), scale), source)
        kept = remainder[_coin_exp(remainder, torch.full((tries,), scale), source)]
        size = kept + scale * _geometric(len(kept), source)
        negative = _below(torch.full((len(size),), 2), source) == 1
        good = (size > 0) | ~negative  # or zero would be twice as likely as it should be
        drawn.append(torch.where(negative, -size, size)[good])
        found += len(drawn[-1])
    return torch.cat(drawn)[:count]


def _below(bounds: Tensor, source: NoiseSource) -> Tensor:
    """A whole number from 0 to each bound - 1, each as likely as the others."""
    out, open_ = torch.empty_like(bounds), torch.arange(len(bounds))
    while len(open_):
        words = (source.uniform(len(open_)) * _WORD).long()
        bound = bounds[open_]
        fine = words < _WORD // bound * bound
        out[open_[fine]] = words[fine] % bound[fine]
        open_ = open_[~fine]
    return out


def _coin_exp(above: Tensor, below: Tensor, source: NoiseSource) -> Tensor:
    """True with probability exp(-above / below), of fractions from 0 to 1.

    Coins of probability (above / below) / k for k = 1, 2, ... are tossed until one fails; the k of that one is odd with
    this probability.
    """
    k, tossing = torch.ones_like(above), torch.arange(len(above))
    while len(tossing):
        hit = _below(below[tossing] * k[tossing], source) < above[tossing]
        tossing = tossing[hit]
        k[tossing] += 1
    return k % 2 == 1


def _geometric(count: int, source: NoiseSource) -> Tensor:
    """How many coins of probability exp(-1) come true before the first that does not."""
    successes, going = torch.zeros(count, dtype=torch.int64), torch.arange(count)
    while len(going):
        one = torch.ones_like(going)
        going = going[_coin_exp(one, one, source)]
        successes[going] += 1
    return successes
