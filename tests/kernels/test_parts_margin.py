"""Norms measured in single precision, by kernels that lose as much as they may: never below the true ones."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
import torch

from dpmac.kernels import built
from dpmac.kernels.norms import single_norms
from dpmac.privacy import OuterPart

SINGLE = Fraction(torch.finfo(torch.float32).eps) / 2  # the unit roundoff


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
        assert Fraction(norm) ** 2 >= sum(count * Fraction(x) ** 2 for x, count in Counter(row).items())


@pytest.mark.parametrize("d", [1, 2, 40, 1000, 30_000])
def test_no_kernel_within_its_rounding_measures_a_row_too_short(d, monkeypatch):
    monkeypatch.setattr(torch.linalg, "vector_norm", worst_norms)
    rows = hard_rows(d)
    assert_not_below(single_norms(rows), rows)
    assert_not_below(OuterPart(rows, torch.ones(4, 1))._lengths[1], rows)
    assert_not_below(OuterPart(torch.ones(4, 1), rows)._lengths[2], rows)


@pytest.mark.parametrize("small", [0.0, 2.0**-28, 2.0**-27, 1.4 * 2.0**-27, 2.0**-26.5, 1e-3, 0.7, 3e4, 1e30])
def test_the_constant_beside_a_short_row_is_not_rounded_away(small):
    """1 + x^2 is 1 in double precision for a row that is short enough; the length is above it all the same."""
    right = torch.tensor([[small]])
    length = float(OuterPart(torch.ones(1, 1), right, one=True)._lengths[2])
    assert Fraction(length) ** 2 >= Fraction(float(right)) ** 2 + 1
    assert length <= math.hypot(1.0, small) * (1 + 1e-6)


@pytest.mark.parametrize("units", [1, 2, 3, 40, 1000])
def test_no_kernel_within_its_rounding_measures_units_that_are_measured_exactly_too_short(units, monkeypatch):
    def worst(lengths, dim):
        return (lengths.square().sum(dim=dim) * (1.0 - lengths.shape[dim] * 2.0**-53)).sqrt()

    monkeypatch.setattr(built, "single_norms", lambda rows: rows.double().squeeze(-1))
    monkeypatch.setattr(torch.linalg, "vector_norm", worst)
    assert Fraction(float(built.built_norms(torch.ones(1, units, 1)))) ** 2 >= units
