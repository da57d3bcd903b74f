"""Room: the least that is enough, against the exact binomial tail, and a margin that covers its chance."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpmac.kernels.padding import _BITS, Padding, capacity_for, paddings
from dpmac.randomness import SystemNoise


class Given(SystemNoise):
    """Hands out one draw."""

    def __init__(self, steps):
        self.number = steps

    def steps(self, sizes, bits, device="cpu"):
        return iter([torch.tensor([float(self.number)], dtype=torch.float64)])


def tail(count, n, rate):
    """The exact chance that ``count`` or more of n - 1 places are drawn."""
    q = Fraction(rate)
    return sum(math.comb(n - 1, k) * q**k * (1 - q) ** (n - 1 - k) for k in range(count, n))


@pytest.mark.parametrize("rate", [1e-9, 0.01, 0.3, 0.97, 1.0])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 30])
def test_the_room_is_enough_and_one_spot_less_would_not_leave_half_the_chance(n, rate):
    """Half, because the tail is computed in floating point: what is asked for must hold of the exact one."""
    for bits in (10, 20, 41, 80):
        room = capacity_for(n, rate, 2.0**-bits)
        assert type(room) is int
        assert 1 <= room <= n
        assert tail(room, n, rate) <= 2.0**-bits
        assert tail(room - 1, n, rate) >= 2.0 ** -(bits + 1) * (1 - 1e-9)


@pytest.mark.parametrize("bits", range(11, 200, 4))
def test_the_margin_covers_its_chance_to_less_than_a_step(bits):
    """The noise is a Gaussian rounded to steps: one below the margin is one beyond the margin less half a step."""
    quantile = -NormalDist().inv_cdf(2.0**-bits) * 2.0**_BITS
    assert Padding(10, 1.0, 2.0**-bits).margin - 0.5 >= quantile


@given(st.integers(1, 5), st.integers(0, 10), st.integers(-(2**40), 2**40))
def test_spots_are_never_none_nor_more_than_there_is_room_for(most, count, draw):
    assert 1 <= Padding(most, 10.0, 2.0**-41).spots(count, Given(draw)) <= most


def test_a_sample_that_may_never_find_no_room_has_room_for_all_and_is_not_counted():
    for rate in (0.1, 1.0):
        (room,) = paddings((60_000,), rate, 0.0, 1.0)
        assert (room.most, room.deviation) == (60_000, 0.0)
