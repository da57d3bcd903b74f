"""Batches of cells as codes: what the column's own reader makes of each cell, whatever arrow has them in."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmac.cells import flat
from dpmac.checks import ArgumentError
from dpmac.tables import Category, Number
from dpmac.tables.coding import Reader, distinct, unreadable

WORDS = ["F", " M", "M ", "1", "1.0", "01", "", " ", "True", "nan", "x"]
VALUES = Category(["F", "M", 1, "True", "0"], missing=True)
TYPES = {
    pa.string(): st.sampled_from(WORDS),
    pa.large_string(): st.sampled_from(WORDS),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(WORDS),
    pa.int8(): st.integers(-3, 3),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, 1.0]),
    pa.bool_(): st.booleans(),
    pa.decimal128(5, 2): st.sampled_from([Decimal("1.00"), Decimal("0.50")]),
    pa.date32(): st.dates(datetime.date(2000, 1, 1), datetime.date(2000, 1, 3)),
    pa.binary(): st.sampled_from([b"F", b"1"]),
    pa.list_(pa.int8()): st.lists(st.integers(0, 1), max_size=2),
    pa.null(): st.none(),
}


@st.composite
def arrays(draw):
    kind = draw(st.sampled_from(list(TYPES)))
    return pa.array(draw(st.lists(st.none() | TYPES[kind], min_size=1, max_size=30)), kind)


def outcome(work):
    try:
        return work()
    except ArgumentError as error:
        return error.name, repr(error.value)


@given(cells=arrays(), column=st.sampled_from([VALUES, Number(-1, 1, missing=True)]), skipped=st.integers(0, 2))
def test_codes_are_those_of_every_cell_by_itself(cells, column, skipped):
    cells = cells.slice(min(skipped, len(cells) - 1))
    mine = outcome(lambda: Reader({"a": column}).codes("a", cells, 0))
    theirs = outcome(lambda: column.coded("a", flat(cells.to_pylist())))
    if isinstance(theirs, tuple):
        assert mine == theirs
    else:
        assert mine.dtype == np.float64
        assert np.array_equal(mine.view(np.int64)[~np.isnan(mine)], theirs.view(np.int64)[~np.isnan(theirs)])
        assert np.array_equal(np.isnan(mine), np.isnan(theirs))


@given(cells=arrays())
def test_distinct_values_and_their_places_are_the_cells(cells):
    values, places = distinct(cells)
    assert values[-1] is None
    assert list(map(repr, (values[place] for place in places))) == list(map(repr, cells.to_pylist()))


@pytest.mark.parametrize(
    ("cells", "column", "said"),
    [
        (pa.array([1.0, math.inf]), Number(0, 1), "row 71"),
        (pa.array([None, 1.0]), Number(0, 1), "row 70"),
        (pa.array(["1", "x"]), Number(0, 1), "row 71"),
        (["1", "x"], Number(0, 1), "row 71"),
        (pa.array(["F", None]), Category(["F"]), "row 71"),
        (pa.array(["F", " "]).dictionary_encode(), Category(["F"]), "row 71"),
    ],
)
def test_an_error_names_the_row_of_the_table(cells, column, said):
    with pytest.raises(ArgumentError, match=f"column 'a', {said}"):
        Reader({"a": column}).read({"a": cells}, 70)
    wrong = unreadable(Reader({"a": column}), [{"a": ["0.5"] * 70}, {"a": cells}])
    assert said in str(wrong[0]) or isinstance(column, Category)


def test_a_value_of_the_dictionary_that_no_row_has_is_no_error():
    cells = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["0.5", "no number"]))
    assert Reader({"a": Number(0, 1)}).codes("a", cells, 0).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_text_that_is_no_text_is_an_error_of_ours(dictionary):
    """Found by fuzzing: one bit of a Parquet file, and pyarrow hands out bytes that cannot be decoded."""
    offsets = pa.array([0, 1, 3], pa.int32()).buffers()[1]
    cells = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"a\xb1b"))
    cells = cells.dictionary_encode() if dictionary else cells
    for work in (lambda: distinct(cells), lambda: Reader({"a": VALUES}).codes("a", cells, 0)):
        with pytest.raises(ArgumentError, match=r"not UTF-8.: the file is damaged"):
            work()


def test_targets_are_counted_from_the_tables_first_row_too():
    def targets(_):
        raise ArgumentError("y, row 3", None, "mend it")

    with pytest.raises(ArgumentError, match="y, row 13"):
        Reader({"a": Number(0, 1)}, "y", targets).read({"a": pa.array([0.5]), "y": pa.array([1])}, 10)
