"""Exact noise: a grid whose cost is in the noise, sums that are rounded first, and one draw for every coordinate."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.privacy import Partition
from dpmac.privacy.noise import MAX_BITS, MIN_BITS, USUAL_BITS, Grid, perturbed
from dpmac.randomness import SeededNoise, SystemNoise


class Given(SystemNoise):
    """Whole numbers that a test has chosen, in order; writes down what it was asked for."""

    def __init__(self, numbers):
        self.numbers, self.asked = torch.as_tensor(numbers, dtype=torch.float64), []

    def steps(self, sizes, bits, device="cpu"):
        self.asked.append((list(sizes), bits))
        return iter(self.numbers.split(list(sizes)))


def partitions(*sizes, scales=None):
    scales = scales or [1.0] * len(sizes)
    return [Partition(f"layer {i}", (d,), scale) for i, (d, scale) in enumerate(zip(sizes, scales, strict=True))]


def noisy(totals, parts, grid, source, divisor=1.0):
    """What is released of one block's sums: they are put on the grid as the noise is added."""
    sums, scales = [total.clone() for total in totals], [p.scale for p in parts]
    return list(perturbed(sums, parts, scales, grid, source, divisor, on_grid=False).values())


# --- the grid -------------------------------------------------------------------------------------------------------

