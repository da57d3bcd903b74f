"""Accounts of many different mechanisms, of nearly equal ones, and at tiny deltas: no epsilon is too small.

dp-accounting, called directly with every mechanism composed by itself, is the oracle; and where all rows were used,
the exact curve of one Gaussian release, in sixty digits.
"""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting as dpa
import mpmath
import pytest
from dp_accounting import gaussian_mechanism, pld, rdp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpmac.kernels.loss_distributions import gaussian_epsilon, interval, one_gaussian
from dpmac.kernels.moments import event_of, merged
from dpmac.planning.calibration import calibrate
from dpmac.privacy import Mechanism, epsilon_of
from dpmac.privacy.accounting import ROUNDOFF, trusted

DIFFERENT = [Mechanism(20.0 + 2 * i, 0.2 + 0.01 * i, 1 + i % 3, f"step {i}") for i in range(7)]
NEARLY_EQUAL = [Mechanism(40.0 + 1e-6 * i, 0.5, 3) for i in range(7)]
NEAR_RATES = [Mechanism(40.0, 0.5 + 1e-7 * i, 2) for i in range(7)]
SELDOM = [Mechanism(1.0 + 1e-6 * (i % 2) + 0.01 * i, 0.001 + 1e-8 * i, 2 + i % 3) for i in range(7)]


def theirs(accountant, mechanisms):
    """dp-accounting's ``accountant`` after every mechanism by itself, without any of our code."""
    for m in mechanisms:
        event = dpa.GaussianDpEvent(m.noise_multiplier)
        accountant.compose(dpa.PoissonSampledDpEvent(m.sample_rate, event) if m.sample_rate < 1 else event, m.count)
    return accountant


@pytest.mark.parametrize("mechanisms", [DIFFERENT, NEARLY_EQUAL, NEAR_RATES], ids=["different", "nearly", "rates"])
def test_every_one_of_many_sampled_mechanisms_is_in_the_figure_at_every_delta(mechanisms):
    """Eight digits: one release fewer, a multiplier off by a millionth or a delta off by a thousandth would show."""
    reference = theirs(pld.PLDAccountant(value_discretization_interval=interval(mechanisms)), mechanisms)
    spare = ROUNDOFF * (1 + sum(m.count for m in mechanisms))
    for delta in (1e-3, 1e-6, 1e-7, 1e-9, 2e-11):
        assert trusted(mechanisms, delta)[0] == "pld"
        ours = epsilon_of(mechanisms, delta)
        assert reference.get_epsilon(delta) <= ours
        assert ours == pytest.approx(reference.get_epsilon(delta - spare), rel=3e-9)


def test_every_one_of_many_is_in_the_moments():
    reference = theirs(rdp.RdpAccountant(), SELDOM)
    for delta in (1e-5, 1e-12):
        assert epsilon_of(SELDOM, delta, "rdp") == pytest.approx(reference.get_epsilon(delta), rel=1e-12)
    assert trusted(SELDOM, 1e-12) == ("rdp", 1e-12)
    assert epsilon_of(SELDOM, 1e-12) == epsilon_of(SELDOM, 1e-12, "rdp")


def test_only_equal_mechanisms_are_counted_together():
    """However near they are: a multiplier, a rate, an overflow or a label that differs in the last digit is another."""
    one = Mechanism(1.0, 0.5, 1, "a", 2.0**-40)
    others = [
        Mechanism(math.nextafter(1.0, 2.0), 0.5, 1, "a", 2.0**-40),
        Mechanism(1.0, math.nextafter(0.5, 1.0), 1, "a", 2.0**-40),
        Mechanism(1.0, 0.5, 1, "b", 2.0**-40),
        Mechanism(1.0, 0.5, 1, "a", math.nextafter(2.0**-40, 1.0)),
    ]
    assert merged([one, *others, one]) == (Mechanism(1.0, 0.5, 2, "a", 2.0**-40), *others)


def test_events_are_dp_accountings_own():
    gaussian, sampled = dpa.GaussianDpEvent, dpa.PoissonSampledDpEvent
    mechanisms = [Mechanism(2.0), Mechanism(3.0, 0.1, 4), Mechanism(3.0, 0.1, 0), Mechanism(0.0, 0.1, 2)]
    assert event_of([*mechanisms, Mechanism(2.0), Mechanism(5.0, count=0)]) == dpa.ComposedDpEvent(
        [
            dpa.SelfComposedDpEvent(gaussian(2.0), 2),
            dpa.SelfComposedDpEvent(sampled(0.1, gaussian(3.0)), 4),
            dpa.SelfComposedDpEvent(dpa.NonPrivateDpEvent(), 2),
        ]
    )


# --- all rows: the exact curve --------------------------------------------------------------------------------------


