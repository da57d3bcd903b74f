"""Wide layers are summed chunk by chunk in a loop, narrow ones at one go: either way every row counts exactly once."""

from __future__ import annotations

import pytest
import torch

from dpmac.kernels import chunks
from dpmac.kernels.chunks import CHUNK, GROUP, SINGLE_MARGIN, chunk_of, group_of, in_chunks
from dpmac.randomness import SeededNoise

LENGTHS = [1, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK * GROUP, CHUNK * GROUP + 1, 2 * CHUNK * GROUP + CHUNK + 3]


@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("rows", LENGTHS)
@pytest.mark.parametrize("wide", [False, True])
def test_every_row_counts_once(rows, one, wide, monkeypatch):
    """Small whole numbers, whose sums are exact: a row that is left out, or counted twice, is seen."""
    monkeypatch.setattr(chunks, "_SMALL", 0 if wide else 1 << 15)
    draw = SeededNoise(rows)
    left, right = (draw.normal((rows, d)).mul(4).round().float() for d in (3, 5))
    constant = [torch.ones(rows, 1)] if one else []
    expected = left.double().T @ torch.cat([right, *constant], dim=1).double()
    assert torch.equal(in_chunks(left, right, one).double(), expected)


def test_a_layer_as_wide_as_that_takes_the_loop():
    left, right = (SeededNoise(1).normal((2 * CHUNK + 7, 190)).mul(4).round().float() for _ in range(2))
    assert left.shape[1] * right.shape[1] > chunks._SMALL
    assert torch.equal(in_chunks(left, right, False).double(), left.double().T @ right.double())


def test_chunks_are_of_one_length_where_they_can_be():
    assert [chunk_of(rows) for rows in (1, 256, 257, 300, 1088, 1090, 2092)] == [1, 256, 256, 150, 256, 218, 256]
    for rows in range(1, 5000):
        chunk = chunk_of(rows)
        assert 0 < chunk <= CHUNK
        assert chunk == CHUNK or rows % chunk == 0


def test_no_person_is_cut_in_two():
    """Rows are a multiple of what belongs together, and so is every chunk."""
    for together in (1, 2, 8, 64, 128, 256):
        for rows in range(together, 3000, together):
            assert chunk_of(rows, together) % together == 0


def test_a_group_has_as_many_chunks_as_the_rounding_that_is_counted_allows():
    """(2 c^2 + c g (g + 1)) u for chunks of c rows, g at a time, against what SINGLE_MARGIN has; no more would fit."""
    most = SINGLE_MARGIN / 1.001 * 2.0**24
    assert group_of(CHUNK) == GROUP
    for chunk in range(1, CHUNK + 1):
        group = group_of(chunk)
        assert 2 * chunk**2 + chunk * group * (group + 1) <= most * (1 + 1e-12)
        assert 2 * chunk**2 + chunk * (group + 1) * (group + 2) > most


@pytest.mark.parametrize("rows", [8 * 256, 9 * 200, 15 * 216, 16 * 216, 9 * 256])
@pytest.mark.parametrize("wide", [False, True])
def test_a_sum_in_single_precision_is_of_one_group(rows, wide, monkeypatch):
    monkeypatch.setattr(chunks, "_SMALL", 0 if wide else 1 << 15)
    draw = SeededNoise(rows)
    left, right = (draw.normal((rows, d)).float() for d in (3, 5))
    found, chunk = in_chunks(left, right, True), chunk_of(rows)
    assert (found.dtype == torch.float32) == (rows <= chunk * group_of(chunk))
    exact = left.double().T @ torch.cat([right, torch.ones(rows, 1)], dim=1).double()
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-3)
