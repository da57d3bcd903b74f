"""Wide layers are summed chunk by chunk in a loop, narrow ones at one go: either way every row counts exactly once."""

from __future__ import annotations

import pytest
import torch

from dpmac.privacy import chunks
from dpmac.privacy.chunks import CHUNK, GROUP, in_chunks, joined
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
    assert torch.equal(joined(in_chunks(left, right, one), expected.shape).double(), expected)


def test_a_layer_as_wide_as_that_takes_the_loop():
    left, right = (SeededNoise(1).normal((2 * CHUNK + 7, 190)).mul(4).round().float() for _ in range(2))
    assert left.shape[1] * right.shape[1] > chunks._SMALL
    assert torch.equal(in_chunks(left, right, False).double(), left.double().T @ right.double())
