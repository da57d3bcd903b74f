"""The ends of what bounds accept, a norm that is exactly at its threshold, and the slack that is taken off."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from dpmac.bounds.allocation import per_layer, promised
from dpmac.bounds.clipping import clip_factors
from dpmac.checks import ArgumentError
from dpmac.kernels.padding import MAX_BLOCK
from dpmac.privacy import AdaptiveQuantile, JointClip, Normalise, OuterPart, Partition, PerLayerClip
from dpmac.privacy.parts import KEPT, SLACK

DOUBLE = Fraction(torch.finfo(torch.float64).eps) / 2  # the unit roundoff
TWO = [Partition("a", (1, 1)), Partition("b", (1, 1))]


@pytest.mark.parametrize("make", [PerLayerClip, JointClip, AdaptiveQuantile])
def test_thresholds_are_those_for_which_a_release_has_scales(make):
    """The door takes scales from 1e-30 to 1e30."""
    for value in (1e-30, 1e30, (1e-30, 1e30)):
        make(value)
    for value in (0.99e-30, 1.01e30, (1.0, 1.9e30), (0.9e-30, 1.0)):
        with pytest.raises(ArgumentError, match="give a finite number above 0"):
            make(value)


def test_one_number_stands_for_every_layer():
    assert per_layer("threshold", 2.0, 3) == [2.0, 2.0, 2.0]


def test_every_partition_is_promised_a_scale_of_its_own():
    assert Partition("a", [2, 3]).shape == (2, 3)
    assert [p.scale for p in promised(TWO, [1.0, 2.0])] == [1.0, 2.0]
    with pytest.raises(ValueError, match="shorter"):
        promised(TWO, [1.0])


def test_a_norm_at_the_threshold_is_within_it():
    """Theta is a quantile of the norms: the share of those that are at most as large."""
    part = OuterPart(torch.tensor([[0.5], [1.0], [1.5]], dtype=torch.float64), torch.ones(3, 1, dtype=torch.float64))
    _, counts = AdaptiveQuantile(1.0).apply([part])
    assert counts.total(1).sign().item() == 1.0
    assert [round(float(value), 3) for value in counts.values] == [0.5, 0.5, -0.5]


@pytest.mark.parametrize("name", ["quantile", "share"])
@pytest.mark.parametrize("value", [0.0, 1.0, 1.5])
def test_a_quantile_and_a_share_are_strictly_between_0_and_1(name, value):
    with pytest.raises(ArgumentError, match=name):
        AdaptiveQuantile(**{name: value})


def test_the_slack_covers_what_is_counted_against_it():
    """A block's sum moves by 2 u m (m + 2) beside its exact move; norms, factors and products by (d + 8) u."""
    block = 2 * DOUBLE * MAX_BLOCK * (MAX_BLOCK + 2)
    assert 1 - Fraction(KEPT) >= 500 * block
    assert Fraction(KEPT) - (1 - Fraction(SLACK)) >= (10**9 + 8) * DOUBLE
    clipped = Fraction(float(clip_factors(torch.ones(1, dtype=torch.float64), 0.5)))
    assert clipped <= Fraction(1, 2) * (Fraction(KEPT) - 10**9 * DOUBLE)


@pytest.mark.parametrize("bound", [PerLayerClip(0.5), JointClip(0.5)], ids=repr)
def test_clipping_takes_off_the_hundred_thousandth_that_the_guarantee_says(bound):
    ones = torch.ones(1, 1, dtype=torch.float64)
    (clipped,) = bound.apply([OuterPart(ones, ones)])
    assert float(clipped.norms()) == pytest.approx(0.5 * (1 - 1e-5), rel=1e-9)
    (normal,) = Normalise(1e-30).apply([OuterPart(ones, ones)])
    assert float(normal.norms()) == pytest.approx(1 - 1e-5, rel=1e-9)


@pytest.mark.parametrize("part", [0.72, 0.8, 1.0, 2.0])
def test_an_allocation_that_divides_more_than_there_is_is_refused(part):
    """Lengths at right angles: twice 0.7 is within 1, and twice 0.72 is not."""
    PerLayerClip(1.0, lambda sensitivities, _: [d / 0.7 for d in sensitivities]).promise(TWO)
    with pytest.raises(ArgumentError, match="it must be at most 1"):
        PerLayerClip(1.0, lambda sensitivities, _: [d / part for d in sensitivities]).promise(TWO)
