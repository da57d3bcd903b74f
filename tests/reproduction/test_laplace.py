"""Discrete Laplace noise: its exact law, what a release costs, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.randomness import SeededNoise, SystemNoise
from reproduction.laplace import discrete_laplace, perturbed


@pytest.mark.parametrize("scale", [1, 3, 40])
def test_the_noise_has_the_law_that_is_stated(scale):
    count = 40_000
    drawn = discrete_laplace(count, scale, SeededNoise(scale))
    ratio = math.exp(-1 / scale)
    seen, chi, bins = 0, 0.0, 0
    for value in range(-3 * scale, 3 * scale + 1):
        expected = count * (1 - ratio) / (1 + ratio) * ratio ** abs(value)
        found = int((drawn == value).sum())
        chi += (found - expected) ** 2 / expected
        seen, bins = seen + found, bins + 1
    tail = count * 2 * ratio ** (3 * scale + 1) / (1 + ratio)
    chi += (count - seen - tail) ** 2 / tail
    assert chi < bins + 5 * math.sqrt(2 * bins)  # seeded: it is one number, and far from the limit of a wrong law


def test_zero_is_not_twice_as_likely_and_both_signs_are_alike():
    drawn = discrete_laplace(40_000, 1, SeededNoise(5))
    assert abs(int((drawn > 0).sum()) - int((drawn < 0).sum())) < 4 * math.sqrt(40_000)
    zero = (1 - math.exp(-1)) / (1 + math.exp(-1))
    assert float((drawn == 0).double().mean()) == pytest.approx(zero, abs=0.01)


def test_a_release_costs_what_was_given_or_less():
    sums = torch.tensor([[5, -7], [10**12, 0]])
    answer = perturbed(sums, 13, 0.3, SystemNoise())
    assert answer.scale == 44  # 13 / 0.3 rounded up
    assert answer.epsilon == Fraction(13, 44) <= Fraction(0.3)
    assert answer.sums.shape == sums.shape
    assert bool((answer.sums == answer.sums.round()).all())
    assert float((answer.sums - sums).abs().max()) < 44 * 60  # e^-60 a coefficient
    without = perturbed(sums, 13, math.inf, SystemNoise())
    assert torch.equal(without.sums.long(), sums)
    assert without.epsilon == 0


def test_probabilities_of_neighbours_differ_by_the_stated_factor_at_most():
    """Sums that are 2 apart, at epsilon 1: every outcome is at most e times as likely, and nearly that somewhere."""
    count = 60_000
    first, second = (
        perturbed(torch.full((count,), value), 2, 1.0, SeededNoise(9, f"/{value}")).sums for value in (0, 2)
    )
    for outcome in range(-3, 6):
        one, other = (int((answers == outcome).sum()) for answers in (first, second))
        assert one < math.e * other * 1.1
        assert other < math.e * one * 1.1
    assert int((first == -1).sum()) > 2.5 * int((second == -1).sum())


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ((torch.ones(2), 1, 1.0), "sums"),
        ((torch.ones(2).long(), 0, 1.0), "sensitivity"),
        ((torch.ones(2).long(), 1, 0.0), "epsilon"),
        ((torch.ones(2).long(), 1, math.nan), "epsilon"),
        ((torch.ones(2).long(), 1 << 40, 1e-9), "scale"),
    ],
)
def test_what_makes_no_sense_is_refused(given, name):
    with pytest.raises(ArgumentError, match=name):
        perturbed(*given, SystemNoise())
