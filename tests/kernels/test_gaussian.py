"""From words to laws: the transform against an oracle in exact arithmetic, its tail, and the law of many draws."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import special, stats

from dpmac.kernels.gaps import RARE
from dpmac.kernels.gaussian import box_muller, gaussians, places, uniforms
from dpmac.kernels.streams import CHUNK, AESStream

LONGEST = math.sqrt(2 * 64 * math.log(2))  # 9.42


def transformed(words):
    """The Gaussians of ``words`` (2, m), and their radii."""
    out, radii = torch.empty(2, words.shape[1], dtype=torch.float64), torch.empty(words.shape[1], dtype=torch.float64)
    box_muller(words.clone(), radii, out)
    torch.testing.assert_close(radii.abs(), torch.hypot(*out))
    return out, radii.abs()


def expected(lead, turn):
    """The same in exact arithmetic up to one logarithm, square root, cosine and sine."""
    u = (lead % 2**63 + Fraction(1, 2)) / 2**63
    log = math.log1p(-float(1 - u)) if u > Fraction(1, 2) else math.log(u.numerator) - math.log(u.denominator)
    radius, angle = math.sqrt(-2 * log), math.pi * turn / 2**63
    return radius * math.cos(angle), radius * math.sin(angle)


def test_extreme_words_give_finite_draws_and_the_tail_ends_where_it_is_said_to():
    extremes = [0, 1, -1, 2**63 - 1, -(2**63), 2**54, 2**53 - 1, 2**62]
    words = torch.tensor(list(itertools.product(extremes, repeat=2))).T
    out, radii = transformed(words)
    assert out.isfinite().all()
    assert float(radii.max()) <= LONGEST * (1 + 1e-12)
    _, ends = transformed(torch.tensor([[0, -(2**63), -1, 2**63 - 1], [0, 7, 0, 0]]))
    torch.testing.assert_close(ends[:2], torch.full((2,), LONGEST, dtype=torch.float64), rtol=1e-12, atol=0)
    assert (ends[2:] < 1e-7).all()


def test_the_transform_is_that_of_exact_arithmetic():
    """Leading words of every length, and a scale that is a power of two."""
    draw = np.random.default_rng(0)
    words = torch.from_numpy(draw.integers(-(2**63), 2**63 - 1, (2, 64 * 20)))
    words[0] = (words[0] & (2**63 - 1)) >> torch.arange(64 * 20) % 64
    out, _ = transformed(words)
    exact = torch.tensor([expected(*column) for column in words.T.tolist()], dtype=torch.float64).T
    assert float((out - exact).abs().max()) < 1e-12
    scaled, radii = torch.empty_like(out), torch.empty_like(out[0])
    box_muller(words.clone(), radii, scaled, 2.0**20)
    assert torch.equal(scaled, out * 2.0**20)


@pytest.mark.usefixtures("repeatable_noise")
def test_a_million_draws_have_the_law_and_ten_million_the_tail():
    sample = np.concatenate([gaussians(1_000_001, AESStream()).numpy() for _ in range(10)])
    cells = np.bincount((special.ndtr(sample[:1_000_001]) * 1000).astype(int), minlength=1000)
    assert stats.chisquare(cells).pvalue > 1e-7
    for edge in (3.0, 4.0, 4.5, 5.0):
        for beyond in (sample > edge, sample < -edge):
            assert stats.binomtest(int(beyond.sum()), len(sample), special.ndtr(-edge)).pvalue > 1e-8
    assert np.abs(sample).max() < 8  # 1e-8 that a true one is beyond


@pytest.mark.usefixtures("repeatable_noise")
def test_uniforms_use_all_their_53_bits():
    sample = uniforms(2 * CHUNK + 1, AESStream())
    assert torch.equal(sample * 2.0**53, (sample * 2.0**53).round())
    bits = (sample * 2.0**53).long()[:, None] >> torch.arange(53) & 1
    assert ((bits.double().mean(dim=0) - 0.5).abs() < 6 * 0.5 / math.sqrt(len(sample))).all()
    assert stats.chisquare(np.bincount((sample.numpy() * 500).astype(int), minlength=500)).pvalue > 1e-7


def test_a_given_key_gives_the_same_draws():
    def drawn(law, count):
        return law(count, AESStream(iter([bytes(32)] * 2)))

    for law, count in itertools.product((gaussians, uniforms), (0, 1, 5, 70_001, 140_000)):
        assert torch.equal(drawn(law, count), drawn(law, count))
        assert drawn(law, count).shape == (count,)


@pytest.mark.parametrize("rate", [1e-9, 3e-5, 1 / 65536, 0.1, 0.5, 1 - 2**-30, 1.0])
def test_places_stand_by_the_words_that_they_drew(rate):
    """By the same words, place by place in exact arithmetic: 16 bits, and 53 more where they tie."""
    key, count = bytes(range(32)), 40_003
    words = AESStream(iter([key])).words(-(-count // 4)).numpy().view(np.uint16)[:count].copy()
    scaled = Fraction(rate) * 2**16
    tied = [i for i in range(count) if words[i] == math.floor(scaled)]
    stream = AESStream(iter([key]))
    stream.words(-(-count // 4))
    more = dict(zip(tied, uniforms(len(tied), stream).tolist(), strict=True))
    wanted = [i for i in range(count) if words[i] + Fraction(more.get(i, 0)) < scaled]
    assert places(count, rate, AESStream(iter([key]))).tolist() == wanted


@pytest.mark.parametrize("rate", [RARE, math.nextafter(RARE, 1.0), 0.1, 1 / 3, math.nextafter(1.0, 0.0)])
def test_the_digits_that_places_compare_make_every_rate_from_one_in_32_on_exact(rate):
    """A uniform whole number of 69 digits is below rate * 2**69 with probability ``rate`` exactly if that is whole."""
    assert (Fraction(rate) * 2**69).denominator == 1
    assert Fraction(rate * 2.0**16 - math.floor(rate * 2.0**16)) == Fraction(rate) * 2**16 % 1  # as places computes it


@pytest.mark.usefixtures("repeatable_noise")
def test_places_are_as_many_as_the_rate_says_and_independent():
    for rate in (0.003, 0.4):
        counts = np.array([len(places(20_000, rate, AESStream())) for _ in range(300)])
        assert abs(counts.mean() - 20_000 * rate) < 6 * math.sqrt(20_000 * rate * (1 - rate) / 300)
        assert 0.5 < counts.var() / (20_000 * rate * (1 - rate)) < 1.6
    stood = np.zeros((400, 64))
    for row in stood:
        row[places(64, 0.5, AESStream()).numpy()] = 1
    pairs = np.corrcoef(stood.T)[np.triu_indices(64, 1)]
    assert abs(pairs).max() < 6.5 / math.sqrt(400)
