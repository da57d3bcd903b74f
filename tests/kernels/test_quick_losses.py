"""Losses for searches are those of dp-accounting: masses, compositions, epsilons and curves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import common, pld_pmf
from dp_accounting.pld import privacy_loss_distribution as library

from dpmac.kernels.loss_distributions import FULL, MEDIUM, QUICK, _composed, composed
from dpmac.kernels.quick_losses import OneWay, QuickLosses, quick_step
from dpmac.privacy import Mechanism

STEPS = [(1.0, 0.01, 1e-3), (0.4, 0.3, 1e-3), (30.0, 0.9, 1e-4), (2.0, 1.0, 1e-3), (0.7, 1e-4, 5e-3)]


def ways_of(theirs):
    return theirs._pmf_remove.to_dense_pmf(), theirs._pmf_add.to_dense_pmf()


def same(ours, theirs):
    for mine, other in zip(ours.ways, ways_of(theirs), strict=True):
        first = mine.lowest - other._lower_loss
        wide = np.zeros(max(other.size, first + len(mine.masses)))
        wide[max(first, 0) : first + len(mine.masses)] = mine.masses[max(-first, 0) :]
        np.testing.assert_allclose(wide[: other.size], other._probs, rtol=1e-6, atol=1e-11)
        assert abs(wide[other.size :]).sum() < 1e-11
        assert mine.infinite == pytest.approx(other._infinity_mass, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize(("sigma", "q", "h"), STEPS)
def test_a_step_and_its_composition_are_the_librarys(sigma, q, h):
    ours = quick_step(sigma, value_discretization_interval=h, sampling_prob=q)
    theirs = library.from_gaussian_mechanism(sigma, value_discretization_interval=h, sampling_prob=q)
    same(ours, theirs)
    assert [len(way.masses) for way in ours.ways] == [way.size for way in ways_of(theirs)]
    same(ours.self_compose(30), theirs.self_compose(30))
    same(ours.self_compose(7, 1e-9), theirs.self_compose(7, 1e-9))
    twice = library.from_gaussian_mechanism(3.0, value_discretization_interval=h)
    same(ours.compose(quick_step(3.0, h, 1.0)), theirs.compose(twice))


def bell(size, width):
    masses = np.exp(-((np.arange(size) - size // 2) ** 2) / (2 * width**2))
    return masses / masses.sum()


SHAPES = {
    "even": np.full(5, 0.2),
    "narrow": bell(200, 5),  # the bounds are those of the last order
    "wide": bell(41, 20),
    "nearly always low": np.array([0.999, *[0.0] * 60, 0.001]),
    "nearly always high": np.array([0.001, *[0.0] * 60, 0.999]),
}


@pytest.mark.parametrize("tail", [1e-15, 1e-3])
@pytest.mark.parametrize("count", [1, 2, 7, 30, 400])
@pytest.mark.parametrize("shape", SHAPES)
def test_losses_are_composed_within_the_librarys_bounds(shape, count, tail):
    """As many losses, from the same one on, and each with its mass, but for what is beyond the bounds."""
    masses = SHAPES[shape]
    low, expected = common.self_convolve(list(masses), count, tail)
    found = OneWay(0.5, -3, masses, 0.0).times(count, tail)
    assert found.lowest == -3 * count + low
    assert found.masses.shape == expected.shape
    np.testing.assert_allclose(found.masses, expected, atol=1e-13 + tail)


def test_the_mass_of_an_infinite_loss_grows_with_every_release():
    found = OneWay(0.5, 0, np.array([0.5, 0.2]), 0.3).times(4, 1e-3)
    assert found.infinite == pytest.approx(1e-3 + 1 - 0.7**4, rel=1e-12)


def test_losses_are_composed_with_others_but_for_next_to_nothing_at_either_end():
    """Of less than half of 1e-15."""
    other = OneWay(0.5, 4, np.array([1.0]), 0.2)
    for end, kept in ((4e-16, slice(1, 3)), (6e-16, slice(0, 4))):
        masses = np.array([end, 0.5, 0.2, end])
        for one, another in ((OneWay(0.5, -7, masses, 0.3), other), (other, OneWay(0.5, -7, masses, 0.3))):
            found = one.beside(another)
            assert found.lowest == -3 + kept.start
            np.testing.assert_allclose(found.masses, masses[kept], atol=1e-16)
            assert found.infinite == pytest.approx(1 - 0.7 * 0.8, rel=1e-12)


@pytest.mark.parametrize("lowest", [-3, -1, 0, 2])
@pytest.mark.parametrize("delta", [0.1, 0.12, 0.3, 0.6, 0.95])
def test_the_epsilon_of_a_few_losses_is_the_librarys(lowest, delta):
    """Also where it is below every loss, and where the mass of an infinite loss is all of delta."""
    masses = np.array([0.2, 0.3, 0.1, 0.3])
    theirs = pld_pmf.DensePLDPmf(0.5, lowest, masses, 0.1, True)
    expected = theirs.get_epsilon_for_delta(delta)
    assert OneWay(0.5, lowest, masses, 0.1).epsilon(delta) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert math.isfinite(expected)


LISTS = [
    [Mechanism(1.0, 1 / 60, 100)],
    [Mechanism(0.1, 0.9)],
    [Mechanism(2.0), Mechanism(3.0, 0.1, 50), Mechanism(5.0, 0.3, 7)],
    [Mechanism(4.0, 0.01, 100_000)],
    [Mechanism(500.0, 1e-3, 3)],
]


@pytest.mark.parametrize("mechanisms", LISTS)
def test_epsilons_and_curves_are_the_librarys(mechanisms):
    quick, full = composed(mechanisms, QUICK), composed(mechanisms, FULL)
    for delta in (0.3, 1e-2, 1e-6):
        assert quick.get_epsilon_for_delta(delta) == pytest.approx(full.get_epsilon_for_delta(delta), rel=1e-8)
    epsilons = np.array([-1.0, 0.0, 0.3, 2.0, 9.0, 120.0])
    curve = full.get_delta_for_epsilon(list(epsilons))
    releases = sum(m.count for m in mechanisms)  # each of which rounds
    np.testing.assert_allclose(quick.get_delta_for_epsilon(epsilons), curve, atol=1e-11 * (1 + releases))


def test_what_may_be_infinite_is_no_epsilon():
    way = OneWay(0.5, -1, np.array([0.4, 0.3, 0.2]), 0.1)
    assert way.epsilon(0.05) == math.inf
    assert way.epsilon(0.99) == 0.0
    assert way.deltas(np.array([way.epsilon(0.12)]))[0] == pytest.approx(0.12)
    assert way.deltas(np.array([0.5, 0.6, 99.0])).tolist() == [0.1] * 3  # beyond the largest loss
    assert QuickLosses([way, OneWay(0.5, -1, np.array([1.0]), 0.0)]).get_epsilon_for_delta(0.05) == math.inf


def test_a_search_never_touches_what_figures_are_made_of(monkeypatch):
    """And the other way round: tests/kernels/test_loss_distributions.py."""
    monkeypatch.setattr("dpmac.kernels.loss_distributions._full_step", None)
    _composed.cache_clear()
    assert composed([Mechanism(1.5, 0.1, 9), Mechanism(2.0)], MEDIUM).get_epsilon_for_delta(1e-5) > 0
