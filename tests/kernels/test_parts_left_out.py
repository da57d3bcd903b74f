"""Which shares are left out of a sum: those of which their precision would lose digits, and no others."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from dpmac.kernels import outer
from dpmac.kernels.chunks import in_chunks
from dpmac.kernels.outer import LARGEST
from dpmac.privacy import OuterPart, PerLayerClip
from dpmac.randomness import SeededNoise

TINY = torch.finfo(torch.float32).tiny  # the least number that has all digits
U = torch.finfo(torch.float32).eps / 2


def scaled_row(entry, factor, d=1, dtype=torch.float32, right=False):
    """One row: d entries in the vector that the factor is multiplied into, which is the shorter one (left of two as
    long), and ones in the other."""
    entries, ones = torch.full((1, d), entry, dtype=dtype), torch.ones(1, d + right, dtype=dtype)
    part = OuterPart(ones, entries) if right else OuterPart(entries, ones)
    return part.scaled(torch.tensor([factor], dtype=torch.float64))


@given(st.floats(0.2, 4.0), st.sampled_from([1.0, 0.3, 2.0**-5]), st.sampled_from([1, 4, 1 << 8]), st.booleans())
@example(2.1234567, 2.0**-5, 256, False)
@example(2.1234567, 2.0**-5, 256, True)  # a length of the least number with all digits, and no entry that has them
def test_what_is_summed_in_single_precision_has_all_its_digits(size, entry, d, right):
    """The factor is rounded, and so is what it leaves of every entry: by u each, not by the half of what is left."""
    factor = size * TINY
    exact = float(torch.tensor(entry)) * factor
    found = scaled_row(entry, factor, d, right=right).total().double().flatten().unique().tolist()
    assert found == [0.0] or all(abs(value - exact) <= 2.001 * U * exact for value in found)


def test_a_factor_without_all_its_digits_leaves_its_row_out():
    """Of a power of two it leaves as much as it has itself: rounded once, by u at most."""
    for size in torch.linspace(0.4, 1.6, 121, dtype=torch.float64).tolist():
        exact = 2.0**20 * size * TINY
        total = float(scaled_row(2.0**20, size * TINY).total().double())
        assert total == 0.0 or abs(total - exact) <= 1.001 * U * exact


def test_a_single_share_with_all_its_digits_is_not_left_out():
    for d, right in ((1, False), (2, False), (9, False), (1, True), (9, True)):
        assert (scaled_row(1.0, 1.01 * TINY, d, right=right).total().double() > 0).all()


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_double_precision_leaves_out_what_is_beyond_1e290_either_way_whatever_its_factor(factor):
    for beyond in (1e-295, 1e295):
        assert not scaled_row(beyond, factor, dtype=torch.float64).total().any()


@pytest.mark.parametrize("length", [1e-200, 1e-100, 1e-40, 1.0, 1e16, 1e100, 1e200])
def test_double_precision_leaves_nothing_out_that_it_holds(length):
    for factor in (1.0, 0.25):
        assert float(scaled_row(length, factor, dtype=torch.float64).total()) == length * factor


def test_single_precision_leaves_out_vectors_longer_than_the_guarantee_says():
    """docs/kernels.md: a row with a vector longer than 1e15 contributes nothing."""
    for length, counts in ((0.9e15, True), (1.1e15, False), (1.9e15, False)):
        long, short = torch.tensor([[length]]), torch.tensor([[1e-5]])
        wide = short.expand(1, 2)
        for part in (OuterPart(long, short), OuterPart(short, long), OuterPart(wide, long), OuterPart(long, wide)):
            assert bool(part.total().any()) == counts


def test_the_layout_of_a_sums_factors_does_not_depend_on_whether_all_rows_fit(monkeypatch):
    """Columns of a wider table: where a row does not fit, rows are blanked in a copy, which has no gaps."""
    seen = []

    def watched(left, right, *more):
        seen.append((left.stride(), right.stride()))
        return in_chunks(left, right, *more)

    monkeypatch.setattr(outer, "in_chunks", watched)
    for first in (1.0, 2 * LARGEST):
        rows = SeededNoise(2).normal((70, 6)).float()
        rows[3, :3] = first
        for sides in ((rows[:, 3:], rows[:, :3]), (rows[:, :3], rows[:, 4:])):  # the factor is in the shorter vector
            (part,) = PerLayerClip(1.0).apply([OuterPart(*sides)])
            assert bool(part._fits(part.factors).all()) == (first == 1.0)
            part.total()
    assert seen[:2] == seen[2:]
