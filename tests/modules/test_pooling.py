"""Pooling with channels side by side: bit for bit what torch gives, forward and backward, and laid out as without."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from dpmac.modules import rules
from dpmac.modules.rules.pooling import SideBySide
from dpmac.modules.taps import Watch

ODD = (math.nan, -math.inf, math.inf, -0.0, 0.0, 1.0)  # and many of them equal


def images(seed, channels, dtype=torch.float32):
    torch.manual_seed(seed)
    x = torch.randint(-1, 2, (3, channels, 9, 8)).to(dtype)
    odd = torch.tensor(ODD, dtype=dtype)[torch.randint(0, len(ODD), x.shape)]
    return torch.where(torch.rand(x.shape) < 0.2, odd, x)


def pooled(x, weights, pool):
    """The values, and the gradient of their weighted sum."""
    leaf = x.clone().requires_grad_()
    values = pool(leaf)
    return values.detach(), torch.autograd.grad(values, leaf, weights(values))[0]


def same_bits(one, other):
    whole = torch.int32 if one.dtype == torch.float32 else torch.int64
    return one.shape == other.shape and torch.equal(one.contiguous().view(whole), other.contiguous().view(whole))


def by_rule(pool, rows=3):
    def run(x):
        with Watch(rules.RULES, {}, rows):
            return pool(x)

    return run


@given(
    st.integers(0, 10**6),
    st.integers(1, 20),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_values_and_gradients_are_torch_s(seed, channels, kernel, stride, padded, dilation, ceil, dtype):
    x = images(seed, channels, dtype)
    pool = nn.MaxPool2d(kernel, stride, kernel // 2 if padded else 0, dilation, ceil_mode=ceil)
    by_row = torch.randn(x.shape[0], dtype=dtype).reshape(-1, 1, 1, 1)
    plain, quick = (pooled(x, lambda v: by_row * torch.ones_like(v), way) for way in (pool, by_rule(pool)))
    assert same_bits(plain[0], quick[0])
    assert same_bits(plain[1], quick[1])


@pytest.mark.parametrize("channels", [1, 3, 4, 7])
def test_what_comes_out_can_be_viewed_as_without_the_rule(channels):
    """A module may go on with a view, which another layout would refuse."""
    values, gradient = pooled(images(1, channels), torch.ones_like, by_rule(lambda x: F.max_pool2d(x, 2).view(3, -1)))
    assert values.shape == (3, channels * 16)
    assert gradient.is_contiguous()


@pytest.mark.parametrize("pool", [nn.MaxPool2d(2), lambda x: F.max_pool2d(x, 2), lambda x: torch.max_pool2d(x, 2)])
def test_every_way_to_call_it_is_the_quick_one(pool):
    assert "SideBySide" in type(by_rule(pool)(images(1, 4).requires_grad_()).grad_fn).__name__


@pytest.mark.parametrize(
    "x", [images(1, 3), images(1, 8).contiguous(memory_format=torch.channels_last), images(1, 8)[0]]
)
def test_others_run_as_they_are(x):
    """Few channels, channels that lie side by side already, a single image."""
    assert "SideBySide" not in type(by_rule(nn.MaxPool2d(2))(x.clone().requires_grad_()).grad_fn).__name__
    assert torch.equal(by_rule(nn.MaxPool2d(2))(x).nan_to_num(), F.max_pool2d(x, 2).nan_to_num())


@pytest.mark.parametrize("named", [True, False])
def test_places_are_given_if_asked_for(named):
    more = ((), {"return_indices": True}) if named else ((2, 0, 1, False, True), {})
    values, places = by_rule(lambda x: F.max_pool2d(x, 2, *more[0], **more[1]))(images(1, 8))
    assert torch.equal(places, F.max_pool2d(images(1, 8), 2, return_indices=True)[1])
    assert values.shape == places.shape


def test_it_can_be_differentiated_twice():
    x = torch.randn(2, 5, 6, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: SideBySide.apply(x, 3, 2, 1, 1, True), x)
    assert torch.autograd.gradgradcheck(lambda x: SideBySide.apply(x, (3, 2), (2, 1), 0, 1, False), x)
