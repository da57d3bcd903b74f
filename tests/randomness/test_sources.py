"""Noise sources: the right law, independence, and reproducible only when seeded."""

from __future__ import annotations

import collections
import hashlib
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from dpmac.checks import ArgumentError
from dpmac.randomness import SeededNoise, SystemNoise, noise_source, shuffled, torch_draws_from

SOURCES = [SystemNoise(), SeededNoise(7)]
DRAWS = 400_000
each_source = pytest.mark.parametrize("source", SOURCES, ids=repr)


@each_source
def test_normal_has_the_standard_law(source):
    sample = source.normal((DRAWS,)).numpy()
    assert sample.dtype == "float64"
    # standard errors: mean 1/sqrt(n) = 0.0016, deviation 1/sqrt(2n) = 0.0011: 6 of them is still under 1 %
    assert abs(sample.mean()) < 6 / math.sqrt(DRAWS)
    assert abs(sample.std() - 1) < 6 / math.sqrt(2 * DRAWS)
    assert stats.kstest(sample, "norm").pvalue > 1e-6


@each_source
@pytest.mark.parametrize("bits", [1, 20, 33])
def test_steps_are_rounded_normals(source, bits):
    sample = torch.cat([lot.clone() for lot in source.steps([DRAWS // 4, 7, 0, DRAWS // 4], bits)])
    assert sample.dtype == torch.float64
    assert len(sample) == DRAWS // 2 + 7
    assert torch.equal(sample, sample.round())
    if bits > 1:
        assert stats.kstest(sample.numpy() / 2**bits, "norm").pvalue > 1e-6
    assert float(sample.std()) == pytest.approx(math.sqrt(4**bits + 1 / 12), rel=6 / math.sqrt(DRAWS))


def test_steps_of_a_seed_are_its_normals_in_lots_of_any_size():
    for sizes in ([50], [20, 0, 30], [1] * 50):
        steps = torch.cat(list(SeededNoise(3).steps(sizes, 20)))
        assert torch.equal(steps, (SeededNoise(3).normal((50,)) * 2.0**20).round())


@each_source
def test_uniform_is_uniform_and_has_fine_resolution(source):
    sample = source.uniform(DRAWS).numpy()
    assert 0 <= sample.min() <= sample.max() < 1
    assert stats.kstest(sample, "uniform").pvalue > 1e-6
    assert len(set(sample.tolist())) == DRAWS  # 53 bits: a chance of 1e-5 that two meet; of 24 bits, 5,000 would


@each_source
def test_draws_are_independent_of_each_other(source):
    pairs = source.normal((DRAWS // 2, 2))
    again = source.normal((DRAWS // 2, 2))
    columns = torch.stack([pairs[:, 0], pairs[:, 1], again[:, 0], again[:, 1]])
    correlation = torch.corrcoef(columns) - torch.eye(4)
    assert correlation.abs().max() < 6 / math.sqrt(DRAWS // 2)
    # the two halves of a Box-Muller pair share a radius: their squares must still be uncorrelated
    assert (torch.corrcoef(columns.square()) - torch.eye(4)).abs().max() < 8 / math.sqrt(DRAWS // 2)


@each_source
def test_odd_and_empty_shapes(source):
    for count in (0, 1, 2, 3, 7):
        assert source.normal((count,)).shape == (count,)
        assert source.normal((count, 3)).shape == (count, 3)
        assert source.normal(()).shape == ()


def test_only_a_seed_repeats():
    assert torch.equal(SeededNoise(3).normal((50,)), SeededNoise(3).normal((50,)))
    assert not torch.equal(SeededNoise(3).normal((50,)), SeededNoise(4).normal((50,)))
    assert not torch.equal(SystemNoise().normal((50,)), SystemNoise().normal((50,)))
    torch.manual_seed(0)
    first = SystemNoise().normal((50,))
    torch.manual_seed(0)
    assert not torch.equal(first, SystemNoise().normal((50,)))


def test_purposes_are_independent():
    root = SeededNoise(1)
    a, b = root.spawn("sampler"), root.spawn("noise")
    assert not torch.equal(a.normal((20,)), b.normal((20,)))
    assert torch.equal(SeededNoise(1).spawn("noise").normal((20,)), SeededNoise(1).spawn("noise").normal((20,)))
    root.uniform(1000)  # drawing from the root does not move a child
    assert torch.equal(root.spawn("noise").normal((20,)), SeededNoise(1).spawn("noise").normal((20,)))


def test_which_source():
    assert not noise_source(None).seeded
    assert noise_source(5).seeded
    with pytest.raises(ArgumentError, match="seed=-1"):
        noise_source(-1)


def test_a_seed_gives_what_it_always_gave():
    """Results in the repository were made with seeds: Philox, keyed by a hash of the purposes and the seed."""
    for source, name in ((SeededNoise(12), b"dpmac:12"), (SeededNoise(5).spawn("a").spawn("b"), b"dpmac/a/b:5")):
        key = int.from_bytes(hashlib.sha256(name).digest()[:16], "big")
        reference = np.random.Generator(np.random.Philox(key=key))
        assert np.array_equal(source.normal((3, 7)), reference.standard_normal((3, 7)))
        assert np.array_equal(source.uniform(9), reference.random(9))
        assert np.array_equal(source.normal(()), reference.standard_normal())


def test_a_seeds_normals_are_made_on_the_device_that_is_asked_for(monkeypatch):
    """Of a device that is none: its numbers are nowhere, so it needs no generator."""
    monkeypatch.setattr(SeededNoise, "_on_device", lambda *_: None)
    assert SeededNoise(5).normal((3, 7), "meta").device.type == "meta"
    assert SeededNoise(5).normal((3, 7), "cpu").device.type == "cpu"


def test_large_seeds_are_all_different():
    draws = {SeededNoise(seed).uniform(1).item() for seed in (5, 5 + 2**32, 5 + 2**40, 2**53 + 1, 2**53 + 3, 2**63 - 1)}
    assert len(draws) == 6


@pytest.mark.usefixtures("repeatable_noise")
def test_orders_are_uniform_and_keys_that_meet_are_drawn_again():
    source = SeededNoise(9)
    counts = collections.Counter(tuple(shuffled(4, source).tolist()) for _ in range(24_000))
    assert len(counts) == 24
    assert stats.chisquare(list(counts.values())).pvalue > 1e-6

    class Keys(SystemNoise):
        given = iter([[0.5, 0.5, 0.1], [0.3, 0.2, 0.1]])

        def uniform(self, count):
            return torch.tensor(next(self.given)[:count])

    assert shuffled(3, Keys()).tolist() == [2, 1, 0]


def test_torch_is_seeded_by_every_digit_of_a_uniform():
    """Two sources that differ in the last one begin with other weights."""
    seeds = []
    for drawn in torch.tensor([[0.0], [0.5], [0.5 + 2.0**-53], [1 - 2.0**-53]], dtype=torch.float64):
        with torch_draws_from(SimpleNamespace(uniform=lambda _, drawn=drawn: drawn)):
            seeds.append(torch.initial_seed())
    assert len(set(seeds)) == 4
