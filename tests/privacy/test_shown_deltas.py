"""A delta that is shown is never smaller than the true one."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from dpmac.privacy.statement import not_less


@given(st.floats(1e-12, 0.1))
@example(1.00000000004e-5)  # ten digits of it are less
@example(1e-5)
def test_a_printed_delta_is_never_below_the_true_one(delta):
    assert Fraction(float(not_less(delta))) >= Fraction(delta)
    assert float(not_less(delta)) <= delta * (1 + 1e-9)


def test_ten_digits_of_a_delta_that_would_be_less_are_not_shown():
    assert not_less(1e-5) == "1e-05"
    assert not_less(1.00000000004e-5) == "1.00000000004e-05"
