"""The grid at its edges: sums that just fit, the finest and the coarsest that there is, and what rows can come to."""

from __future__ import annotations

import math

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.privacy import Partition
from dpmac.privacy.noise import Grid, perturbed
from dpmac.randomness import SystemNoise

ONE = [Partition("a", (1,), 1.0)]


@pytest.mark.parametrize("rows", [2.0**31, 1.1 * 2**31, 1.9 * 2**31, 2.0**32, 2.0**40, 1.3 * 2**42])
def test_a_full_grid_holds_the_largest_sum_below_half_of_what_doubles_add_exactly(rows):
    """Below 2**51 steps as the proof says, and not much below: a coarser grid than needed would cost noise."""
    grid = Grid.of(1.0, ONE, rows)
    assert 2.0**50 * 0.99 < rows / grid.step < 2.0**51
    assert grid.most_steps(rows) < 2.0**52


def test_a_grid_is_refused_only_where_it_would_widen_the_noise_by_more_than_it_says():
    assert Grid.of(1.0, ONE, 2.0**43).bits == 8  # one coordinate: 2**-8 of the noise
    with pytest.raises(ArgumentError, match="up to"):
        Grid.of(1.0, ONE, 2.0**44)


def test_the_largest_multiplier_that_is_named_in_the_refusal_is_near_enough_allowed():
    assert Grid.of(2.0**41 * (1 - 1e-9), ONE).bits == 48
    with pytest.raises(ArgumentError, match=r"at most 2\.2e\+12"):
        Grid.of(2.0**41, ONE)


def test_rows_come_to_a_scale_each_and_to_one_rounding_each_at_most():
    assert Grid(20, 0.25).most_steps(3) == 3 * 4 + 3
    assert Grid(20, 2.0**-20).most_steps(1) == 2**20 + 1
    assert Grid.of(0.0, ONE).most_steps(5) == math.inf


@pytest.mark.parametrize("lots", [0, 2])
def test_sums_for_which_a_source_has_no_noise_do_not_come_out_bare(lots):
    """One lot is asked for: a source that gives none, or several, is not what the argument is about."""

    class Short(SystemNoise):
        def steps(self, sizes, bits, device="cpu"):
            return iter(list(super().steps(sizes, bits, device)) * lots)

    with pytest.raises(ValueError, match="zip"):
        perturbed([torch.zeros(1, dtype=torch.float64)], ONE, [1.0], Grid.of(1.0, ONE), Short(), 1.0)
