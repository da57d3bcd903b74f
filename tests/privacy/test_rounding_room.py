"""Room for rounding, held against what the proofs need, with kernels that lose as much as they may."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from dpmac.privacy import JointClip, Normalise, OuterPart, PerLayerClip, PositionPart, alike, bounds
from dpmac.privacy.chunks import CHUNK, GROUP, SINGLE_ROOM, group_of, in_chunks
from dpmac.privacy.parts import _single_norms
from dpmac.privacy.positions import UNIT_ROUNDOFF
from dpmac.privacy.sampling import MAX_BLOCK

SINGLE, DOUBLE = (Fraction(torch.finfo(dtype).eps) / 2 for dtype in (torch.float32, torch.float64))  # unit roundoffs


# --- sums in single precision ---------------------------------------------------------------------------------------


def rounding_of(chunk, group):
    """What chunks.in_chunks says a sum can move by, twice, in bounds, with gamma_k = k u / (1 - k u) for k u."""
    product = chunk * (chunk * SINGLE) / (1 - chunk * SINGLE)
    most = chunk * (1 + chunk * SINGLE / (1 - chunk * SINGLE))  # the length of one product, its rounding included
    additions = Fraction(group * (group + 1), 2) * most * SINGLE * (1 + SINGLE) ** group
    return 2 * (product + additions)


def test_what_is_set_aside_for_single_precision_covers_the_worst_rounding_of_any_chunk():
    """And no more than docs/guarantee.md says: 0.9 % of the bound at most. It is taken from what a row may say."""
    assert group_of(CHUNK) == GROUP
    for chunk in range(1, CHUNK + 1):
        assert rounding_of(chunk, group_of(chunk)) <= Fraction(SINGLE_ROOM)
    assert SINGLE_ROOM <= 0.009
    thirds = torch.full((CHUNK * GROUP, 1), 1 / 3)  # every one adds its rounding to that of the others
    off = abs(float(in_chunks(thirds, thirds, one=False)) - CHUNK * GROUP * float(thirds[0]) ** 2)
    assert 0 < off <= SINGLE_ROOM / 9


# --- norms in single precision --------------------------------------------------------------------------------------


def worst_norms(rows, dim=-1, dtype=None):
    """Squares below the least number with all digits are lost, and the sum of d others is d u too small."""
    squares = rows.double().square()
    squares = torch.where(squares < torch.finfo(torch.float32).tiny, 0.0, squares)
    lost = 1.0 - rows.shape[-1] * float(SINGLE)
    return (squares.sum(dim=-1) * lost).sqrt().float()


def hard_rows(d):
    """Of ordinary size, just too small to be squared, both in one row, and nothing."""
    least = 2.0**-63 * (1 - 2.0**-20)
    rows = torch.full((4, d), least)
    rows[0], rows[2, 0], rows[3] = 1 / 3, 2.0**-62, 0.0
    return rows


def assert_not_below(norms, rows):
    for norm, row in zip(norms.tolist(), rows.double().tolist(), strict=True):
        assert Fraction(norm) ** 2 >= sum(Fraction(x) ** 2 for x in row)


@pytest.mark.parametrize("d", [1, 2, 40, 1000])
def test_no_kernel_within_its_rounding_measures_a_row_too_short(d, monkeypatch):
    monkeypatch.setattr(torch.linalg, "vector_norm", worst_norms)
    rows = hard_rows(d)
    assert_not_below(_single_norms(rows), rows)
    together = [OuterPart(rows, torch.ones(4, 1)), OuterPart(torch.ones(4, 1), rows)]
    alike.measure(together)
    assert_not_below(together[0].lengths()[1], rows)
    assert_not_below(together[1].lengths()[2], rows)


@pytest.mark.parametrize("small", [0.0, 2.0**-28, 2.0**-27, 1.4 * 2.0**-27, 2.0**-26.5, 1e-3, 0.7, 3e4, 1e30])
def test_the_constant_beside_a_short_row_is_not_rounded_away(small):
    """1 + x^2 is 1 in double precision for a row that is short enough; the length is above it all the same."""
    right = torch.tensor([[small]])
    alone = OuterPart(torch.ones(1, 1), right, one=True)
    together = [OuterPart(torch.ones(1, 1), right, one=True), OuterPart(torch.ones(1, 1), right)]
    alike.measure(together)
    for part in (alone, together[0]):
        assert Fraction(float(part.lengths()[2])) ** 2 >= Fraction(float(right)) ** 2 + 1
        assert float(part.lengths()[2]) <= math.hypot(1.0, small) * (1 + 1e-6)


# --- norms over positions -------------------------------------------------------------------------------------------

BY_GRAM = [(2, 5, 5), (2, 5, 40), (2, 40, 5), (6, 16, 25), (100, 400, 400)]
BY_BUILDING = [(2, 1, 1), (2, 4, 1), (2, 1, 4), (50, 4, 4), (8, 16, 9)]


def cancelling(positions, d_out, d_in):
    """Positions of ones that cancel in pairs: the share is exactly 0, and its terms together are ``terms`` long."""
    left = torch.ones(1, positions, d_out, dtype=torch.float64)
    right = torch.ones(1, positions, d_in, dtype=torch.float64)
    right[:, 1::2] = -1.0
    return PositionPart(left, right), positions * math.sqrt(d_out * d_in)


def test_the_unit_roundoff_is_that_of_doubles():
    assert Fraction(UNIT_ROUNDOFF) == DOUBLE


@pytest.mark.parametrize(("positions", "d_out", "d_in"), BY_GRAM)
def test_what_cancels_in_gram_matrices_leaves_the_rounding_that_was_proved(positions, d_out, d_in):
    """Four times (d_out + d_in + P^2 + 12) u of the terms' square: once for Gram, and more than 2 P u for the share."""
    part, terms = cancelling(positions, d_out, d_in)
    assert part.by_gram
    proved = (d_out + d_in + positions**2 + 12) * float(DOUBLE)
    needed = proved + 2 * positions * float(DOUBLE) * (1 + 1e-9)
    squared = (float(part.norms()) / terms) ** 2
    assert squared >= needed
    assert squared == pytest.approx(4 * proved, rel=1e-9)


