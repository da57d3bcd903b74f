"""The number of tries of a search is drawn from the law that the accountant reckons with."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from dpmac.checks import ArgumentError
from dpmac.kernels.tries import Tries, _Coins
from dpmac.randomness import SeededNoise

SHAPES = (-0.5, 0.0, 0.5, 1.0)


def weights(tries, most=6000):
    """Pr[K = 1], Pr[K = 2], ..., straight from the definition in the paper."""
    k = np.arange(1, most)
    logs = k * math.log1p(-tries.chance)
    logs[1:] += np.cumsum(np.log((k[:-1] + tries.shape) / (k[:-1] + 1)))
    found = np.exp(logs)
    return found / found.sum()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1.1, 3, 10, 40])
def test_the_mean_is_that_of_the_law(mean, shape):
    tries = Tries.of_mean(mean, shape)
    most = min(200_000, int(60 / tries.chance) + 10)
    found = weights(tries, most)
    assert tries.mean == pytest.approx(mean, rel=1e-8)
    assert found @ np.arange(1, most) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_account_uses_the_slope_of_the_generating_function(shape):
    """f'(z) = m (g / (1 - (1 - g) z))^(s + 1), on which the proof rests."""
    tries = Tries.of_mean(5, shape)
    found, k = weights(tries), np.arange(1, 6000)
    for z in (0.0, 0.3, 0.9, 0.99, 1.0):
        slope = found @ (k * z ** (k - 1.0))
        claimed = tries.mean * (tries.chance / (1 - (1 - tries.chance) * z)) ** (shape + 1)
        assert slope == pytest.approx(claimed, rel=1e-9)


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0])
def test_what_is_drawn_has_the_law(shape):
    tries, source = Tries.of_mean(3, shape), SeededNoise(3)
    drawn = np.array([tries.drawn(source.uniform) for _ in range(3000)])
    law = weights(tries)[:8]
    expected = 3000 * np.append(law, 1 - law.sum())
    counts = np.array([*(np.sum(drawn == k) for k in range(1, 9)), np.sum(drawn > 8)])
    assert drawn.min() >= 1
    assert chisquare(counts, expected).pvalue > 1e-3


def test_coins_are_exact_however_many_digits_that_takes():
    """A coin compares digits of 53 bits: of a tie it asks for more, and at an exact end U is not below its chance."""

    def coins(*digits):
        given = itertools.chain(digits, itertools.repeat(0))
        return _Coins(lambda count: torch.tensor([next(given) * 2.0**-53 for _ in range(count)], dtype=torch.float64))

    half = 2**52
    assert coins(half - 1).falls(Fraction(1, 2))
    assert not coins(half).falls(Fraction(1, 2))  # U = 1/2 and nothing else
    third = 2**53 // 3
    assert coins(third, 0).falls(Fraction(1, 3))  # a tie of 53 digits: the next ones decide
    assert not coins(third, 2**53 - 1).falls(Fraction(1, 3))
    assert coins(0, 0, 5).falls(Fraction(6, 2**159))
    assert not coins(0, 0, 6).falls(Fraction(6, 2**159))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1.1, 2.7, 31])
def test_a_chance_has_forty_binary_digits_and_no_fewer(mean, shape):
    """Which nearly always decides a coin at once, and moves the mean by next to nothing."""
    chance = Tries.of_mean(mean, shape).chance
    assert (chance * 2**40).is_integer()
    finer = [Tries(chance + step * 2.0**-40, shape).mean for step in (-0.50001, 0.50001)]
    assert finer[1] <= mean * (1 + 1e-15)
    assert mean * (1 - 1e-15) <= finer[0]


def test_the_account_has_the_odds_against_the_last_try():
    assert Tries(0.25).odds == 3.0
    assert Tries(0.8, 1.0).odds == pytest.approx(0.25, rel=1e-15)


def test_a_law_is_logarithmic_unless_a_shape_is_given_and_holds_plain_numbers():
    assert Tries(0.5) == Tries(0.5, 0.0)
    tries = Tries(np.float32(0.5), np.int64(1))
    assert (type(tries.chance), type(tries.shape)) == (float, float)


def test_the_limits_of_a_law_are_laws():
    for chance in (2.0**-40, 1.0 - 2.0**-40):
        assert Tries(chance).chance == chance
    for chance in (math.nextafter(2.0**-40, 0.0), math.nextafter(1.0 - 2.0**-40, 1.0)):
        with pytest.raises(ArgumentError, match="chance"):
            Tries(chance)
    least = -1.0 + 2.0**-10
    assert Tries(0.5, least).shape == least
    with pytest.raises(ArgumentError, match="shape"):
        Tries(0.5, math.nextafter(least, -1.0))


def test_a_mean_that_a_shape_has_only_with_endless_coins_is_refused():
    """Before, another mean was taken without a word, or a draw took hours."""
    most = Tries(2.0**-20, -0.9).mean
    assert Tries.of_mean(most * 0.999, -0.9).mean == pytest.approx(most * 0.999, rel=1e-6)
    with pytest.raises(ArgumentError, match=rf"shape=-0.9: its law has a mean of {most:.3g} at most"):
        Tries.of_mean(most * 1.001, -0.9)


def test_a_draw_takes_a_few_coins_for_each_turn_however_far_the_law_reaches():
    """A number that is rejected is rejected at its first bad coin, not after all of them."""
    tries, source, tossed = Tries.of_mean(100, -0.5), SeededNoise(1), []

    def uniform(count):
        tossed.append(count)
        return source.uniform(count)

    for _ in range(20):
        tries.drawn(uniform)
    assert sum(tossed) < 20 * 20 / tries.chance


def test_numbers_that_make_no_law_are_refused():
    for mean in (1.0, 0, -3, 101, math.nan, "many"):
        with pytest.raises(ArgumentError, match="tries"):
            Tries.of_mean(mean)
    for shape in (-1.0, 1.5, math.inf):
        with pytest.raises(ArgumentError, match="shape"):
            Tries.of_mean(4, shape)
    with pytest.raises(ArgumentError, match="chance"):
        Tries(1.0)


def test_the_words_say_law_and_mean():
    assert Tries.of_mean(10).described() == "logarithmic law with a mean of 10"
    assert Tries.of_mean(10, 1).described() == "geometric law with a mean of 10"
    assert "shape 0.5" in Tries.of_mean(2, 0.5).described()