SIGMAS = [0.01, 0.3, 1.0, 1.7, 6.552, 40.0, 1e3, 1e5, 1e9]
SIZES = [(1,), (10, 3), (784 * 300, 3010), (3_900_000,), (50, 1, 70_000, 12)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_multiplier_is_that_of_the_sum_on_its_grid_in_exact_arithmetic(sigma, sizes):
    """2**bits g_i >= sigma (1 + sqrt(sum d_i g_i^2)), where 1 / g_i is how many steps a scale is really made of."""
    scales = [0.7, 3e-30, 1e30, 1 / 3][: len(sizes)]
    parts = partitions(*sizes, scales=scales)
    grid = Grid.of(sigma, parts)
    steps = [1 / (Fraction(1.0 / (grid.step * scale)) * Fraction(scale)) for scale in scales]
    moved = sum(d * g**2 for d, g in zip(sizes, steps, strict=True))  # what rounding may add to the distance, squared
    for g in steps:
        room = 2**grid.bits * g / Fraction(sigma) - 1
        assert room > 0
        assert room**2 >= moved
        assert float(2**grid.bits * g / Fraction(sigma)) == pytest.approx(1 + math.sqrt(float(moved)), rel=1e-11)
    usual = sigma * math.sqrt(sum(sizes)) < 2.0 ** (USUAL_BITS - 11)
    assert math.sqrt(float(moved)) <= (2.0**-10.999 if usual else 2.0**-6.9)
    assert MIN_BITS <= grid.bits <= (USUAL_BITS if usual else MAX_BITS)


def test_what_cannot_be_drawn_exactly_is_refused_before_anything_is_spent():
    with pytest.raises(ArgumentError, match=r"noise_multiplier=1000000000\.0: give at most 2.2e\+12 over the square"):
        Grid.of(1e9, partitions(10**8))
    assert Grid.of(0.0, partitions(5)).step == 0.0


@pytest.mark.usefixtures("repeatable_noise")
def test_the_deviation_is_that_of_the_multiplier():
    parts = partitions(200_000, 100_000, scales=[2.0, 0.01])
    for source in (SystemNoise(), SeededNoise(1)):
        given = noisy(
            [torch.zeros(p.shape, dtype=torch.float64) for p in parts], parts, Grid.of(1.5, parts), source, 4.0
        )
        for out, p in zip(given, parts, strict=True):
            assert float(out.std()) == pytest.approx(1.5 * p.scale / 4, rel=6 / math.sqrt(2 * out.numel()))


# --- rounding first -------------------------------------------------------------------------------------------------


def test_with_the_same_noise_two_sums_differ_by_their_rounded_difference_and_nothing_else():
    parts = partitions(500, 300, scales=[3.0, 0.2])
    grid, draw = Grid.of(1.1, parts), SeededNoise(4)
    steps = next(SystemNoise().steps([800], grid.bits))
    totals = [[40 * p.scale * draw.normal(p.shape) for p in parts] for _ in range(2)]
    one, other = (noisy(t, parts, grid, Given(steps)) for t in totals)
    for a, b, x, y, p in zip(one, other, *totals, parts, strict=True):
        unit = grid.step * p.scale
        whole = (x * (1 / unit)).round() - (y * (1 / unit)).round()
        assert torch.equal((a / unit).round() - (b / unit).round(), whole)
        assert torch.equal((a / unit).round() * unit, a)  # nothing below the grid


def test_no_bit_of_the_sum_below_the_grid_is_seen():
    parts = partitions(4000)
    grid = Grid.of(0.8, parts)
    steps = next(SystemNoise().steps([4000], grid.bits))
    whole = (300 * SeededNoise(2).normal((4000,))).round()
    seen = noisy([whole * grid.step], parts, grid, Given(steps), 7.0)[0]
    for below in (0.4999, -0.4999, 1e-7, 0.25):
        moved = noisy([(whole + below) * grid.step], parts, grid, Given(steps), 7.0)[0]
        assert torch.equal(moved, seen)
    assert not torch.equal(noisy([(whole + 0.5001) * grid.step], parts, grid, Given(steps), 7.0)[0], seen)


def test_sums_beyond_what_doubles_hold_exactly_are_rounded_as_a_function_of_the_exact_noisy_sum():
    """k + n is made by one addition, which gives the double next to the true k + n."""
    parts = partitions(6)
    grid = Grid(20, 2.0**-20)
    k = [2**53 + 2, -(2**60), 2**54, 2**52 + 1, 3 * 2**55, 0]
    n = [1, 5, -7, 12345, 2**30 + 1, -(2**53) + 1]
    (out,) = noisy([torch.tensor(k, dtype=torch.float64) * 2.0**-20], parts, grid, Given(n))
    assert out.tolist() == [float(Fraction(a + b) / 2**20) for a, b in zip(k, n, strict=True)]


def test_sums_that_were_put_on_the_grid_before_come_out_the_same():
    parts = partitions(700, 90, scales=[3.0, 0.2])
    grid, scales = Grid.of(1.1, parts), [p.scale for p in parts]
    totals = [40 * p.scale * SeededNoise(4).normal(p.shape).float() for p in parts]
    steps = next(SystemNoise().steps([790], grid.bits))
    before = perturbed(grid.whole(totals, scales), parts, scales, grid, Given(steps), 2.0)
    for one, other in zip(before.values(), noisy(totals, parts, grid, Given(steps), 2.0), strict=True):
        assert torch.equal(one, other.double())


# --- draws ----------------------------------------------------------------------------------------------------------


def test_every_coordinate_has_a_draw_of_its_own_in_order():
    parts = partitions(10, 1, 25, 3, scales=[1.0, 2.0, 0.5, 4.0])
    grid = Grid.of(1.0, parts)
    source = Given(torch.arange(39) * 1000)
    out = noisy([torch.zeros(p.shape, dtype=torch.float64) for p in parts], parts, grid, source, 8.0)
    for found, p, start in zip(out, parts, (0, 10, 11, 36), strict=True):
        assert torch.equal(found, 1000 * torch.arange(start, start + len(found)).double() * (grid.step * p.scale / 8.0))
    assert source.asked == [([39], grid.bits)]  # one draw


def test_empty_and_scattered_sums():
    parts = [Partition("none", (0, 3), 1.0), Partition("a", (2, 3), 1.0), Partition("whole", (), 1.0)]
    totals = [torch.zeros(0, 3), torch.arange(6.0).view(3, 2).T, torch.tensor(9.0)]
    out = noisy([t.double() for t in totals], parts, Grid(20, 2.0**-20), Given(np.zeros(7)))
    assert [tuple(t.shape) for t in out] == [(0, 3), (2, 3), ()]
    assert out[1].tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    assert float(out[2]) == 9.0


def test_symmetric_sums_are_averaged_with_their_transpose_after_the_noise():
    parts = [Partition("a", (2, 3, 3), 1.0, symmetric=True)]
    grid, steps = Grid(20, 2.0**-20), torch.arange(18.0)
    (out,) = noisy([torch.zeros(2, 3, 3, dtype=torch.float64)], parts, grid, Given(steps))
    n = steps.view(2, 3, 3).double() * 2.0**-20
    assert torch.equal(out, (n + n.transpose(1, 2)) / 2)


def test_without_noise_nothing_is_rounded_or_drawn():
    parts = partitions(3)
    source = Given([])
    total = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    assert torch.equal(noisy([total], parts, Grid.of(0.0, parts), source, 3.0)[0], total / 3.0)
    assert source.asked == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_device_all_is_the_same():
    parts = [Partition("a", (300, 200), 2.0), Partition("b", (5,), 0.3), Partition("c", (40, 40), 1.0, symmetric=True)]
    totals = [SeededNoise(i).normal(p.shape).transpose(0, -1).reshape(p.shape) for i, p in enumerate(parts)]
    totals[0] = totals[0].T.contiguous().T  # not in the order of its memory
    there = [total.cuda() for total in totals]
    grid = Grid.of(1.5, parts)
    steps = next(SystemNoise().steps([61_605], grid.bits))
    expected = noisy(totals, parts, grid, Given(steps), 4.0)
    for found, right in zip(noisy(there, parts, grid, Given(steps.cuda()), 4.0), expected, strict=True):
        torch.testing.assert_close(found.cpu(), right, rtol=1e-14, atol=0)
    assert all(torch.equal(a.cpu(), b) for a, b in zip(there, totals, strict=True))
    drawn = noisy([torch.zeros_like(t) for t in there], parts, grid, SystemNoise(), 4.0)[0]
    assert float(drawn.std()) == pytest.approx(1.5 * 2 / 4, rel=6 / math.sqrt(2 * 60_000))
