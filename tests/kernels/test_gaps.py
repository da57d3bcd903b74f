"""Rare places: an exact geometric law, whatever the rate is, and the same sample as a coin for every place."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpmac.kernels import gaps
from dpmac.kernels.streams import AESStream
from dpmac.randomness import SystemNoise

RATES = [1e-9, 3e-7, 1e-4, 0.004, 1 / 64, 0.3, 0.7]


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize("rate", RATES)
def test_gaps_are_geometric(rate):
    """Cell by cell of about equal chance, and for whole numbers one by one where they are few."""
    found = gaps.gaps(60_000, rate, AESStream()).numpy()
    edges = np.unique(np.floor(np.log(1 - np.arange(1, 20) / 20) / math.log1p(-rate)).astype(np.int64))
    counts = np.diff([0, *[(found < edge).sum() for edge in edges], len(found)])
    tails = [0.0, *[-math.expm1(int(edge) * math.log1p(-rate)) for edge in edges], 1.0]
    chances = np.diff(tails)
    kept = chances > 1e-12
    assert stats.chisquare(counts[kept], len(found) * chances[kept] / chances[kept].sum()).pvalue > 1e-6
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 6 / math.sqrt(len(found))


@given(lead=st.integers(0, 2**63 - 1), rate=st.floats(1e-9, 0.5))
def test_the_bound_holds_against_mpmath(lead, rate):
    """Both ends of what U can be lie within what the ratio may be off."""
    ratio, off = gaps._ratio(torch.tensor([lead]), rate)
    with mpmath.workprec(300):
        slope = mpmath.log(1 - mpmath.mpf(rate))
        for number in (lead, lead + 1):
            if number == 0:
                continue
            true = mpmath.log(mpmath.mpf(number) / mpmath.mpf(2) ** 63) / slope
            assert abs(true - mpmath.mpf(float(ratio))) <= mpmath.mpf(float(off))


class Told(AESStream):
    """Gives the words it was told to."""

    def __init__(self, *words):
        super().__init__()
        self.told = list(words)

    def words(self, count):
        mine, self.told = self.told[:count], self.told[count:]
        return torch.tensor(mine, dtype=torch.int64)


@pytest.mark.parametrize("rate", [0.004, 1e-6, 0.5])
def test_an_open_gap_is_decided_by_the_digits_that_follow(rate):
    """U is put on the two sides of (1 - rate)**g, closer than 63 digits can tell."""
    for g in (1, 2, 7, 40):
        edge = (1 - Fraction(rate)) ** g
        lead = int(edge * 2**63)
        rest = edge * 2**63 - lead
        if rest.denominator == 1 and not rest:
            continue
        middle = int(rest * 2**64)
        for word, expected in ((middle - 2**20, g), (middle + 2**20, g - 1)):
            signed = word - 2**64 if word >= 2**63 else word
            assert gaps.decided(lead, rate, Told(signed, *[0] * 10)) == expected


def test_a_word_of_zeros_only_says_that_the_gap_is_long():
    found = gaps.decided(0, 0.01, Told(0, 1, 0, 0, 0, 0, 0))
    assert found > 63 * math.log(2) / -math.log1p(-0.01)


@pytest.mark.usefixtures("repeatable_noise")
def test_where_all_are_open_the_law_is_the_same(monkeypatch):
    """Every gap through the slow branch: what it decides is what the quick one does, and it is geometric."""
    lead = AESStream().words(400).bitwise_and_((1 << 63) - 1)
    ratio, _ = gaps._ratio(lead, 0.01)
    slow = [gaps.decided(int(one), 0.01, AESStream()) for one in lead]
    assert slow == ratio.floor().long().tolist()
    monkeypatch.setattr(gaps, "_ratio", lambda lead, rate: (torch.zeros(len(lead)), torch.ones(len(lead))))
    found = gaps.gaps(3000, 0.01, AESStream()).numpy()
    assert stats.kstest(found + np.random.default_rng(0).random(3000), lambda x: 1 - 0.99**x).pvalue > 1e-6


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize(("count", "rate"), [(1000, 0.01), (37, 1 / 65), (5000, 1e-3)])
def test_every_place_is_as_likely_as_any_other_and_no_two_know_of_each_other(count, rate):
    times = 4000
    seen, sizes, pairs = np.zeros(count), [], 0
    for _ in range(times):
        found = SystemNoise().places(count, rate).numpy()
        assert (np.diff(found) > 0).all()
        assert len(found) == 0 or (found[0] >= 0 and found[-1] < count)
        seen[found] += 1
        sizes.append(len(found))
        pairs += int((np.diff(found) == 1).sum())
    assert stats.chisquare(seen).pvalue > 1e-6
    assert times * rate < 40 or (seen > 0).all()  # the first and the last among them
    assert np.mean(sizes) == pytest.approx(count * rate, abs=6 * math.sqrt(count * rate / times))
    assert np.var(sizes) == pytest.approx(count * rate * (1 - rate), rel=0.2)
    expected = times * (count - 1) * rate**2
    assert abs(pairs - expected) < 6 * math.sqrt(expected)


@pytest.mark.usefixtures("repeatable_noise")
def test_a_sample_of_a_trillion_places_takes_time_for_those_that_stand():
    found = SystemNoise().places(10**12, 1e-9)
    assert 700 < len(found) < 1300
    assert int(found[-1]) < 10**12
    assert len(SystemNoise().places(0, 0.001)) == 0