@pytest.mark.parametrize(("positions", "d_out", "d_in"), BY_BUILDING)
def test_what_cancels_in_a_built_share_leaves_the_rounding_that_was_proved(positions, d_out, d_in):
    """Twice the rounding of two builds, P u of the terms each, and of scaling, 4 u each."""
    part, terms = cancelling(positions, d_out, d_in)
    assert not part.by_gram
    assert float(part.norms()) / terms == pytest.approx(2 * 2 * (positions + 4) * float(DOUBLE), rel=1e-9)


@pytest.mark.parametrize("width", [1, 4, 64, 4096])
def test_the_norm_of_a_built_share_has_room_for_its_own_rounding(width):
    """Of one position, where nothing cancels: twice (numbers / 2 + 2 (P + 4)) u of the norm, at least."""
    part = PositionPart(*(torch.ones(1, 1, d, dtype=torch.float64) for d in (1, width)))
    assert not part.by_gram
    above = Fraction(float(part.norms())) / Fraction(math.isqrt(width)) - 1
    assert 2 * (Fraction(width, 2) + 2 * 5) * DOUBLE <= above <= 2 * (width + 20) * DOUBLE


def test_a_position_of_zeros_does_not_set_the_measure_for_the_others():
    """Its other side may be huge, or ordinary beside terms whose squares underflow."""
    for blank, other in ((1e300, 1e-20), (1e300, 1.0), (1.0, 1e-100)):
        for d in (1, 5):
            sides = [torch.full((1, 2, d), other, dtype=torch.float64) for _ in range(2)]
            for zero, huge in ((0, 1), (1, 0)):
                pair = [side.clone() for side in sides]
                pair[zero][0, 0], pair[huge][0, 0] = 0.0, blank
                part = PositionPart(*pair)
                assert part.by_gram == (d == 5)
                assert float(part.norms()) == pytest.approx(d * other * other, rel=1e-6)


# --- bounds ---------------------------------------------------------------------------------------------------------


def test_the_slack_covers_what_is_counted_against_it():
    """A block's sum moves by 2 u m (m + 2) beside its exact move; norms, factors and products by (d + 8) u."""
    block = 2 * DOUBLE * MAX_BLOCK * (MAX_BLOCK + 2)
    assert 1 - Fraction(bounds.KEPT) >= 500 * block
    assert Fraction(bounds.KEPT) - (1 - Fraction(bounds.SLACK)) >= (10**9 + 8) * DOUBLE
    clipped = Fraction(float(bounds.clip_factors(torch.ones(1, dtype=torch.float64), 0.5)))
    assert clipped <= Fraction(1, 2) * (Fraction(bounds.KEPT) - 10**9 * DOUBLE)


@pytest.mark.parametrize("bound", [PerLayerClip(0.5), JointClip(0.5)], ids=repr)
def test_clipping_takes_off_the_hundred_thousandth_that_the_guarantee_says(bound):
    ones = torch.ones(1, 1, dtype=torch.float64)
    (clipped,) = bound.apply([OuterPart(ones, ones)])
    assert float(clipped.norms()) == pytest.approx(0.5 * (1 - 1e-5), rel=1e-9)
    (normal,) = Normalise(1e-30).apply([OuterPart(ones, ones)])
    assert float(normal.norms()) == pytest.approx(1 - 1e-5, rel=1e-9)
