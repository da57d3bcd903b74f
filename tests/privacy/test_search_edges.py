"""How a search measures its line, when it is close enough, and how few questions it takes from close by."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmac.planning.search import CEILING, FLOOR, Range, UnreachableError, _Place, least

WITHIN, TOLERANCE = Range(0.02, 1e7), 1e-4


def searched(cost, start, slope, *, sure=False):
    """The answer for a target of 1, and how many questions it took."""
    asked = []

    def asking(s):
        asked.append(s)
        return cost(s)

    found, _ = least(asking, 1.0, start, slope, TOLERANCE, WITHIN, sure=sure)
    return found, len(asked)


# --- the search -------------------------------------------------------------------------------------------------------


def test_a_cost_that_equals_the_target_meets_it():
    found, _ = searched(lambda s: 1.0 if s >= 2.0 else 5.0, 1.0, -1.0)
    assert 2.0 <= found <= 2.0 * (1 + 1.1 * TOLERANCE)
    with pytest.raises(UnreachableError) as end:
        searched(lambda _: 1.0, 1.0, -1.0)
    assert not end.value.above


@given(root=st.floats(0.1, 1e4), power=st.floats(0.5, 4.0), off=st.floats(1e-3, 0.75))
def test_a_start_within_the_tolerance_of_a_line_that_is_known_is_the_answer(root, power, off):
    start = root * math.exp(off * TOLERANCE)
    found, questions = searched(lambda s: (root / s) ** power, start, -power, sure=True)
    assert (found, questions) == (pytest.approx(start, rel=1e-12), 1)


@given(root=st.floats(0.1, 1e4), power=st.floats(0.5, 4.0), off=st.floats(1.01, 1.5))
def test_a_start_just_beyond_the_tolerance_is_not(root, power, off):
    start = root * math.exp(off * TOLERANCE)
    found, questions = searched(lambda s: (root / s) ** power, start, -power, sure=True)
    assert root * (1 - 1e-12) <= found <= root * (1 + TOLERANCE)
    assert questions == 2


@given(root=st.floats(0.1, 1e4), power=st.floats(0.5, 4.0), wrong=st.floats(0.5, 2.0), off=st.floats(-0.7, 0.7))
def test_a_wrong_slope_is_measured_and_corrected_from_close_by(root, power, wrong, off):
    """Two places on a line give its slope, and the third is the answer; two more if the target lies between them."""
    _, questions = searched(lambda s: (root / s) ** power, root * math.exp(off), -wrong * power)
    assert questions <= 5


# --- its places -------------------------------------------------------------------------------------------------------


@given(u=st.floats(-3, 10), step=st.floats(1e-3, 1.5), y=st.floats(-1, 3), slope=st.floats(-3.0, -0.1))
def test_a_slope_is_that_of_the_line_through_both_places(u, step, y, slope):
    here, there = _Place(u, y), _Place(u + step, y + slope * step)
    assert here.slope_to(there) == pytest.approx(slope, rel=1e-6)
    assert there.slope_to(here) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("cost", [FLOOR, CEILING])
def test_a_cost_that_was_cut_says_nothing_of_the_slope(cost):
    end, other = _Place(0.0, math.log(cost)), _Place(1.0 if cost == CEILING else -1.0, 1.0)
    assert end.cut
    assert not other.cut
    assert end.slope_to(other) is None
    assert other.slope_to(end) is None


@pytest.mark.parametrize("rise", [0.0, 0.005, 1.0])
def test_a_line_that_does_not_fall_says_nothing(rise):
    assert _Place(2.0, 0.5).slope_to(_Place(3.0, 0.5 + rise)) is None


def test_one_place_alone_has_no_slope():
    assert _Place(2.0, 0.5).slope_to(_Place(2.0, 0.5)) is None
    assert _Place(2.0, 0.5).slope_to(None) is None
