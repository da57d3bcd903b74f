"""Sums of blocks, of shards and of processes are added up exactly: on the grid, as whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from doorway import ask
from dpmac.checks import ArgumentError
from dpmac.kernels import padding
from dpmac.privacy import DensePart, Partition, PrivateRows, gaussian_release
from dpmac.privacy.noise import EXACT, MAX_BITS, Grid, perturbed
from dpmac.randomness import SeededNoise, SystemNoise


def of(*shapes, scales=None):
    return [
        Partition(f"p{i}", s, scale)
        for i, (s, scale) in enumerate(zip(shapes, scales or [1.0] * len(shapes), strict=True))
    ]


@given(
    sigma=st.floats(1e-4, 1e6),
    rows=st.integers(1, gaussian_release.MAX_ROWS),
    size=st.integers(1, 10**7),
    scale=st.floats(1e-30, 1e30),
)
def test_the_largest_sum_there_can_be_is_a_whole_number_that_doubles_add_exactly(sigma, rows, size, scale):
    parts, least = of((size,), scales=[scale]), math.frexp(sigma * math.sqrt(size))[1] + 7  # bits, at least
    try:
        grid = Grid.of(sigma, parts, rows)
    except ArgumentError:
        assert least > MAX_BITS or 2.0 * rows * 2.0**least > EXACT * sigma / 2
        return
    share = Fraction(1.0 / (grid.step * scale)) * Fraction(scale)  # steps in the longest share
    assert rows * share + Fraction(rows, 2) < EXACT  # there are no more blocks than rows, each off by half a step
    assert grid.step * 2**grid.bits >= sigma * (1 + grid.step * math.sqrt(size))
    assert grid.bits >= least


def test_many_rows_make_the_grid_coarser_and_never_the_noise_smaller():
    parts = of((1000,))
    grids = [Grid.of(0.7, parts, rows) for rows in (1, 4_000_000, 20_000_000, gaussian_release.MAX_ROWS)]
    assert [grid.bits for grid in grids] == sorted((grid.bits for grid in grids), reverse=True)
    for grid in grids:
        assert grid.step * 2**grid.bits >= 0.7 * (1 + grid.step * math.sqrt(1000))
        assert grid.step * 2**grid.bits < 0.7 * 1.01


def test_a_sum_that_would_not_be_exact_is_refused_before_anything_is_spent():
    with pytest.raises(ArgumentError, match=r"batch='up to 1e\+12 rows'.*sample fewer"):
        Grid.of(1.0, of((10**9,)), 1e12)


def test_sums_over_many_blocks_do_not_depend_on_their_order(monkeypatch):
    """One share that dwarfs the others: doubles would lose different ones in another order."""
    monkeypatch.setattr(padding, "MAX_BLOCK", 32)
    x = SeededNoise(1).normal((3000, 4))
    x = x / torch.linalg.vector_norm(x, dim=1, keepdim=True) * 0.9
    table = {"forth": PrivateRows(x), "back": PrivateRows(x.flip(0))}

    def steps(rows):
        asked = {"sigma": 1.0, "source": SeededNoise(5), "micro_batch": 32}
        return ask(of((4,)), lambda r: [DensePart(r)], rows=rows, **asked)["p0"]

    blocks = torch.split(x, 32)
    grid = Grid.of(1.0, of((4,)), 3000)
    exact = sum((block.sum(dim=0) / grid.step).round() for block in blocks)
    (noise,) = SeededNoise(5).steps([4], grid.bits)
    assert torch.equal(steps(table["forth"]), (exact + noise) * grid.step)
    assert torch.allclose(steps(table["back"]), steps(table["forth"]), atol=3000 * grid.step)


def test_one_row_moves_the_sum_on_the_grid_by_one_rounding_however_many_blocks_there_are(monkeypatch):
    """The other blocks' sums are rounded too, and the same whoever stands beside them."""
    monkeypatch.setattr(padding, "MAX_BLOCK", 32)
    monkeypatch.setattr(gaussian_release, "perturbed", lambda sums, *_: {"p0": sums[0]})
    x = SeededNoise(2).normal((2000, 50))
    x = x / torch.linalg.vector_norm(x, dim=1, keepdim=True) * 0.999
    table = PrivateRows(x)
    grid = Grid.of(1.0, of((50,)), 2000)

    def total(rows):
        return ask(of((50,)), lambda r: [DensePart(r)], rows=rows, micro_batch=32)["p0"]

    whole = total(table)
    assert torch.equal(whole, whole.round())
    for place in (0, 31, 1999):
        moved = (whole - total(table.without(place))) * grid.step - x[place]
        assert float(moved.abs().max()) <= grid.step * (1 + 1e-6)


def test_what_lies_on_the_grid_is_not_rounded_again():
    parts, grid = of((3,), scales=[2.0]), Grid.of(1.0, of((3,), scales=[2.0]), 10)
    whole = torch.tensor([5.0, -7.0, 2.0**50], dtype=torch.float64)
    noise = next(SeededNoise(1).steps([3], grid.bits))
    found = perturbed([whole.clone()], parts, [2.0], grid, SeededNoise(1), 4.0)["p0"]
    assert torch.equal(found, (whole + noise) * (grid.step * 2.0 / 4.0))


def test_twenty_million_rows_may_be_asked_at_once():
    """The old limit was four million; the grid has room for far more."""
    table = PrivateRows(torch.ones(20_000_000, 1, dtype=torch.float32))
    asked = {"rows": table, "sigma": 3.0, "source": SystemNoise()}
    found = ask(of((1,)), lambda r: [DensePart(0.5 * r.double())], **asked)["p0"]
    assert float(found) == pytest.approx(10_000_000, abs=30)
