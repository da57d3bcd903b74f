"""Dates: every day of the calendar, every way to write one, and the range that is clipped to."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpmac import ArgumentError, Schema
from dpmac.cells import flat
from dpmac.tables import Date, TableEncoder
from dpmac.tables.coding import Reader
from dpmac.tables.files import guessed_kind, guessed_template
from dpmac.tables.frames import cells

EPOCH = date(2000, 1, 1)
ANY = Date("2015-01-01", "2025-12-31", missing=True)
BOTH = Date("2015-01-01", "2025-12-31", parts=("month", "weekday"))


def days(*dates):
    return [float((one - EPOCH).days) for one in dates]


def codes(column, *given):
    return column.coded("born", flat(list(given))).tolist()


# --- cells to codes ---------------------------------------------------------------------------------------------------


@given(st.dates())
def test_a_code_is_the_days_since_2000_however_the_date_is_held(day):
    time = datetime(day.year, day.month, day.day, 23, 59, 59)
    held = [day, time, time.replace(tzinfo=UTC), np.datetime64(day), np.datetime64(time, "us"), day.isoformat()]
    assert codes(ANY, *held) == days(day) * len(held)
    for unit in ("D", "h", "s", "us"):
        assert ANY.coded("born", np.array([time], dtype=f"datetime64[{unit}]")).tolist() == days(day)


ARROW = [pa.date32(), pa.date64(), *(pa.timestamp(unit, zone) for unit in ("s", "us", "ns") for zone in (None, "UTC"))]


@pytest.mark.parametrize("kind", ARROW, ids=str)
@given(dates=st.lists(st.none() | st.dates(date(1700, 1, 1), date(2200, 12, 31)), min_size=1))
def test_arrow_columns_have_the_codes_of_their_dates(kind, dates):
    array = pa.array(dates, pa.date32()).cast(kind)
    wanted = np.array([math.nan if one is None else days(one)[0] for one in dates])
    for found in (array, array.dictionary_encode(), array.to_pylist()):
        assert np.array_equal(Reader({"a": ANY}).codes("a", found, 0), wanted, equal_nan=True)
    assert np.array_equal(ANY.coded("a", cells(pa.table({"a": array}), ["a"])["a"]), wanted, equal_nan=True)


def test_pandas_columns_are_read_with_their_gaps():
    times = pd.Series(pd.to_datetime(["2020-02-29 23:30", None, "1969-12-31 23:30"]))
    wanted = [*days(date(2020, 2, 29)), math.nan, *days(date(1969, 12, 31))]
    frame = pd.DataFrame({"plain": times, "utc": times.dt.tz_localize("UTC"), "text": times.dt.strftime("%Y-%m-%d")})
    for name in frame:
        assert np.array_equal(ANY.coded(name, cells(frame, [name])[name]), wanted, equal_nan=True)
    assert np.isnan(codes(ANY, pd.NaT, np.datetime64("NaT"), None, "")).all()


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)), st.integers(-23 * 60, 23 * 60))
def test_a_time_zone_changes_how_a_moment_is_written_and_not_its_code(moment, minutes):
    here = moment.replace(tzinfo=UTC).astimezone(timezone(timedelta(minutes=minutes)))
    assert codes(ANY, here) == days(moment.date())
    written = Date("2015-01-01", "2025-12-31", "%Y-%m-%dT%H:%M:%S.%f%z")
    assert codes(written, here.isoformat(timespec="microseconds")) == days(moment.date())


@pytest.mark.parametrize(
    ("form", "cell"),
    [
        ("%d.%m.%Y", "29.2.2024"),
        ("%m/%d/%y", "02/29/24"),
        ("%Y%m%d", 20240229),
        ("%Y%m%d", 20240229.0),
        ("%Y-%j", "2024-060"),
    ],
)
def test_texts_and_numbers_are_read_by_the_format(form, cell):
    column = Date("2015-01-01", "2025-12-31", form)
    assert codes(column, cell) == days(date(2024, 2, 29))
    assert Schema.from_dict(Schema({"a": column}).to_dict()).columns["a"] == column


@pytest.mark.parametrize(
    "wrong", ["2023-02-29", "29.02.2024", "10000-01-01", "0000-01-01", 20240229, 1.5, True, [1], b"x"]
)
def test_what_is_no_date_is_an_error_with_column_row_cell_and_fix(wrong):
    with pytest.raises(
        ArgumentError, match=r"column 'born', row 1=.*dates, as texts written '%Y-%m-%d', such as '2025"
    ):
        codes(ANY, "2024-02-29", wrong)


def test_a_moment_beyond_the_last_year_in_utc_is_an_error():
    late = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5)))
    with pytest.raises(ArgumentError, match="column 'born', row 0"):
        codes(ANY, late)


# --- codes to inputs --------------------------------------------------------------------------------------------------


def test_month_and_weekday_are_right_on_every_day_of_400_years_and_at_the_ends_of_the_calendar():
    span = np.arange(np.datetime64("1799-12-25"), np.datetime64("2200-01-10"))
    ends = [np.arange(start, start + 800) for start in (np.datetime64("0001-01-01"), np.datetime64("9997-10-23"))]
    every = np.concatenate([span, *ends])
    made = BOTH.inputs(torch.from_numpy(BOTH.coded("a", every))[:, None], bins=0).numpy()
    assert (made[:, 1:13].argmax(axis=1) == every.astype("datetime64[M]").astype(int) % 12).all()
    assert (made[:, 13:].argmax(axis=1) == (every.astype(int) + 3) % 7).all()  # 1970-01-01 was a Thursday
    assert (made[:, 1:13].sum(axis=1) == 1).all()
    assert (made[:, 13:].sum(axis=1) == 1).all()


def test_days_are_clipped_to_the_range_and_month_and_weekday_are_the_cells_own():
    given = ["2015-01-01", "2020-07-02", "2025-12-31", "1990-06-05", "2077-02-28"]
    encoder = TableEncoder(Schema({"a": BOTH}), bins=0)
    made, names = encoder.transform({"a": given}), encoder.get_feature_names_out()
    assert made[:, 0] == pytest.approx([-1, 2 * 2009 / 4017 - 1, 1, -1, 1], abs=1e-12)
    hot = [[str(name) for name, value in zip(names[1:], row[1:], strict=True) if value == 1] for row in made]
    assert hot[0] == ["a month=Jan", "a weekday=Thu"]
    assert hot[3:] == [["a month=Jun", "a weekday=Tue"], ["a month=Feb", "a weekday=Sun"]]


def test_parts_are_given_only_if_asked_for_and_in_that_order():
    assert len(ANY.labels("a", 3)) == 1 + 3 + 1
    swapped = Date("2015-01-01", "2025-12-31", parts=["weekday", "month"])
    assert swapped.labels("a", 0)[1::7] == ["a weekday=Mon", "a month=Jan", "a month=Aug"]


# --- what is public of it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"low": "2015-02-30"}, "low='2015-02-30': give a public date as YYYY-MM-DD"),
        ({"low": 2015}, "low=2015"),
        ({"high": None}, "high=None"),
        ({"high": "01.02.2025"}, "high='01.02.2025'"),
        ({"high": "2014-12-31"}, "with low before high"),
        ({"high": "2015-01-01"}, "with low before high"),
        *(
            ({"format": form}, "format of datetime.strptime with the year")
            for form in ("%d.%m", "%Q", "", 3, "%Y %Y", "%")
        ),
        ({"parts": "month"}, r"some of \['month', 'weekday'\]"),
        ({"parts": ["year"]}, r"some of \['month', 'weekday'\]"),
        ({"parts": [["month"]]}, r"some of \['month', 'weekday'\]"),
        ({"parts": ["month", "month"]}, "each part once"),
        ({"missing": 1}, "missing=1"),
    ],
)
def test_wrong_arguments_are_named(change, said):
    with pytest.raises(ArgumentError, match=said):
        Date(**{"low": "2015-01-01", "high": "2025-12-31", **change})


def test_bounds_may_be_dates_and_are_kept_as_texts():
    made = Date(date(2015, 1, 1), np.datetime64("2025-12-31T12:00"), parts=["month"])
    assert made == Date("2015-01-01", "2025-12-31", parts=("month",))
    assert made.to_dict() == {"kind": "date", "low": "2015-01-01", "high": "2025-12-31", "parts": ["month"]}


@pytest.mark.parametrize(
    ("given", "template"),
    [
        (["2024-02-29", "", "1999-01-01"], {}),
        ([date(2024, 2, 29), None, datetime(2024, 1, 1)], {}),
        ([np.datetime64("2024-02-29")], {}),
        (["29.02.2024"], {"format": "%d.%m.%Y"}),
        (["29/02/2024", "01/02/2024"], {"format": "%d/%m/%Y"}),
        (["01/02/2024"], {"format": None}),  # the first of February, or the second of January
        (["2024-02-29T10:00:00Z"], {"format": "%Y-%m-%dT%H:%M:%S%z"}),
    ],
)
def test_a_column_of_dates_is_guessed_with_its_format_and_nothing_else(given, template):
    wanted = {"kind": "date", "low": None, "high": None, "missing": True, **template}
    assert guessed_template(given) == wanted


@pytest.mark.parametrize(
    "given", [["2024-02-29", "2024-02-30"], ["2024-02-29", "x"], [""], [20240229, 20240301], ["May"]]
)
def test_what_is_not_all_dates_is_guessed_to_be_something_else(given):
    assert guessed_kind(given) == "category"


# --- estimated ranges -------------------------------------------------------------------------------------------------


def test_a_range_of_dates_is_estimated_as_a_number_of_days():
    start = date(2015, 3, 1)
    table = {"seen": [str(start + timedelta(days=day % 3650)) for day in range(4000)], "age": [30.0, 40.0] * 2000}
    open_date = Date("0001-01-01", "9999-12-31", parts=["weekday"])
    schema = Schema.estimate(table, epsilon=math.inf, delta=1e-5, estimated={"seen": open_date}, quantile=0.0)
    seen = schema.columns["seen"]
    assert (seen.parts, seen.missing) == (("weekday",), True)
    assert "2013-01-01" < seen.low <= "2015-03-01"  # steps of about a quarter, counted from 2000
    assert "2025-02-26" <= seen.high < "2028-01-01"
    with pytest.raises(ArgumentError, match="column 'seen', row 0='2015-03-01': this column holds numbers"):
        Schema.estimate(table, epsilon=math.inf, delta=1e-5)


def test_only_columns_with_a_range_are_estimated():
    from dpmac.privacy import Ledger
    from dpmac.tables import Category

    book, table = Ledger(), {"a": [1.0, 2.0], "b": [1.0, 2.0]}
    for wrong, said in (({"b": Category(["x"])}, "has no range to be estimated"), ({"c": ANY}, "no such column")):
        with pytest.raises(ArgumentError, match=said):
            Schema.estimate(table, epsilon=1.0, delta=1e-5, estimated=wrong, ledger=book)
    assert len(book) == 0