def exact_delta(signal, epsilon):
    """Of Gaussian releases on all rows, the sum of whose 1 / s^2 is ``signal``: a Fraction, and sixty digits."""
    with mpmath.workdps(60):
        root = mpmath.sqrt(mpmath.mpf(signal.numerator) / signal.denominator)
        e = mpmath.mpf(epsilon)
        return mpmath.ncdf(root / 2 - e / root) - mpmath.exp(e) * mpmath.ncdf(-root / 2 - e / root)


@st.composite
def plain_lists(draw):
    """Up to forty multipliers; some of them within a billionth of each other."""
    far = draw(st.lists(st.floats(0.02, 1e4), min_size=1, max_size=20))
    near = [far[0] * (1 + 1e-9 * k) for k in draw(st.lists(st.integers(1, 5), max_size=20))]
    return [Mechanism(s, 1.0, draw(st.integers(1, 3))) for s in (*far, *near)]


@settings(max_examples=25)
@given(plain_lists(), st.floats(-12, -2).map(lambda x: max(10.0**x, 1e-12)))
@example([Mechanism(0.02 + 0.001 * i) for i in range(30)], 1e-12)  # an epsilon of thousands
@example([Mechanism(1e4 + i) for i in range(30)], 1e-12)
@example([Mechanism(1.145143708628643)], 0.002836004760653847)  # dp-accounting's search ends below the root
@example([Mechanism(332572.193821946)], 2.126525912158863e-08)
@example([Mechanism(0.06994171560918148)], 1.920767351884367e-12)
def test_an_epsilon_of_many_plain_releases_holds_exactly(mechanisms, delta):
    signal = sum(m.count / Fraction(m.noise_multiplier) ** 2 for m in mechanisms)
    assert exact_delta(signal, epsilon_of(mechanisms, delta)) <= delta
    assert exact_delta(signal, epsilon_of(mechanisms, delta, "rdp")) <= delta
    kind, asked = trusted(mechanisms, delta)
    if kind == "pld" and epsilon_of(mechanisms, delta) > 0:  # and nothing is wasted
        assert exact_delta(signal, epsilon_of(mechanisms, delta) * (1 - 1e-11) - 1e-11) >= asked * (1 - 1e-9)


@given(plain_lists())
def test_the_one_gaussian_never_has_more_noise_than_all_together(mechanisms):
    signal = sum(m.count / Fraction(m.noise_multiplier) ** 2 for m in mechanisms)
    one = Fraction(one_gaussian(mechanisms))
    assert signal <= 1 / one**2 <= signal * (1 + Fraction(1, 10**14))
    assert one_gaussian([Mechanism(0.3), Mechanism(2.0, 0.5, 7), Mechanism(9.0, count=0)]) == 0.3  # one, as it is
    assert one_gaussian([Mechanism(2.0, 0.5, 7)]) == math.inf


@pytest.mark.parametrize(
    ("sigma", "delta"),
    [
        (74812.0526432662, 3.553777696435907e-10),
        (1.145143708628643, 0.002836004760653847),
        (0.8900093602930426, 1.664047641084171e-08),
        (0.06994171560918148, 1.920767351884367e-12),
    ],
)
def test_what_the_librarys_search_is_short_of_is_added_to_a_small_epsilon_and_to_a_large_one(sigma, delta):
    """Nothing is set aside here that could hide it: its own answer is below the root for all of these."""
    signal = 1 / Fraction(sigma) ** 2
    short = gaussian_mechanism.get_epsilon_gaussian(sigma, delta)
    assert exact_delta(signal, short) > delta
    assert exact_delta(signal, gaussian_epsilon(sigma, delta)) <= delta
    assert gaussian_epsilon(sigma, delta) <= short * (1 + 1e-11) + 1e-11  # and hardly more


def test_noise_beyond_any_delta_costs_nothing():
    assert gaussian_epsilon(1e6, 1e-5) == 0.0 == epsilon_of([Mechanism(1e6, count=3)], 1e-5)
    assert epsilon_of([], 1e-5, "rdp") == 0.0


# --- calibration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-3, 1e-7, 1e-9, 1e-12])
@pytest.mark.parametrize("epsilon", [0.1, 0.73, 3.0, 41.0, 900.0])
def test_a_calibration_among_many_others_never_has_too_little_noise(epsilon, delta):
    """By the exact curve, with no tolerance at all; and two parts in ten thousand more noise than needed at most."""
    scale = 10 * gaussian_mechanism.get_sigma_gaussian(epsilon, delta)
    others = [Mechanism(scale * (1 + 1e-6 * i), count=2) for i in range(7)]

    def make(s):
        return [*others, Mechanism(s, count=5)]

    found = calibrate(make, epsilon, delta)
    signal = sum(m.count / Fraction(m.noise_multiplier) ** 2 for m in make(found))
    assert exact_delta(signal, epsilon) <= delta
    assert epsilon_of(make(found), delta) <= epsilon < epsilon_of(make(found * (1 - 2e-4)), delta)
