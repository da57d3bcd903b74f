"""The quick account: never below what it stands for, close to it, and exact where a theorem says so."""

from __future__ import annotations

import math

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import gaussian_mechanism, pld
from dp_accounting.pld import privacy_loss_distribution as library
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from dpmac.kernels.loss_distributions import (
    DEFAULT_INTERVAL,
    FULL,
    MEDIUM,
    QUICK,
    ROUGH,
    _composed,
    _full_step,
    _log_sum,
    _Step,
    _times,
    composed,
    interval,
    one_gaussian,
)
from dpmac.planning import calibration
from dpmac.privacy import Mechanism, epsilon_of
from dpmac.privacy import accounting as ours

STEP = {
    "sigma": st.floats(0.6, 6.0),
    "q": st.floats(1e-3, 0.9),
    "count": st.integers(1, 400),
    "before": st.lists(st.floats(3.0, 60.0), max_size=3),
}


def slow(mechanisms, delta, width=DEFAULT_INTERVAL):
    """dp-accounting's PLD accountant with every release composed by itself, as it was before anything was quick."""
    accountant = pld.PLDAccountant(value_discretization_interval=width)
    for m in mechanisms:
        event = dpa.GaussianDpEvent(m.noise_multiplier)
        event = dpa.PoissonSampledDpEvent(m.sample_rate, event) if m.sample_rate < 1 else event
        accountant.compose(event, m.count)
    return accountant.get_epsilon(delta)


@settings(max_examples=2, deadline=None, phases=[Phase.generate])
@given(**STEP)
def test_a_multiple_of_the_default_interval_is_never_below_it_and_stays_close(sigma, q, count, before):
    """Provable: the curve on a grid is a chord of that on any grid which contains it."""
    assert_never_below_and_close(sigma, q, count, before)


@pytest.mark.long
@settings(max_examples=10, deadline=None, phases=[Phase.generate])
@given(**STEP)
def test_more_multiples_of_the_default_interval_are_never_below_it(sigma, q, count, before):
    assert_never_below_and_close(sigma, q, count, before)


def assert_never_below_and_close(sigma, q, count, before):
    mechanisms = [Mechanism(sigma, q, count), *map(Mechanism, before)]
    ratio = interval(mechanisms) / DEFAULT_INTERVAL
    merged = [mechanisms[0], *([Mechanism(one_gaussian(mechanisms))] if before else [])]  # which is rounded once only
    quick, reference = epsilon_of(mechanisms, 1e-6), slow(merged, 1e-6)
    if ratio == pytest.approx(max(round(ratio), 1), abs=1e-9):
        assert quick >= reference * (1 - 1e-9) - 1e-12
    else:
        assert quick >= slow(merged, 1e-6, interval(mechanisms)) * (1 - 1e-6)
    assert quick <= reference * 1.005 + 1e-9


@settings(max_examples=4, deadline=None, phases=[Phase.generate])
@given(
    sigmas=st.lists(st.floats(10.0, 80.0), min_size=1, max_size=4),
    counts=st.integers(1, 10),
    delta=st.floats(1e-9, 1e-3),
)
def test_plain_gaussians_are_one(sigmas, counts, delta):
    mechanisms = [Mechanism(s, 1.0, counts) for s in sigmas]
    one = one_gaussian(mechanisms)
    assert one == pytest.approx(1 / math.sqrt(sum(counts / s**2 for s in sigmas)), rel=1e-12)
    kind, asked = ours.trusted(mechanisms, delta)
    exact, epsilon = gaussian_mechanism.get_epsilon_gaussian(one, asked), epsilon_of(mechanisms, delta)
    assert kind == "pld"
    assert exact <= epsilon <= exact * (1 + 1e-9) + 1e-9
    assert epsilon <= slow(mechanisms, asked) + 1e-9  # which rounds up on its grid, once for every s


@pytest.mark.parametrize(("total", "steps"), [(300.0, 1_000_000), (1.0, 1_000_000), (5.0, 123_457)])
def test_a_million_steps_composed_twice_over_miss_nothing_of_a_curve_that_is_known(total, steps):
    """Plain Gaussian steps, composed on the grid as if nobody knew: their exact delta is that of one."""
    sigma = total * math.sqrt(steps)
    step = library.from_gaussian_mechanism(sigma, value_discretization_interval=0.055 / sigma)
    many = _times(step, steps, twice=True)
    for delta in (1e-5, 1e-7):
        epsilon = gaussian_mechanism.get_epsilon_gaussian(total, delta)
        assert delta <= many.get_delta_for_epsilon(epsilon) + 0.1 * ours.ROUNDOFF * steps
        assert epsilon <= many.get_epsilon_for_delta(delta - ours.ROUNDOFF * steps / 2) <= 1.005 * epsilon + 1e-4


