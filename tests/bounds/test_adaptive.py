"""Thresholds learned as training goes: the promise, the noise, and that they find what they look for."""

from __future__ import annotations

import math

import pytest
import torch

from dpmac.bounds.clipping import joint_norms
from dpmac.checks import ArgumentError
from dpmac.privacy import AdaptiveQuantile, Ledger, OuterPart, Partition, PrivateRows, Query, release
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise

TWO = [Partition("a", (1, 3)), Partition("b", (1, 3))]


def two_parts(x):
    """Norms ||x|| and 10 ||x||."""
    one = torch.ones_like(x[:, :1])
    return [OuterPart(one, x), OuterPart(10 * one, x)]


def table(n):
    draw = SeededNoise(0)
    return draw.normal((n, 3)) * torch.exp(draw.normal((n, 1)))


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_adaptive_parts_keep_the_promise_whatever_the_rows(share):
    bound = AdaptiveQuantile((0.7, 3.0), share=share)
    partitions = bound.promise(TWO)
    x = table(500)
    x[3], x[4] = math.inf, 0.0
    parts = bound.apply(two_parts(x))
    assert len(parts) == len(partitions) == 4
    assert [p.name for p in partitions] == ["a", "b", "a within", "b within"]
    norms = joint_norms(parts, [p.scale for p in partitions])
    assert norms.max() <= 1 - SLACK / 2
    assert norms.max() > 0.99  # nothing is wasted


def test_its_noise_obeys_the_stated_rule():
    """sigma_sum = (sigma^-2 - K (2 sigma_count)^-2)^(-1/2)."""
    sigma, thresholds = 1.3, (0.7, 3.0)
    partitions = AdaptiveQuantile(thresholds, share=0.2).promise(TWO)
    sigma_count = sigma * partitions[2].scale
    sigma_sum = (sigma**-2 - 2 * (2 * sigma_count) ** -2) ** -0.5
    for partition, threshold in zip(partitions[:2], thresholds, strict=True):
        assert sigma * partition.scale == pytest.approx(sigma_sum * threshold * math.sqrt(2))


def test_it_converges_to_the_quantile_through_real_releases():
    x = table(2000)
    bound, ledger = AdaptiveQuantile(0.01, quantile=0.6, rate=0.3, share=0.1), Ledger()
    for _ in range(80):
        answer = release(
            PrivateRows(x).everything(),
            Query("step", bound.promise(TWO), lambda rows, bound=bound: bound.apply(two_parts(rows))),
            noise_multiplier=2.0,
            source=SeededNoise(len(ledger)),
            ledger=ledger,
            divisor=2000,
        )
        bound = bound.learned(answer)
    for threshold, factor in zip(bound.threshold, (1.0, 10.0), strict=True):
        within = float((factor * x.norm(dim=1) <= threshold).double().mean())
        assert within == pytest.approx(0.6, abs=0.05)
    assert len(ledger) == 80


def test_it_learns_from_its_own_counts_alone_each_for_its_threshold():
    """Theta exp(-rate (p - quantile)), where p - 1/2 is what came back; a count gone wild moves it by e at most."""

    def answer(a, b):
        counts = {"a within": torch.tensor([a]), "b within": torch.tensor([b])}
        return {"a": torch.full((1, 3), 1e9), "b": torch.full((1, 3), -1e9), **counts}

    bound = AdaptiveQuantile((2.0, 5.0), quantile=0.4, rate=0.5)
    moved = bound.learned(answer(0.3, -0.2)).threshold
    assert moved == pytest.approx((2.0 * math.exp(-0.5 * (0.8 - 0.4)), 5.0 * math.exp(-0.5 * (0.3 - 0.4))))
    assert bound.learned(answer(1e9, -1e9)).threshold == pytest.approx((2.0 / math.e, 5.0 * math.e))
    assert bound.threshold == (2.0, 5.0)


def test_bad_arguments_are_named():
    for make, message in (
        (lambda: AdaptiveQuantile(0.0), "threshold"),
        (lambda: AdaptiveQuantile(share=1.0), "share"),
        (lambda: AdaptiveQuantile(quantile=0.0), "quantile"),
        (lambda: AdaptiveQuantile(rate=0.0), "rate"),
        (lambda: AdaptiveQuantile().learned({"a": torch.zeros(1)}), "answer"),
    ):
        with pytest.raises(ArgumentError, match=message):
            make()
