"""Patches are those of torch's own unfold, of any stride and dilation; and each holds its own image alone."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from dpmac.kernels.patches import patches
from dpmac.randomness import SeededNoise

SMALL = st.integers(1, 3)


@given(seed=st.integers(0, 1000), kernel=st.tuples(SMALL, SMALL), stride=st.tuples(SMALL, SMALL), gap=st.integers(1, 2))
def test_patches_of_images_are_torch_s(seed, kernel, stride, gap):
    images = SeededNoise(seed).normal((3, 2, 7, 6))
    mine = patches(images, kernel, stride, (gap, gap))
    assert torch.equal(mine, F.unfold(images, kernel, dilation=gap, stride=stride))
    with_one = patches(images, kernel, stride, (gap, gap), one=True)
    assert torch.equal(with_one[:, :-1], mine)
    assert bool((with_one[:, -1] == 1.0).all())


def test_other_dimensions_and_fewer_positions():
    line = torch.arange(6.0).reshape(1, 1, 6)
    assert patches(line, (2,), (2,), (1,)).tolist() == [[[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]]
    assert patches(line, (2,), (2,), (1,), keep=(2,)).tolist() == [[[0.0, 2.0], [1.0, 3.0]]]
    cube = SeededNoise(1).normal((2, 3, 4, 4, 4))
    weights = SeededNoise(2).normal((5, 3, 2, 2, 2))
    by_patches = torch.einsum("od,ndp->nop", weights.flatten(1), patches(cube, (2, 2, 2), (1, 1, 1), (1, 1, 1)))
    assert torch.allclose(by_patches, F.conv3d(cube, weights).flatten(2), atol=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_image_s_patches_are_its_own(bad):
    images = SeededNoise(1).normal((4, 1, 5, 5))
    changed = images.clone()
    changed[2] = bad
    others = torch.arange(4) != 2
    one, other = (patches(each, (3, 3), (1, 1), (1, 1)) for each in (images, changed))
    assert torch.equal(one[others], other[others])
