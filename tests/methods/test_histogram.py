"""The histogram of norms: its sensitivity, its noise, and that it finds each partition's quantile."""

from __future__ import annotations

import math

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.methods import NormHistogram
from dpmac.privacy import DensePart, Ledger, Mechanism, OuterPart, PrivateRows
from dpmac.randomness import SeededNoise, SystemNoise


def two_parts(x):
    """Norms ||x|| and 10 ||x||."""
    one = torch.ones_like(x[:, :1])
    return [OuterPart(one, x), OuterPart(10 * one, x)]


def table(n):
    draw = SeededNoise(0)
    return draw.normal((n, 3)) * torch.exp(draw.normal((n, 1)))


def test_the_histogram_finds_each_partitions_quantile():
    x = table(4000)
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
        rows = PrivateRows(torch.tensor(norms, dtype=torch.float64)[:, None])
        found = histogram.thresholds(rows, lambda x: [DensePart(x)], ["a"], SeededNoise(0), Ledger(), micro_batch=3)
        assert found[0] == pytest.approx(wanted)


def test_the_quantile_is_of_the_public_number_of_places():
    """Blank places count in n: the number of rows that are there stays private."""
    histogram = NormHistogram(noise_multiplier=0.0, quantile=0.6, low=1.0, high=8.0, bins=4)
    rows = PrivateRows(torch.tensor([[0.5], [0.5], [3.0], [3.0]], dtype=torch.float64)).without(3)
    found = histogram.thresholds(rows, lambda x: [DensePart(x)], ["a"], SeededNoise(0), Ledger())
    assert found[0] == pytest.approx(4.0)  # at 1 it is two of the three rows, but of the four places one half


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


@pytest.mark.usefixtures("repeatable_noise")
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


def test_bad_arguments_are_named():
    for make, message in (
        (lambda: NormHistogram(-1.0), "noise_multiplier"),
        (lambda: NormHistogram(1.0, quantile=1.0), "quantile"),
        (lambda: NormHistogram(1.0, low=0.0), "low"),
        (lambda: NormHistogram(1.0, low=2.0, high=1.0), "high"),
        (lambda: NormHistogram(1.0, bins=1), "bins"),
    ):
        with pytest.raises(ArgumentError, match=message):
            make()


def test_parts_that_mix_rows_are_refused_before_anything_is_spent():
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=r"parts_of.*rows influence each other"):
        NormHistogram(1.0).thresholds(
            PrivateRows(table(40)), lambda x: [DensePart(x - x.mean(dim=0))], ["a"], SystemNoise(), ledger
        )
    assert len(ledger) == 0
