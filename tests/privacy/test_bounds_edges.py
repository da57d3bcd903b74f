"""The ends of what bounds accept, and a norm that is exactly at its threshold."""

from __future__ import annotations

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.privacy import AdaptiveQuantile, JointClip, OuterPart, Partition, PerLayerClip
from dpmac.privacy.allocation import per_layer
from dpmac.privacy.partition import promised

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
