"""The last word on a draw: which whole number round(2**bits N) is, decided in as many digits as that takes.

K4: decides what doubles leave open, with as many digits as it takes.

A pair of Gaussians is a function of two real numbers with infinitely many binary digits: U, uniform in (0, 1), and V,
uniform in [-1, 1). sqrt(-2 log U) cos(pi V) and sqrt(-2 log U) sin(pi V) are then independent and *exactly* N(0, 1).
Some leading digits of U and V are drawn, and where they leave a rounding open, more. :func:`decided` takes intervals
that hold U and V to intervals that hold the two products, and draws digits until each lies between two neighbouring
halves. Every digit is a coin by itself, and none is drawn twice: so the whole numbers have exactly the law of rounded
Gaussians. That a product is itself a half has probability 0.

Arithmetic is that of :mod:`decimal`: every operation, square root and logarithm included, is correctly rounded, and its
precision belongs to the thread. Sines are Taylor series with a margin far above their rounding.
"""

from __future__ import annotations

import functools
import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, getcontext, localcontext

from dpmac.kernels.streams import AESStream

KNOWN = 63  # binary digits of U and of V that stand in their first words
_GUARD = 16  # decimal digits beyond those that U and V have
_MARGIN = 8  # of these, what the rounding of all operations together stays within


def decided(lead: int, turn: int, bits: int, stream: AESStream) -> tuple[int, int]:
    """round(2**bits N) for both Gaussians of a pair, of which ``lead`` and ``turn`` are what was drawn first.

    U is in [lead, lead + 1] / 2**63, if lead loses its sign, and V in [turn, turn + 1] / 2**63. Further digits come
    from ``stream``.
    """
    lead, known, more = lead % 2**KNOWN, KNOWN, 64
    while True:
        lead, turn = (number << more | _digits(stream, more) for number in (lead, turn))
        known, more = known + more, 2 * more
        found = _enclosed(lead, turn, known, bits)
        if found is not None:
            return found


def _digits(stream: AESStream, count: int) -> int:
    return int.from_bytes(stream.words(count // 64).numpy().tobytes(), "little")


def _enclosed(lead: int, turn: int, known: int, bits: int) -> tuple[int, int] | None:
    """Both whole numbers, if U in [lead, lead + 1] / 2**known and V in [turn, turn + 1] / 2**known fix them."""
    if lead == 0:
        return None
    digits = math.ceil((known + bits) * math.log10(2)) + _GUARD
    with localcontext(Context(prec=digits, rounding=ROUND_HALF_EVEN, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        margin = Decimal(1).scaleb(_MARGIN - digits)
        whole = Decimal(2) ** known
        square = -2 * (lead / whole).ln()  # at the lower end of U; at the upper it is less, by 2 / lead at most
        shortest = max(square - 2 / Decimal(lead) - margin, Decimal(0)).sqrt() * (1 - margin)
        longest = (square + margin).sqrt() * (1 + margin)
        angle, further = _pi(digits) * turn / whole, 4 / whole + margin  # 4 is more than pi
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
    """Of an angle from -pi to pi. Far within the margin: some 60 terms, of which none is above 5.2."""
    sums = [Decimal(1), Decimal(0), Decimal(0), Decimal(0)]  # of the terms by their number modulo 4
    term, number, small = Decimal(1), 0, Decimal(1).scaleb(2 - getcontext().prec)
    while number < 8 or abs(term) > small:  # from the eighth on, what is left out is less than the last term
        number += 1
        term = term * angle / number
        sums[number % 4] += term
    return sums[0] - sums[2], sums[1] - sums[3]


@functools.cache
def _pi(digits: int) -> Decimal:
    """Machin's formula in whole numbers; each of its terms is cut by less than one unit, ten digits further down."""
    unit = 10 ** (digits + 10)

    def inverse(x: int) -> int:
        """arctan(1 / x)"""
        power, number, total = unit // x, 1, 0
        while power:
            total += power // number if number % 4 == 1 else -(power // number)
            power, number = power // (x * x), number + 2
        return total

    found: Decimal = Decimal(4 * (4 * inverse(5) - inverse(239))) / unit  # rounded to the precision in force
    return found
