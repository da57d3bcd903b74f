"""The last word on a draw: intervals against mpmath, digits drawn for as long as it takes, and the farthest tail."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from dpmac.kernels import exact
from dpmac.kernels.exact import decided
from dpmac.kernels.streams import AESStream


class Digits(AESStream):
    """Gives the digits that it is told, the leading ones first: of U and V in turn, as :func:`decided` asks."""

    def __init__(self, u, v):
        super().__init__()
        self.u, self.v, self.asked = u, v, []  # long strings of binary digits

    def words(self, count):
        digits, known = 64 * count, 63 + sum(self.asked[::2])
        number = (self.u, self.v)[len(self.asked) % 2]
        if len(self.asked) % 2:
            known = 63 + sum(self.asked[1::2])
        self.asked.append(digits)
        wanted = int(number[known : known + digits], 2)
        return torch.frombuffer(bytearray(wanted.to_bytes(8 * count, "little")), dtype=torch.int64)


def product(u, v, bits):
    """The two products in mpmath's numbers."""
    radius = 2**bits * mpmath.sqrt(-2 * mpmath.log(u))
    return radius * mpmath.cospi(v), radius * mpmath.sinpi(v)


def corners(lead, turn, known, bits):
    """What the corners of the box that holds U and V round to: two sets of whole numbers."""
    ends = [(mpmath.mpf(lead + i) / 2**known, mpmath.mpf(turn + j) / 2**known) for i in (0, 1) for j in (0, 1)]
    return [
        {int(mpmath.nint(x)) for x in column} for column in zip(*(product(*end, bits) for end in ends), strict=True)
    ]


@pytest.mark.parametrize(("known", "bits"), [(63, 20), (63, 45), (70, 30), (127, 0), (127, 48), (255, 26)])
def test_intervals_hold_what_they_must_and_little_more(known, bits):
    draw = np.random.default_rng(known + bits)
    open_ones = 0
    with mpmath.workprec(known + bits + 200):
        for _ in range(60):
            lead, turn = (int.from_bytes(draw.bytes(40), "little") % 2**known for _ in range(2))
            turn = 2 * turn - 2**known
            found, allowed = exact._enclosed(lead, turn, known, bits), corners(lead, turn, known, bits)
            if max(map(len, allowed)) > 1:
                assert found is None
            elif found is not None:
                assert [{n} for n in found] == allowed
            open_ones += found is None
    assert open_ones <= {(63, 45): 10}.get((known, bits), 0)  # there, products are known to 2**-18


def test_nothing_is_said_of_a_radius_that_is_not_known():
    assert exact._enclosed(0, 5, 63, 0) is None
    assert exact._enclosed(1, 5, 63, 20) is None
    assert exact._enclosed(2**127 - 1, 2**125, 127, 0) == (0, 0)  # U may be 1 here: a radius of 0


@pytest.mark.parametrize("decides", ["u", "v"])
@pytest.mark.parametrize("up", [False, True])
def test_digits_are_drawn_until_a_product_leaves_its_half(decides, up):
    """U and V agree with a product of exactly 1,000.5 for 400 digits; the ones behind decide."""
    bits, long = 10, 2000
    with mpmath.workprec(4000):
        v = mpmath.mpf(1) / 8 if decides == "u" else mpmath.acos(mpmath.mpf(1000.5) / 1024 / 2) / mpmath.pi
        radius = mpmath.mpf(1000.5) / 1024 / mpmath.cospi(v)
        digits = [int(mpmath.floor(mpmath.exp(-(radius**2) / 2) * 2**long)), int(mpmath.floor(v * 2**long))]
        changed = 0 if decides == "u" else 1
        digits[changed] += (-1 if up else 1) << (long - 400)  # both products grow as U or V falls
        u, v = (f"{number:0{long}b}" for number in digits)
        stream = Digits(u, v)
        first, _ = decided(int(u[:63], 2), int(v[:63], 2), bits, stream)
    assert first == (1001 if up else 1000)
    assert sum(stream.asked[::2]) + 63 > 400
    assert len(stream.asked) == 6  # 64, 128 and 256 more of each


@pytest.mark.usefixtures("repeatable_noise")
def test_the_farthest_tail_has_its_law():
    """A word of zeros: U is below 2**-63, and the radius, above 9.3, goes on for ever."""
    stream = AESStream()
    radii = np.array([decided(0, 0, 30, stream)[0] for _ in range(1500)]) * 2.0**-30
    assert radii.min() > math.sqrt(2 * 63 * math.log(2)) - 1e-9
    assert stats.kstest(np.exp(-(radii**2) / 2) * 2.0**63, "uniform").pvalue > 1e-7


def test_constants_and_series_to_a_hundred_digits():
    with mpmath.workdps(130), localcontext(Context(prec=100)):
        assert abs(mpmath.mpf(str(exact.pi(100))) - mpmath.pi) < mpmath.mpf(10) ** -98
        for angle in ("0", "1e-60", "0.5", "-1.5707963267948966", "3.14159265358979", "-3.14159265358979"):
            cosine, sine = exact._cosine_and_sine(Decimal(angle))
            assert abs(mpmath.mpf(str(cosine)) - mpmath.cos(mpmath.mpf(angle))) < mpmath.mpf(10) ** -96
            assert abs(mpmath.mpf(str(sine)) - mpmath.sin(mpmath.mpf(angle))) < mpmath.mpf(10) ** -96


def test_a_caller_s_decimal_precision_is_neither_used_nor_changed():
    with localcontext(Context(prec=3)) as context:
        stream = Digits("1" * 300, "1" * 300)
        low = decided(2**62, 2**61, 40, stream)
        assert context.prec == 3
    assert low == decided(2**62, 2**61, 40, Digits("1" * 300, "1" * 300))
    assert not any(context.flags.values())
