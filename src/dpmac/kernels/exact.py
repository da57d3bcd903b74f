"""Exact decisions: which whole number round(2**bits N) is, computed with as many digits as necessary.

K4: decides the draws that double precision leaves open, with as many digits as necessary.

A pair of Gaussians is a function of two real numbers with infinitely many binary digits: U, uniform in (0, 1), and V,
uniform in [-1, 1). Then sqrt(-2 log U) cos(pi V) and sqrt(-2 log U) sin(pi V) are independent and *exactly* N(0, 1).
We draw some leading digits of U and V, and more if these leave a rounding open. :func:`decided` maps intervals that
contain U and V to intervals that contain the two products, and draws digits until each of these lies between two
neighbouring half-integers. Every digit is an independent coin flip, and none is drawn twice, so the whole numbers have
exactly the distribution of rounded Gaussians. A product is itself a half-integer with probability 0.

The arithmetic is that of :mod:`decimal`: every operation, including square root and logarithm, is correctly rounded,
and the precision is local to the thread. Sines are Taylor series with a margin far above their rounding error.
"""

from __future__ import annotations

import functools
import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, getcontext, localcontext

from dpmac.kernels.streams import AESStream

KNOWN = 63  # binary digits of U and of V in their first words
_GUARD = 16  # decimal digits beyond those of U and V
_MARGIN = 8  # of these, the digits that the rounding of all operations can affect


def decided(lead: int, turn: int, bits: int, stream: AESStream) -> tuple[int, int]:
    """round(2**bits N) for both Gaussians of a pair whose first words are ``lead`` and ``turn``.

    U is in [lead, lead + 1] / 2**63, where the sign bit of lead is dropped, and V in [turn, turn + 1] / 2**63. Further
    digits come from ``stream``.
    """
    lead, known, more = lead % 2**KNOWN, KNOWN, 64
    while True:
        lead, turn = (number << more | further(stream, more) for number in (lead, turn))
        known, more = known + more, 2 * more
        found = _enclosed(lead, turn, known, bits)
        if found is not None:
            return found


def further(stream: AESStream, count: int) -> int:
    """The next ``count`` binary digits, a multiple of 64."""
    return int.from_bytes(stream.words(count // 64).numpy().tobytes(), "little")


def _enclosed(lead: int, turn: int, known: int, bits: int) -> tuple[int, int] | None:
    """Both whole numbers, if U in [lead, lead + 1] / 2**known and V in [turn, turn + 1] / 2**known determine them."""
    if lead == 0:
        return None
    digits = math.ceil((known + bits) * math.log10(2)) + _GUARD
    with localcontext(Context(prec=digits, rounding=ROUND_HALF_EVEN, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        margin = Decimal(1).scaleb(_MARGIN - digits)
        whole = Decimal(2) ** known
        square = -2 * (lead / whole).ln()  # at the lower end of U; at the upper end it is smaller by at most 2 / lead
        shortest = max(square - 2 / Decimal(lead) - margin, Decimal(0)).sqrt() * (1 - margin)
        longest = (square + margin).sqrt() * (1 + margin)
        angle, further = pi(digits) * turn / whole, 4 / whole + margin  # 4 is more than pi
        first, second = (
            {
                int((2**bits * radius * (ratio + by)).to_integral_value())
                for radius in (shortest, longest)
                for by in (-further, further)
            }
            for ratio in _cosine_and_sine(angle)
        )
    if len(first) + len(second) > 2:
        return None
    return first.pop(), second.pop()


def _cosine_and_sine(angle: Decimal) -> tuple[Decimal, Decimal]:
    """Cosine and sine of an angle from -pi to pi, far within the margin: about 60 terms, none above 5.2."""
    sums = [Decimal(1), Decimal(0), Decimal(0), Decimal(0)]  # of the terms, by their index modulo 4
    term, number, small = Decimal(1), 0, Decimal(1).scaleb(2 - getcontext().prec)
    while number < 8 or abs(term) > small:  # from the eighth term on, the remainder is less than the last term
        number += 1
        term = term * angle / number
        sums[number % 4] += term
    return sums[0] - sums[2], sums[1] - sums[3]


@functools.cache
def pi(digits: int) -> Decimal:
    """Pi by Machin's formula in whole numbers with ten extra digits; each term is truncated by less than one unit."""
    unit = 10 ** (digits + 10)

    def inverse(x: int) -> int:
        """arctan(1 / x)"""
        power, number, sign, total = unit // x, 1, 1, 0
        while power:
            total += sign * (power // number)
            power, number, sign = power // (x * x), number + 2, -sign
        return total

    found: Decimal = Decimal(4 * (4 * inverse(5) - inverse(239))) / unit  # rounded to the current precision
    return found
