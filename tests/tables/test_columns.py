"""Columns: what may be said of one, and how each cell is read."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmac.checks import ArgumentError
from dpmac.tables import Category, Number


def cells(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def coded(column, *values):
    return column.coded("c", cells(*values)).tolist()


@pytest.mark.parametrize(
    ("low", "high"), [(1, 1), (2, 1), (math.nan, 1), (0, math.inf), ("0", 1), (True, 2), (0, None)]
)
def test_a_range_must_be_public_and_finite(low, high):
    with pytest.raises(ArgumentError, match="give public, finite bounds with low < high"):
        Number(low, high)


@pytest.mark.parametrize("values", ["FM", [], None, {"F", "M"}, 3])
def test_values_must_be_a_list_with_an_order(values):
    with pytest.raises(ArgumentError, match="give a list of the category's public values"):
        Category(values)


def test_values_are_there_and_each_once():
    with pytest.raises(ArgumentError, match=r"values=\['1'\]: give each value once"):
        Category(["0", 1, 1.0])
    for nothing in ("", None, math.nan, " "):
        with pytest.raises(ArgumentError, match="leave it out and set missing"):
            Category(["a", nothing])


@pytest.mark.parametrize("make", [lambda: Number(0, 1, missing=1), lambda: Category(["a"], missing="yes")])
def test_missing_is_true_or_false(make):
    with pytest.raises(ArgumentError, match=r"missing=.*: give true or false"):
        make()


def test_values_are_kept_as_text():
    assert Category([0, 1.0, "x", True]).values == ("0", "1", "x", "True")
    assert Category(np.array([3, 4])) == Category(range(3, 5)) == Category(("3", "4"))
    assert hash(Category([0, 1])) == hash(Category(["0", "1"]))


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_a_number_is_read_from_whatever_holds_one():
    column = Number(0, 1)
    read = coded(column, 1, 2.5, "3", " 4e-1 ", True, Decimal("0.5"), np.float32(0.25), np.int8(-7), np.bool_(False))
    assert read == [1, 2.5, 3, 0.4, 1, 0.5, 0.25, -7, 0]
    assert column.coded("c", np.array([1, 200], dtype=np.uint8)).tolist() == [1, 200]
    assert column.coded("c", np.array(["1.5", "2"])).tolist() == [1.5, 2]


def test_what_is_not_clipped_here_stays_as_it_is():
    assert coded(Number(0, 1), -1e300, 7) == [-1e300, 7]


NOTHING = [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, "", "  ", np.ma.masked]


@pytest.mark.parametrize("nothing", NOTHING, ids=repr)
def test_a_missing_cell_is_nan_where_it_may_be_and_an_error_elsewhere(nothing):
    for may, may_not in ((Number(0, 9, True), Number(0, 9)), (Category(["1"], True), Category(["1"]))):
        read = may.coded("c", cells("1", nothing))
        assert np.isnan(read).tolist() == [False, True]
        with pytest.raises(ArgumentError, match=r"column 'c', row 1=None: the cell is missing.*missing=True"):
            may_not.coded("c", cells("1", nothing))


@pytest.mark.parametrize(
    "wrong",
    ["old", "?", "1,5", b"1", 1j, [1], datetime.date(2020, 1, 1), np.datetime64("2020-01-01"), 10**400],
    ids=repr,
)
def test_what_is_no_number_is_an_error_with_column_row_value_and_fix(wrong):
    with pytest.raises(ArgumentError, match=r"column 'c', row 2=.*holds numbers.*declare a category") as caught:
        Number(0, 1).coded("c", cells(1, 2, wrong))
    assert caught.value.value == (wrong if wrong != [1] else "a list")


def test_arrays_of_times_and_complex_numbers_are_no_numbers():
    for array in (np.array(["2020-01-01"], dtype="datetime64[ns]"), np.array([1 + 2j])):
        with pytest.raises(ArgumentError, match="column 'c', row 0="):
            Number(0, 1).coded("c", array)


@pytest.mark.parametrize("endless", [math.inf, -math.inf, "inf", "1e999"])
def test_an_infinite_number_is_an_error(endless):
    with pytest.raises(ArgumentError, match=r"column 'c', row 1=.*: give a finite number"):
        Number(0, 1, missing=True).coded("c", cells(1.0, endless))
    with pytest.raises(ArgumentError, match="row 0=inf"):
        Number(0, 1).coded("c", np.array([math.inf]))


@given(st.lists(st.none() | st.floats(allow_infinity=False) | st.integers(-(10**300), 10**300)))
def test_numbers_come_back_as_they_were_also_from_text(values):
    expected = [math.nan if value is None else float(value) for value in values]
    column = Number(0, 1, missing=True)
    for form in (values, [None if value is None else str(value) for value in values], expected):
        assert np.array_equal(coded(column, *form), expected, equal_nan=True)
    assert np.array_equal(column.coded("c", np.array(expected)), expected, equal_nan=True)


# --- categories -------------------------------------------------------------------------------------------------------


def test_a_category_is_its_place_among_the_values_and_strangers_come_last():
    column = Category(["F", "M"], missing=True)
    assert coded(column, "M", "F", " M ", "X", 0, "f") == [1, 0, 1, 2, 2, 2]
    assert column.other == 2
    assert column.coded("c", np.array([b"M", b"F"])).tolist() == [1, 0]


@pytest.mark.parametrize("listed", [["0", "1"], [0, 1], [0.0, 1.0], ["0.0", "1.0"]])
def test_one_is_one_however_it_is_written(listed):
    column = Category(listed)
    assert coded(column, 1, 1.0, "1", "1.0", " 1", np.int64(1), np.float32(1), True, np.bool_(False)) == [1] * 8 + [0]
    for array in ([1, 0], [1.0, 0.0], [True, False], ["1", "0"]):
        assert column.coded("c", np.array(array)).tolist() == [1, 0]
    assert coded(column, 1.5, "2", -1) == [2, 2, 2]


def test_a_bool_is_its_name_where_that_is_listed():
    assert coded(Category([True, False]), True, False, "True", np.bool_(True)) == [0, 1, 0, 0]
    assert coded(Category(["true", "false"]), True, False) == [0, 1]
    assert coded(Category(["1", "True"]), True, 1, 1.0) == [1, 0, 0]  # equal keys of a dict, and yet not the same


def test_exact_text_goes_before_the_same_number_otherwise_written():
    assert coded(Category(["1", "1.0"]), "1", "1.0", 1.0, "1.00") == [0, 1, 0, 0]


def test_fractions_and_words_of_nothing_are_values_like_others():
    assert coded(Category(["0.5", "none", "nan"]), 0.5, "none", "nan", np.float32(0.5)) == [0, 1, 2, 0]
    assert Category(["0.1"]).coded("c", np.array([0.1, 0.2], dtype=np.float32)).tolist() == [0, 1]


def test_a_pandas_column_of_ints_with_a_gap_still_matches():
    column = Category([1, 2], missing=True)
    for series in (pd.Series([1, None, 2]), pd.Series([1, None, 2], dtype="Int64"), pd.Series(["1", None, "2"])):
        assert np.array_equal(column.coded("c", series.to_numpy()), [0, math.nan, 1], equal_nan=True)


WORDS = st.text(min_size=1).filter(lambda text: not text.isspace())


@given(st.lists(WORDS, min_size=1, unique=True), st.data())
def test_every_listed_value_is_found_at_its_own_place(values, data):
    drawn = data.draw(st.lists(st.sampled_from(values)))
    assert coded(Category(values), *drawn) == [values.index(value) for value in drawn]


@given(st.lists(st.integers(-50, 50) | st.booleans() | st.floats() | st.sampled_from(["1", "a", "", None])))
def test_each_cell_is_read_by_itself(values):
    """Alone, in company, or backwards: the code of a cell is the same."""
    column = Category(["0", "1", "True", "a", "2.5"], missing=True)
    together = coded(column, *values)
    alone = [code for value in values for code in coded(column, value)]
    backwards = coded(column, *values[::-1])[::-1]
    assert np.array_equal(together, alone, equal_nan=True)
    assert np.array_equal(together, backwards, equal_nan=True)
