"""Rare places: those of very many that stand, each by itself with a small probability, without asking all the others.

K4: gaps have exactly a geometric law.

Between two places that stand, the number G of those that do not has P(G >= g) = (1 - q)**g. If U is uniform in (0, 1),
floor(log U / log(1 - q)) has exactly that law, and gaps drawn one after the other give every place its own coin. U is a
number of infinitely many binary digits: 63 are drawn, and the ratio is computed in doubles with a bound on everything
that can be wrong with it (the digits not drawn, the roundings, log and log1p, to which four ulps are allowed: one is
documented). Where that bound leaves open which whole number is below the ratio, more digits are drawn and it is decided
in :mod:`decimal`, as in :mod:`dpmac.kernels.exact`. So the law is exact, whatever q is.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext

import numpy as np
import torch
from torch import Tensor

from dpmac.kernels.gaussian import HALF, LOW_63
from dpmac.kernels.streams import AESStream

RARE = 1 / 32  # below it, gaps are quicker than a coin for every place
KNOWN = 63  # binary digits of U that are drawn at once
_LOT = 1 << 11  # gaps that are drawn at a time, at most: so few that torch does not wake other threads for them


def rare_places(count: int, rate: float, stream: AESStream) -> Tensor:
    """Which of ``count`` places stand, each by itself with probability ``rate``, below 1; in order.

    Takes time for those that do. Whatever lies behind the last place is dropped, and no draw depends on it.
    """
    found, reached = [], -1
    while reached < count:
        expected = (count - reached) * rate
        lot = min(_LOT, math.ceil(expected + 4 * math.sqrt(expected)) + 8)
        standing = reached + np.cumsum(gaps(lot, rate, stream).numpy() + 1)
        found.append(standing)
        reached = int(standing[-1])
    found[-1] = found[-1][: np.searchsorted(found[-1], count)]
    return torch.from_numpy(np.concatenate(found))


def gaps(count: int, rate: float, stream: AESStream) -> Tensor:
    """``count`` independent G with P(G >= g) = (1 - rate)**g, exactly: whole numbers."""
    lead = stream.words(count).bitwise_and_(LOW_63)
    ratio, off = _ratio(lead, rate)
    found, above = torch.floor(ratio - off), torch.floor(ratio + off)
    unclear = torch.nonzero(found != above).flatten()
    for place, first in zip(unclear.tolist(), lead[unclear].tolist(), strict=True):  # all of them, before more is drawn
        found[place] = decided(first, rate, stream)
    return found.long()


def _ratio(lead: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """log U / log(1 - rate) for U in [lead, lead + 1] / 2**63, and how far it is off at most.

    The middle of that interval is off by 2**-64, and by 2**-53 of itself as a double; log by four ulps and by what its
    argument is off, log1p by four, the quotient by half of one.
    """
    u = torch.add(HALF, lead.double(), alpha=2.0**-63)
    slope = -math.log1p(-rate)
    ratio = u.log().div_(-slope)
    return ratio, (2.0**-52 + 2.0**-63 / u).div_(slope).add_(ratio, alpha=2.0**-48)


def decided(lead: int, rate: float, stream: AESStream) -> int:
    """The gap of a U whose first 63 digits are ``lead``; as many more are drawn as it takes."""
    known, more = KNOWN, 64
    while True:
        lead = lead << more | int.from_bytes(stream.words(more // 64).numpy().tobytes(), "little")
        known, more = known + more, 2 * more
        digits = math.ceil(known * math.log10(2)) + 40
        with localcontext(Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)):
            slope, whole = (1 - Decimal(rate)).ln(), Decimal(2) ** known
            if lead:
                least, most = ((number / whole).ln() / slope for number in (lead + 1, Decimal(lead)))
                margin = (1 + most) * Decimal(1).scaleb(30 - digits)  # 1 - rate is rounded, and a rate is 1e-9 at least
                if math.floor(least - margin) == math.floor(most + margin):
                    return math.floor(most)