def test_composing_twice_over_is_composing():
    m = Mechanism(4.0, 0.01, 20_003)
    h = interval([m])
    step = library.from_gaussian_mechanism(4.0, value_discretization_interval=h, sampling_prob=0.01)
    at_once, twice = step.self_compose(m.count), _times(step, m.count, twice=True)
    for epsilon in (0.5, 1.0, 2.0):
        a, b = at_once.get_delta_for_epsilon(epsilon), twice.get_delta_for_epsilon(epsilon)
        assert abs(a - b) < 0.01 * ours.ROUNDOFF * m.count  # of what is set aside for rounding, a hundredth
        assert a > 100 * abs(a - b)


@pytest.mark.parametrize(
    "m", [Mechanism(1.0, 1 / 60, 100), Mechanism(0.3, 1e-4, 20), Mechanism(0.1, 0.9), Mechanism(50.0, 0.2, 9)]
)
def test_the_search_looks_at_what_the_check_will_see(m):
    full, quick = (composed([m], effort).get_epsilon_for_delta(1e-6) for effort in (FULL, QUICK))
    assert quick == pytest.approx(full, rel=1e-6)


def test_no_figure_rests_on_the_search(monkeypatch):
    """A search that lies, either way, costs time and nothing else: the answer is the accountant's."""
    true = calibration._trial
    honest = calibration.calibrate(lambda s: [Mechanism(s, 0.1, 50)], 1.0, 1e-6)
    for lie in (0.3, 3.0):
        monkeypatch.setattr(calibration, "_trial", lambda *args, lie=lie: lie * true(*args))
        found = calibration.calibrate(lambda s: [Mechanism(s, 0.1, 50)], 1.0, 1e-6)
        assert found == pytest.approx(honest, rel=4e-4)
        assert slow([Mechanism(found, 0.1, 50)], 1e-6) <= 1.0


def test_a_step_that_was_kept_is_composed_as_a_fresh_one():
    """A step is made once for many counts; composing it must leave it as it was."""

    def found(count):
        _composed.cache_clear()
        return [composed([Mechanism(1.2348, 0.1, count)]).get_epsilon_for_delta(delta) for delta in (1e-4, 1e-7)]

    kept = [found(count) for count in (3, 50, 3)]
    for count, answer in zip((3, 50, 3), kept, strict=True):
        _full_step.cache_clear()
        assert found(count) == answer


def test_only_a_search_takes_quick_steps(monkeypatch):
    """A figure that is reported takes the library's own; :data:`FULL` is what figures are made with."""
    monkeypatch.setattr("dpmac.kernels.loss_distributions._quick_step", None)
    assert 0 < epsilon_of([Mechanism(1.2345, 0.1, 50)], 1e-6) < math.inf
    assert 0 < composed([Mechanism(1.2346, 0.1, 50)]).get_epsilon_for_delta(1e-6) < math.inf
    for effort in (QUICK, MEDIUM, ROUGH):
        with pytest.raises(TypeError, match="NoneType"):
            composed([Mechanism(1.2347, 0.1, 50)], effort)


def test_an_rdp_of_nothing_is_not_an_epsilon_of_nothing():
    """dp-accounting takes a moment that rounding made negative, or too small to see, for an epsilon of 0."""
    m = Mechanism(3e5, 1e-4, 100_000)
    fresh = dpa.rdp.RdpAccountant()
    fresh.compose(dpa.PoissonSampledDpEvent(1e-4, dpa.GaussianDpEvent(3e5)), 100_000)
    assert fresh.get_epsilon(1e-8) == 0
    gaussian = 1e-4 * math.sqrt(100_000) / 3e5  # in the limit of many steps: one Gaussian release of this signal
    assert 0 < gaussian_mechanism.get_epsilon_gaussian(1 / gaussian, 1e-8) <= epsilon_of([m], 1e-8)


def test_sums_of_densities_that_are_far_apart_do_not_overflow():
    """At little noise an outcome may be e^-1800 times as likely as another."""
    for logs in (np.array([-2000.0, 0.0, 5.0, 5.0]), np.array([3.0, 900.0]), np.array([-7.0])):
        assert _log_sum(logs) == pytest.approx(logsumexp(logs), rel=1e-12)
    step = _Step.of(0.02, 0.5)
    assert 0 < step.variance < step.width**2
