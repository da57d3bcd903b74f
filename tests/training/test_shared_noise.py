"""How a release's noise is shared among its partitions: the paper's rule, and the one of least energy."""

from __future__ import annotations

import math

import pytest

from dpmac.checks import ArgumentError
from dpmac.privacy import EqualShares, LeastEnergy, Normalise, Partition, PerLayerClip
from dpmac.randomness import SeededNoise


def test_least_energy_is_the_optimum_and_equal_shares_is_the_papers():
    """Against a search: no other split of the same privacy has less weighted noise energy."""
    partitions = [Partition("a", (10, 20)), Partition("b", (3,)), Partition("c", (50, 2))]
    sensitivities = [0.5, 2.0, 1.0]
    sizes = [200.0, 3.0, 100.0]
    best = LeastEnergy()(sensitivities, partitions)
    paper = EqualShares()(sensitivities, partitions)
    assert paper == pytest.approx([math.sqrt(3) * d for d in sensitivities])

    def energy(scales):
        return sum(c * s * s for c, s in zip(sizes, scales, strict=True))

    def budget(scales):
        return sum((d / s) ** 2 for d, s in zip(sensitivities, scales, strict=True))

    assert budget(best) == pytest.approx(1.0)
    assert budget(paper) == pytest.approx(1.0)
    assert energy(best) < energy(paper)
    draw = SeededNoise(0)
    for _ in range(300):
        other = [s * math.exp(0.1 * float(e)) for s, e in zip(best, draw.normal((3,)), strict=True)]
        root = math.sqrt(budget(other))
        assert energy([s * root for s in other]) >= energy(best) * (1 - 1e-9)
    with pytest.raises(ArgumentError, match="costs"):
        LeastEnergy((1.0,))(sensitivities, partitions)


def test_an_allocation_that_promises_too_much_is_refused_in_public():
    """Found in review: only a row that used the whole bound would have shown it."""
    for bound in (PerLayerClip(1.0, lambda s, _b: list(s)), Normalise(allocation=lambda s, _b: list(s))):
        with pytest.raises(ArgumentError, match="must be at most 1"):
            bound.promise([Partition("a", (2,)), Partition("b", (3,))])
