"""Room for rounding in norms over positions, held against the proofs, and factors in slices of any size."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch

from dpmac.kernels import positions
from dpmac.kernels.chunks import SINGLE_MARGIN
from dpmac.kernels.positions import UNIT_ROUNDOFF
from dpmac.privacy import PositionPart
from dpmac.randomness import SeededNoise

DOUBLE = Fraction(torch.finfo(torch.float64).eps) / 2  # the unit roundoff

BY_GRAM = [(2, 5, 5), (2, 5, 40), (2, 40, 5), (6, 16, 25), (100, 400, 400)]
BY_BUILDING = [(2, 1, 1), (2, 4, 1), (2, 1, 4), (50, 4, 4), (8, 16, 9)]


def cancelling(count, d_out, d_in):
    """Positions of ones that cancel in pairs: the share is exactly 0, and its terms together are ``terms`` long."""
    left = torch.ones(1, count, d_out, dtype=torch.float64)
    right = torch.ones(1, count, d_in, dtype=torch.float64)
    right[:, 1::2] = -1.0
    return PositionPart(left, right), count * math.sqrt(d_out * d_in)


def test_the_unit_roundoff_is_that_of_doubles():
    assert Fraction(UNIT_ROUNDOFF) == DOUBLE


@pytest.mark.parametrize(("count", "d_out", "d_in"), BY_GRAM)
def test_what_cancels_in_gram_matrices_leaves_the_rounding_that_was_proved(count, d_out, d_in):
    """Four times (d_out + d_in + P^2 + 12) u of the terms' square: once for Gram, and more than 2 P u for the share."""
    part, terms = cancelling(count, d_out, d_in)
    assert part.by_gram
    proved = (d_out + d_in + count**2 + 12) * float(DOUBLE)
    needed = proved + 2 * count * float(DOUBLE) * (1 + 1e-9)
    squared = (float(part.norms()) / terms) ** 2
    assert squared >= needed
    assert squared == pytest.approx(4 * proved, rel=1e-9, abs=0.0)


@pytest.mark.parametrize(("count", "d_out", "d_in"), BY_BUILDING)
def test_what_cancels_in_a_built_share_leaves_the_rounding_that_was_proved(count, d_out, d_in):
    """Twice the rounding of two builds, P u of the terms each, and of scaling, 4 u each."""
    part, terms = cancelling(count, d_out, d_in)
    assert not part.by_gram
    assert float(part.norms()) / terms == pytest.approx(2 * 2 * (count + 4) * float(DOUBLE), rel=1e-9, abs=0.0)


@pytest.mark.parametrize(("count", "d_out", "d_in"), [*BY_GRAM[:-1], *BY_BUILDING])
def test_what_cancels_in_single_precision_leaves_the_rounding_of_two_builds(count, d_out, d_in):
    """(P + 2) u of the terms each, u = 2**-24: the one that was measured, and the one that will be summed, whose
    measurement has margins of its own. And what a measurement in double precision adds."""
    part, terms = cancelling(count, d_out, d_in)
    single = PositionPart(part.left.float(), part.right.float())
    by_gram = math.sqrt(4 * (d_out + d_in + count**2 + 12) * float(DOUBLE))
    least = 2 * (count + 2) * 2.0**-24 + by_gram
    wanted = pytest.approx(least * (1 + SINGLE_MARGIN), rel=1e-3, abs=0.0)
    assert float(single.norms()) / terms == wanted
    assert float(single.norms()) / terms >= least


@pytest.mark.parametrize(("count", "d_out", "d_in"), [(2, 1, 1), (2, 4, 9), (2, 900, 1), (6, 16, 25), (2, 100, 400)])
def test_a_measurement_makes_more_of_what_cancels_by_its_own_margins(count, d_out, d_in):
    """Of sums in single precision, and of norms in single precision: (d + 4) u on either side, as the terms have."""
    part, terms = cancelling(count, d_out, d_in)
    single = PositionPart(part.left.float(), part.right.float())  # the lengths are whole numbers
    off = 2 * (count + 2) * 2.0**-24 + math.sqrt(4 * (d_out + d_in + count**2 + 12) * float(DOUBLE))
    of_lengths = (1 + (d_out + 4) * 2.0**-24) * (1 + (d_in + 4) * 2.0**-24)
    most = off * (1 + SINGLE_MARGIN) * of_lengths * (1 + (d_out + d_in + 8) * 2.0**-24)
    assert float(single.norms()) / terms == pytest.approx(most, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("count", [2, 3, 8, 40])
@pytest.mark.parametrize("width", [1, 20, 300, 1024])
def test_no_release_measures_more_than_a_bound_has_seen(count, width):
    """Beside a part of double precision a release measures these shares in double precision, the bound in single: a
    bound of thresholds that learn was broken by one row whose positions cancel, and the run stopped."""
    draw = SeededNoise(count)
    left, right = (draw.normal((3, count // 2, width)).float() for _ in range(2))
    left, right = torch.cat([left, -left], dim=1), torch.cat([right, right], dim=1)
    left[0], right[1] = left[0] * 1e6, right[1] * 1e-6
    part = PositionPart(left, right)
    before, doubled = part.norms(), part.doubled()
    assert bool((doubled.norms() <= before).all())
    part.total()
    assert bool((part.norms() <= before).all())


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
                assert float(part.norms()) == pytest.approx(d * other * other, rel=1e-6, abs=0.0)


def test_every_row_over_positions_keeps_its_own_factor_in_slices_of_any_size(monkeypatch):
    """A row that takes the factor of another is not clipped by its own norm."""
    left = SeededNoise(1).normal((5, 2, 4))
    right = SeededNoise(2).normal((5, 2, 3))
    factors = torch.tensor([1.0, 0.0, 3.0, 0.5, 7.0], dtype=torch.float64)
    expected = torch.einsum("n,npo,npi->oi", factors, left, right)
    part = PositionPart(left, right).scaled(factors)
    for memory in (1, 8 * 4 * 3 * 2, 1 << 26):  # one row, two, all
        monkeypatch.setattr(positions, "MEMORY", memory)
        assert torch.allclose(part.total(), expected, atol=1e-12)


def test_more_is_built_at_a_time_on_a_gpu():
    assert positions._memory(torch.ones(1)) == positions.MEMORY
    assert positions._memory(SimpleNamespace(is_cuda=True)) == positions.GPU_MEMORY
    assert positions.MEMORY < positions.GPU_MEMORY
