"""No draw comes again anywhere in a release, near or far: two coordinates with the same noise would cancel it.

Gaussians are made in pairs that end up thousands of places apart, and noise in lots that a cache holds. So correlation
is looked for at *every* distance at once, by a Fourier transform, of the numbers and of their squares (signs may hide).
"""

from __future__ import annotations

import math

import pytest
import torch

from doorway import go
from dpmac.kernels.mixture import MANY
from dpmac.privacy import Partition
from dpmac.randomness import SeededNoise, SystemNoise

COUNT = 1 << 17
SOURCES = [SystemNoise(), SeededNoise(5)]


def loudest_echo(draws):
    """The largest correlation of the draws with themselves, shifted in a circle by any distance."""
    centred = draws - draws.mean()
    spectrum = torch.fft.rfft(centred / centred.norm())
    return float(torch.fft.irfft(spectrum.abs().square(), len(draws))[1:].abs().max())


def assert_no_echo(draws):
    allowed = 7 / math.sqrt(len(draws))  # seven standard deviations, of as many distances
    assert loudest_echo(draws) < allowed
    assert loudest_echo(draws.square()) < allowed


@pytest.mark.parametrize("releases", [2, 4])
@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_a_release_has_no_echo(source, releases):
    """Of two layers and of several releases, one behind the other: large ones, whose noise the system's source draws by
    a table, and small ones, whose noise it transforms."""
    each = COUNT // releases
    assert (each >= MANY) == (releases == 2)
    partitions = [Partition("a", (each // 2,), 1.0), Partition("b", (each // 4, 2), 1.0)]
    noisy = [part.flatten() for _ in range(releases) for part in go(partitions, source=source)]
    assert_no_echo(torch.cat(noisy))


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_draws_have_no_echo(source):
    assert_no_echo(source.normal((COUNT,)))
    assert_no_echo(source.uniform(COUNT) - 0.5)


def test_an_echo_would_be_heard():
    draws = SystemNoise().normal((COUNT,))
    draws[COUNT // 3 :][:4000] = -draws[:4000]
    with pytest.raises(AssertionError):
        assert_no_echo(draws)
