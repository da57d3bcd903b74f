"""Learned thresholds: sensitivities, noise, and that they find what they look for."""

from __future__ import annotations

import math

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.privacy import Block, DensePart, Ledger, Mechanism, OuterPart, PrivateRows, SeededNoise, SystemNoise, release
from dpmac.privacy.bound import SLACK, joint_norms
from dpmac.privacy.thresholds import AdaptiveQuantile, NormHistogram

BLOCKS = [Block("a", (1, 3)), Block("b", (1, 3))]


def two_parts(x):
    """Norms ||x|| and 10 ||x||."""
    one = torch.ones_like(x[:, :1])
    return [OuterPart(one, x), OuterPart(10 * one, x)]


def table(n=4000, seed=0):
    draw = SeededNoise(seed)
    return draw.normal((n, 3)) * torch.exp(draw.normal((n, 1)))


def test_the_histogram_finds_each_partitions_quantile():
    x = table()
    ledger = Ledger()
    histogram = NormHistogram(noise_multiplier=5.0, quantile=0.7, bins=80)
    found = histogram.thresholds(PrivateRows(x), two_parts, ["a", "b"], SeededNoise(1), ledger)
    step = (1e2 / 1e-4) ** (1 / 79)
    true = float(torch.quantile(x.norm(dim=1), 0.7))
    for threshold, wanted in zip(found, (true, 10 * true), strict=True):
        assert wanted / step**2 < threshold < wanted * step**2
    assert ledger.mechanisms() == (histogram.mechanism(),) == (Mechanism(5.0, 1.0, 1, "norm histogram"),)
    assert ledger.entries[0].scales == pytest.approx({"a": math.sqrt(2), "b": math.sqrt(2)}, rel=1e-4)


def test_the_smallest_edge_that_reaches_the_quantile():
    histogram = NormHistogram(noise_multiplier=0.0, quantile=0.5, low=1.0, high=8.0, bins=4)  # edges 1, 2, 4, 8
    assert histogram.edges().tolist() == pytest.approx([1, 2, 4, 8])
    for norms, wanted in (
        ([0.5, 0.5, 3, 3], 1.0),
        ([0.5, 1.5, 3, 9], 2.0),
        ([9.0, 9, 9, 1], 8.0),
        ([2.0, 2, 2, 2], 2.0),
    ):
        rows = torch.tensor(norms, dtype=torch.float64)[:, None]
        found = histogram.thresholds(
            PrivateRows(rows), lambda x: [DensePart(x)], ["a"], SeededNoise(0), Ledger(), micro_batch=3
        )
        assert found[0] == pytest.approx(wanted)


def test_dropping_any_row_moves_the_histograms_by_at_most_one():
    x = table(12)
    x[0], x[1] = math.nan, 1e200  # outrageous rows count too, in the overflow bin
    histogram = NormHistogram(noise_multiplier=1.0)

    def sums(keep):
        kept = [histogram._one_hot(p.norms(), histogram.edges()).total() for p in two_parts(x[keep])]
        return torch.cat(kept) / math.sqrt(2)

    everyone = torch.arange(12)
    for row in range(12):
        assert (sums(everyone) - sums(everyone[everyone != row])).norm() == pytest.approx(1.0)


def test_histogram_noise_has_its_scale():
    """60,000 noisy bins, all but four empty: a scale wrong by 2 % is seven standard errors off."""
    seen = []

    class Listening(NormHistogram):
        def _read(self, counts, edges, n):
            seen.append(counts)
            return super()._read(counts, edges, n)

    rows = PrivateRows(torch.ones(2, 3, dtype=torch.float64))
    Listening(noise_multiplier=30.0, bins=29_999).thresholds(rows, two_parts, ["a", "b"], SystemNoise(), Ledger())
    for counts in seen:
        assert float(counts.std()) == pytest.approx(30 * math.sqrt(2), rel=0.02)
    assert abs(float(torch.corrcoef(torch.stack(seen))[0, 1])) < 6 / math.sqrt(30_000)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_adaptive_parts_keep_the_promise_whatever_the_rows(share):
    bound = AdaptiveQuantile((0.7, 3.0), share=share)
    partitions = bound.promise(BLOCKS)
    x = table(500)
    x[3], x[4] = math.inf, 0.0
    parts = bound.apply(two_parts(x))
    assert len(parts) == len(partitions) == 4
    norms = joint_norms(parts, [p.scale for p in partitions])
    assert norms.max() <= 1 - SLACK / 2
    assert norms.max() > 0.99  # nothing is wasted


def test_its_noise_obeys_the_stated_rule():
    """sigma_sum = (sigma^-2 - K (2 sigma_count)^-2)^(-1/2)."""
    sigma, thresholds = 1.3, (0.7, 3.0)
    bound = AdaptiveQuantile(thresholds, share=0.2)
    partitions = bound.promise(BLOCKS)
    sigma_count = sigma * partitions[2].scale
    sigma_sum = (sigma**-2 - 2 * (2 * sigma_count) ** -2) ** -0.5
    for partition, threshold in zip(partitions[:2], thresholds, strict=True):
        assert sigma * partition.scale == pytest.approx(sigma_sum * threshold * math.sqrt(2))


def test_it_converges_to_the_quantile_through_real_releases():
    x = table(2000)
    bound, ledger = AdaptiveQuantile(0.01, quantile=0.6, rate=0.3, share=0.1), Ledger()
    for _ in range(80):
        released = release(
            PrivateRows(x).everything(),
            lambda rows, bound=bound: bound.apply(two_parts(rows)),
            bound.promise(BLOCKS),
            noise_multiplier=2.0,
            source=SeededNoise(len(ledger)),
            ledger=ledger,
            label="step",
            divisor=2000,
        )
        bound = bound.learned(released[2:])
    for threshold, factor in zip(bound.threshold, (1.0, 10.0), strict=True):
        within = float((factor * x.norm(dim=1) <= threshold).double().mean())
        assert within == pytest.approx(0.6, abs=0.05)
    assert len(ledger) == 80


def test_bad_arguments_are_named():
    for make, message in (
        (lambda: NormHistogram(-1.0), "noise_multiplier"),
        (lambda: NormHistogram(1.0, quantile=1.0), "quantile"),
        (lambda: NormHistogram(1.0, low=0.0), "low"),
        (lambda: NormHistogram(1.0, low=2.0, high=1.0), "high"),
        (lambda: NormHistogram(1.0, bins=1), "bins"),
        (lambda: AdaptiveQuantile(0.0), "threshold"),
        (lambda: AdaptiveQuantile(share=1.0), "share"),
        (lambda: AdaptiveQuantile(quantile=0.0), "quantile"),
        (lambda: AdaptiveQuantile(rate=0.0), "rate"),
        (lambda: AdaptiveQuantile().learned([]), "released"),
    ):
        with pytest.raises(ArgumentError, match=message):
            make()
