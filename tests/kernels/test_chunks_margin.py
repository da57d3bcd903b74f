"""Room for the rounding of single-precision sums, held against what its proof needs, in fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from dpmac.kernels.chunks import CHUNK, GROUP, SINGLE_MARGIN, _sums, group_of, in_chunks

SINGLE = Fraction(torch.finfo(torch.float32).eps) / 2  # the unit roundoff


def rounding_of(chunk, group):
    """What chunks.in_chunks says a sum can move by, twice, in bounds, with gamma_k = k u / (1 - k u) for k u."""
    product = chunk * (chunk * SINGLE) / (1 - chunk * SINGLE)
    most = chunk * (1 + chunk * SINGLE / (1 - chunk * SINGLE))  # the length of one product, its rounding included
    additions = Fraction(group * (group + 1), 2) * most * SINGLE * (1 + SINGLE) ** group
    return 2 * (product + additions)


def test_what_is_set_aside_for_single_precision_covers_the_worst_rounding_of_any_chunk():
    """And no more than docs/kernels.md says: 0.9 % of the bound at most. It is taken from what a row may say."""
    assert group_of(CHUNK) == GROUP
    for chunk in range(1, CHUNK + 1):
        assert rounding_of(chunk, group_of(chunk)) <= Fraction(SINGLE_MARGIN)
    assert SINGLE_MARGIN <= 0.009
    thirds = torch.full((CHUNK * GROUP, 1), 1 / 3)  # every one adds its rounding to that of the others
    off = abs(float(in_chunks(thirds, thirds, one=False)) - CHUNK * GROUP * float(thirds[0]) ** 2)
    assert 0 < off <= SINGLE_MARGIN / 9


@pytest.mark.parametrize("large", [0, 4000, 8192 - 256])
@pytest.mark.parametrize("small", [32, 4032, 8191])
def test_a_bias_s_sum_adds_in_single_precision_no_more_than_32_rows(large, small):
    """Of 2**24 and 1 in different lots of 32 single precision would lose the 1."""
    rows = torch.zeros(8192, 3)
    rows[large], rows[small] = 2.0**24, 1.0
    assert _sums(rows).tolist() == [2.0**24 + 1] * 3
