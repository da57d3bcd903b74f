"""The last word on a draw, where its margin decides: products that cross a half by next to nothing stay open."""

from __future__ import annotations

import mpmath
import pytest
from test_exact import corners

from dpmac.kernels import exact


@pytest.mark.parametrize("crossing", ["the longest radius", "the shortest"])
@pytest.mark.parametrize("sine", [False, True])
def test_a_half_that_only_the_margin_of_the_radius_reaches_leaves_a_draw_open(crossing, sine):
    """U is so near to 1 that the rounding of its logarithm is the largest error of the radius: 2e-33 of it.

    One end of what the radius can be has a product beyond 1/2, by 1e-35 of it.
    """
    known, bits = 127, 48
    lead, whole = 2**known - 2**31, 2**known
    with mpmath.workprec(700):
        end, by = (lead, 1) if crossing == "the longest radius" else (lead + 1, -1)
        radius = 2**bits * mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(end) / whole))
        ratio = (1 + by * mpmath.mpf(10) ** -35) / 2 / radius
        turn = int((mpmath.asin if sine else mpmath.acos)(ratio) / mpmath.pi * whole)
        allowed = corners(lead, turn, known, bits)
    assert allowed[sine] == {0, 1}
    assert exact._enclosed(lead, turn, known, bits) is None


def test_a_half_that_no_end_reaches_leaves_nothing_open():
    known, bits, turn = 127, 48, 2**125
    lead = 2**known - 2**80
    with mpmath.workprec(700):
        (first,), (second,) = corners(lead, turn, known, bits)
    assert exact._enclosed(lead, turn, known, bits) == (first, second)
