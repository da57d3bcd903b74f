"""Charts: points where they belong, round numbers, nothing unescaped."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmac.report.charts import Axis, Line, dots, line_chart, percent, round_numbers, short, spread

UGLY = "<script>&\"'"


def test_points_are_where_the_axes_say():
    line = Line("a", [(0, 0), (5, 1), (10, 2)])
    chart = line_chart("t", [line], Axis("x", 0, 10), Axis("", 0, 2))
    points = [
        tuple(map(float, pair.split())) for pair in re.search(r'class="line[^>]* d="M([^"]+)"', chart)[1].split("L")
    ]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x0 < x1 < x2
    assert y0 > y1 > y2  # downwards is less
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)


def test_a_chart_is_well_formed_whatever_its_labels_are():
    chart = line_chart(
        UGLY, [Line(UGLY, [(0, 0), (1, 1)], dots=True)], Axis(UGLY, 0, 1), Axis(UGLY, 0, 1), legend=False
    )
    texts = [node.text for node in ElementTree.fromstring(chart).iter("text")]
    assert texts.count(UGLY) == 2
    assert "<script>" not in dots([(UGLY, [0.5])], Axis("", 0, 1))


def test_what_is_not_finite_is_left_out_and_a_lone_point_is_a_dot():
    chart = line_chart("t", [Line("a", [(0, float("nan")), (1, 1)])], Axis("", 0, 1), Axis("", 0, 1))
    assert chart.count("<circle") == 1
    assert "nan" not in chart


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 9))
def test_round_numbers_lie_within_and_are_neither_few_nor_many(low, width, wanted):
    high = low + width
    if not high > low + 1e-9 * abs(low):
        return
    found = round_numbers(low, high, wanted)
    assert all(low - 1e-6 * width <= value <= high + 1e-6 * width for value in found)
    assert 1 <= len(found) <= wanted + 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
def test_a_spread_holds_its_values(values):
    low, high = spread(values)
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    assert low < high
    assert all(low - slack <= value <= high + slack for value in values)


def test_numbers_read_well():
    assert [short(v) for v in (0, 0.5, 12.345, 1234.5, 2e9, 1e-7)] == ["0", "0.5", "12.3", "1,234", "2e9", "1e-7"]
    assert [percent(v) for v in (0, 0.5, 1, 0.99996, 1e-6)] == ["0 %", "50 %", "100 %", "over 99.9 %", "1e-4 %"]
