"""Poisson sampling at a small rate, in time proportional to the sample: draw the gaps between sampled places.

K4: gaps have exactly a geometric distribution.

Between two sampled places, the number G of places that are not sampled has P(G >= k) = (1 - q)**k. If U is uniform in
(0, 1), then floor(log U / log(1 - q)) has exactly that distribution, and independent gaps are equivalent to one coin
flip for every place. U has infinitely many binary digits: 63 are drawn, and the ratio is computed in double precision
with a bound on every error (the digits not drawn, the roundings, log and log1p, for which we allow four ulps; one is
documented). If that bound leaves the floor of the ratio open, more digits are drawn and the floor is decided with
:mod:`decimal`, as in :mod:`dpmac.kernels.exact`. So the distribution is exact for every q.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext

import numpy as np
import torch
from torch import Tensor

from dpmac.kernels.gaussian import HALF, LOW_63
from dpmac.kernels.streams import AESStream

RARE = 1 / 32  # below this rate, gaps are faster than a coin flip for every place
KNOWN = 63  # binary digits of U that are drawn first
_LOT = 1 << 11  # maximal number of gaps drawn at a time: few enough that torch does not start other threads


def rare_places(count: int, rate: float, stream: AESStream) -> Tensor:
    """A sorted sample of ``count`` places, each drawn independently with probability ``rate``, below 1.

    The time is proportional to the sample. Places beyond the last one are dropped, and no draw depends on them.
    """
    found, reached = [], -1
    while reached < count:
        expected = (count - reached) * rate
        lot = min(_LOT, math.ceil(expected + 4 * math.sqrt(expected)) + 8)
        sampled = reached + np.cumsum(gaps(lot, rate, stream).numpy() + 1)
        found.append(sampled)
        reached = int(sampled[-1])
    found[-1] = found[-1][: np.searchsorted(found[-1], count)]
    return torch.from_numpy(np.concatenate(found))


def gaps(count: int, rate: float, stream: AESStream) -> Tensor:
    """``count`` independent G with P(G >= g) = (1 - rate)**g, exactly: whole numbers."""
    lead = stream.words(count).bitwise_and_(LOW_63)
    ratio, off = _ratio(lead, rate)
    found, above = torch.floor(ratio - off), torch.floor(ratio + off)
    unclear = torch.nonzero(found != above).flatten()
    for place, first in zip(unclear.tolist(), lead[unclear].tolist(), strict=True):  # lists: draws overwrite lead
        found[place] = decided(first, rate, stream)
    return found.long()


def _ratio(lead: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """log U / log(1 - rate) for U in [lead, lead + 1] / 2**63, and a bound on its error.

    The midpoint of that interval is off by 2**-64, and by a relative 2**-53 as a double; log is off by four ulps plus
    the error of its argument, log1p by four ulps, the quotient by half an ulp.
    """
    u = torch.add(HALF, lead.double(), alpha=2.0**-63)
    slope = -math.log1p(-rate)
    ratio = u.log().div_(-slope)
    return ratio, (2.0**-52 + 2.0**-63 / u).div_(slope).add_(ratio, alpha=2.0**-48)


def decided(lead: int, rate: float, stream: AESStream) -> int:
    """The gap for a U whose first 63 digits are ``lead``; draws as many further digits as necessary."""
    known, more = KNOWN, 64
    while True:
        lead = lead << more | int.from_bytes(stream.words(more // 64).numpy().tobytes(), "little")
        known, more = known + more, 2 * more
        digits = math.ceil(known * math.log10(2)) + 40
        with localcontext(Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)):
            slope, whole = (1 - Decimal(rate)).ln(), Decimal(2) ** known
            if lead:
                least, most = ((number / whole).ln() / slope for number in (lead + 1, Decimal(lead)))
                margin = (1 + most) * Decimal(1).scaleb(30 - digits)  # 1 - rate is rounded, and a rate is at least 1e-9
                if math.floor(least - margin) == math.floor(most + margin):
                    return math.floor(most)
