"""What chooses a grid: a step's loss by integrals and by dp-accounting's own bounds; and what a grid may cost.

Any interval gives an upper bound. These tests are about how close it is, and how many points it takes.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_mechanism
from dp_accounting.pld import privacy_loss_distribution as library
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from dpmac.kernels.loss_distributions import (
    DEFAULT_INTERVAL,
    FULL,
    KEEP,
    MANY,
    MEDIUM,
    QUICK,
    ROUGH,
    TAIL,
    _Step,
    _times,
    interval,
)
from dpmac.privacy import Mechanism

STEPS = [(1.0, 0.01), (0.6, 0.3), (5.0, 0.9), (0.2, 1e-4), (50.0, 0.5)]


def moments(sigma, q):
    """Loss, and weights of the outcomes without the row and with it: half a million outcomes, densities by scipy."""
    x = np.linspace(-10 * sigma, 1 + 10 * sigma, 500_001)
    alone, there = stats.norm.pdf(x, 0, sigma), stats.norm.pdf(x, 1, sigma)
    mixed = (1 - q) * alone + q * there
    return np.log(mixed / alone), alone / alone.sum(), mixed / mixed.sum()


@pytest.mark.parametrize(("sigma", "q"), STEPS)
def test_a_steps_loss_is_as_wide_as_dp_accounting_makes_it(sigma, q):
    step = _Step.of(sigma, q)
    for way in (privacy_loss_mechanism.AdjacencyType.ADD, privacy_loss_mechanism.AdjacencyType.REMOVE):
        ends = privacy_loss_mechanism.GaussianPrivacyLoss(sigma, sampling_prob=q, adjacency_type=way)
        bounds = ends.connect_dots_bounds()
        assert bounds.epsilon_upper - bounds.epsilon_lower == pytest.approx(step.width, rel=0.15)
    loss, _, _ = moments(sigma, q)
    assert step.width == pytest.approx(loss[-1] - loss[0], rel=1e-9)


@pytest.mark.parametrize(("sigma", "q"), STEPS)
def test_a_steps_variance_and_cumulants_are_the_integrals(sigma, q):
    """The smaller variance and the larger cumulant of the two ways: with the row against without, and back."""
    step, (loss, without, there) = _Step.of(sigma, q), moments(sigma, q)
    variances = [float(w @ (loss - w @ loss) ** 2) for w in (without, there)]
    assert step.variance == pytest.approx(min(variances), rel=1e-3)
    for order in (-2.0, -0.3, 0.5, 3.0):
        ways = [math.log(there @ np.exp(order * loss)), math.log(without @ np.exp(-order * loss))]
        assert step.cumulant(order) == pytest.approx(max(ways), rel=1e-3, abs=1e-12)


@pytest.mark.parametrize(
    ("sigma", "q", "count"), [(1.0, 0.01, 1), (1.0, 0.01, 500), (0.6, 0.3, 40), (5.0, 0.9, 3), (4.0, 0.01, 9000)]
)
def test_a_composed_loss_is_as_wide_as_dp_accounting_will_make_it(sigma, q, count):
    """By its own bounds, on the losses of a coarse grid, of the wider way."""
    step = _Step.of(sigma, q)
    h = step.width / 2000
    pld = library.from_gaussian_mechanism(sigma, value_discretization_interval=h, sampling_prob=q)
    widths = []
    for pmf in (pld._pmf_remove, pld._pmf_add):
        low, high = common.compute_self_convolve_bounds(pmf.to_dense_pmf()._probs, count, TAIL)
        widths.append((high - low) * h)
    assert 0.9 * max(widths) < step.composed_width(count) < 1.4 * max(widths)
    assert step.composed_width(count) >= step.width


def test_a_million_small_steps_are_composed_twice_over_and_a_thousand_are_not():
    small = _Step.of(60.0, 0.01)
    assert small.twice(1_000_000)
    assert not small.twice(MANY)
    assert not _Step.of(1.0, 0.9).twice(20_000)  # nothing to be won: the sum itself is wide
    once = small._chernoff(1_000_000, small.width)
    assert small.composed_width(1_000_000) < once / 2
    # as wide as the library's bounds on a part of a thousand steps, composed a thousand times
    part = small._chernoff(1000, small.width)
    assert small.width < part < small.composed_width(1_000_000)


def test_composed_twice_over_next_to_nothing_is_moved_to_an_infinite_loss():
    """Of a thousand parts, each cut in its tails: all together no more than the library cuts of a few compositions."""
    step = library.from_gaussian_mechanism(3000.0, value_discretization_interval=2e-5)
    many = _times(step, 1_000_003, twice=True)
    assert many._pmf_remove._infinity_mass <= 5 * TAIL + 1_000_003 * step._pmf_remove._infinity_mass


# --- the interval ---------------------------------------------------------------------------------------------------

LISTS = st.lists(
    st.builds(
        Mechanism,
        st.floats(math.log(0.05), math.log(1e3)).map(math.exp),
        st.floats(math.log(1e-5), 0.0).map(math.exp),
        st.integers(1, 100_000),
    ),
    min_size=1,
    max_size=3,
)


def shape(mechanisms):
    """The widest single loss, the width of the sum, the variance, and how many losses are split on the grid."""
    plain = sum(m.count / m.noise_multiplier**2 for m in mechanisms if m.sample_rate == 1)
    sampled = [(m.count, _Step.of(m.noise_multiplier, m.sample_rate)) for m in mechanisms if m.sample_rate < 1]
    gaussian = 20 * math.sqrt(plain) + plain  # ten standard deviations to either side
    return (
        max([gaussian, *(step.width for _, step in sampled)]),
        gaussian + sum(step.composed_width(count) for count, step in sampled),
        plain + sum(count * step.variance for count, step in sampled),
        (plain > 0) + sum(count for count, _ in sampled),
    )


@settings(max_examples=12)
@given(LISTS)
@example([Mechanism(1.0)])
@example([Mechanism(0.05), Mechanism(0.05, 0.5, 1000)])
@example([Mechanism(1000.0, 1e-5, 100_000)])
@example([Mechanism(3.0), Mechanism(9.0, 0.01, 700)])
@example([Mechanism(1.0, math.exp(-6.0)), Mechanism(1.0, math.exp(-7.0), 5)])  # a multiple that was too coarse
def test_an_interval_is_as_fine_as_promised_within_the_points_that_are_allowed(mechanisms):
    h = interval(mechanisms, FULL)
    widest, total, variance, splits = shape(mechanisms)
    added = splits * h**2 / 6 / variance  # by splitting losses, relative to the variance that is there
    points, all_points = widest / h, total / h
    most = points >= FULL.single * FULL.more * 0.999 or all_points >= 2 * FULL.composed * 0.999
    assert added <= 10.01 * FULL.excess or most
    assert points <= FULL.single * max(KEEP, FULL.more) * 1.001
    assert all_points <= FULL.composed * KEEP * 1.001
    enough = points >= FULL.single / 2.001 or all_points >= FULL.composed / 2.001  # a multiple is twice that at most
    assert added <= 4 * FULL.excess or enough


@settings(max_examples=12)
@given(LISTS)
def test_a_search_takes_no_finer_grid_than_it_needs(mechanisms):
    widest, total, variance, splits = shape(mechanisms)
    for effort in (ROUGH, MEDIUM):
        h = interval(mechanisms, effort)
        assert widest / h <= effort.single * 1.001
        assert total / h <= effort.composed * 1.001
        added = splits * h**2 / 6 / variance
        assert added == pytest.approx(effort.excess, rel=1e-3) or max(
            widest / h / effort.single, total / h / effort.composed
        ) == pytest.approx(1.0, rel=1e-3)
    assert interval(mechanisms, QUICK) == interval(mechanisms, FULL)  # what the check will see


@pytest.mark.parametrize(
    ("m", "parts"),
    [
        (Mechanism(2.0, 1 / 60, 1800), 1),  # cheap and fine enough: dp-accounting's own
        (Mechanism(0.6, 0.3, 10), None),  # a whole multiple
        (Mechanism(2000.0, 0.5, 1000), None),  # a whole part
    ],
)
def test_an_interval_is_the_default_a_multiple_or_a_part(m, parts):
    ratio = interval([m]) / DEFAULT_INTERVAL
    assert parts is None or ratio == parts
    whole = max(ratio, 1 / ratio)
    assert whole == pytest.approx(round(whole), rel=1e-12)
    assert (m.noise_multiplier < 1) == (ratio > 1)
    assert (m.noise_multiplier > 100) == (ratio < 1)
