"""Columns by name from every kind of table, with cells as they were."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.tables.frames import cells, names_of

COLUMNS = {"age": [31, None, 50], "sex": ["F", "M", ""], "id": [1, 2, 3]}
ROWS = [[31, "F"], [None, "M"], [50, ""]]


class Column:
    """A polars Series or an arrow column, as far as we ask."""

    def __init__(self, values):
        self.values = values

    def to_list(self):
        return list(self.values)

    to_pylist = to_list


class Polars:
    columns = tuple(COLUMNS)

    def __getitem__(self, name):
        return Column(COLUMNS[name])


class Arrow:
    column_names = tuple(COLUMNS)
    columns = "pyarrow has these too, without names"

    def column(self, name):
        return Column(COLUMNS[name])


TABLES = {
    "mapping": COLUMNS,
    "mapping of arrays": {name: np.array(values, dtype=object) for name, values in COLUMNS.items()},
    "mapping of series": {name: pd.Series(values, dtype=object) for name, values in COLUMNS.items()},
    "pandas": pd.DataFrame(COLUMNS, dtype=object),
    "polars": Polars(),
    "pyarrow": Arrow(),
    "records": np.array([(31, "F", 1), (None, "M", 2), (50, "", 3)], dtype=[("age", "O"), ("sex", "O"), ("id", "i8")]),
    "rows": ROWS,
    "tuples": tuple(map(tuple, ROWS)),
    "array": np.array(ROWS, dtype=object),
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_same_cells_from_every_kind_of_table(kind):
    found = cells(TABLES[kind], ["age", "sex"])
    assert list(found) == ["age", "sex"]
    assert [type(cell) for cell in found["age"].tolist()] == [int, type(None), int]
    assert found["age"].tolist() == [31, None, 50]
    assert found["sex"].tolist() == ["F", "M", ""]


@pytest.mark.parametrize("kind", ["mapping", "pandas", "polars", "pyarrow", "records"])
def test_named_columns_are_found_by_name_and_not_by_place(kind):
    assert names_of(TABLES[kind]) == ["age", "sex", "id"]
    assert cells(TABLES[kind], ["sex", "age"])["age"].tolist() == [31, None, 50]
    with pytest.raises(ArgumentError, match=r"column='sx': the table has no such column.*did you mean 'sex'\?"):
        cells(TABLES[kind], ["age", "sx"])


def test_a_near_name_in_other_letters_is_offered():
    with pytest.raises(ArgumentError, match=r"did you mean 'Sex'\?"):
        cells({"Sex": [1]}, ["sex"])
    with pytest.raises(ArgumentError, match=r"no such column, but zebra$"):
        cells({"zebra": [1]}, ["sex"])


def test_pandas_dtypes_are_kept_and_gaps_stay_gaps():
    frame = pd.DataFrame({"i": [1, 2], "f": [0.5, np.nan], "b": [True, False]})
    frame["n"] = pd.array([1, None], dtype="Int64")
    frame["s"] = pd.array(["a", None], dtype="string")
    frame["c"] = pd.Categorical(["a", None])
    found = cells(frame, list(frame.columns))
    assert [found[name].dtype.kind for name in "ifb"] == ["i", "f", "b"]
    for name in "nsc":
        assert pd.isna(found[name]).tolist() == [False, True]


def test_numbers_beside_texts_in_lists_stay_numbers():
    assert cells({"a": [1, "x", 2.5]}, ["a"])["a"].tolist() == [1, "x", 2.5]
    assert cells([[1, "x"], [2, "y"]], ["a", "b"])["a"].tolist() == [1, 2]


def test_masked_cells_are_missing():
    masked = np.ma.MaskedArray([1.0, 999.0], mask=[False, True])
    assert cells({"a": masked}, ["a"])["a"].tolist() == [1.0, None]
    assert cells(np.ma.MaskedArray([[1], [2]], mask=[[True], [False]]), ["a"])["a"].tolist() == [None, 2]


def test_arrays_and_tensors_of_numbers():
    for table in (np.array([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])):
        assert cells(table, ["a", "b"])["b"].tolist() == [2.0, 4.0]
    assert len(cells(np.zeros((0, 2)), ["a", "b"])["a"]) == 0
    assert len(cells([], ["a", "b"])["b"]) == 0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.zeros((2, 3)), "table='3 columns': give 2 columns in the schema's order: a, b"),
        (np.zeros(3), r"table='shape \(3,\)': give a pandas, polars or pyarrow table"),
        ([[1, 2], [1]], "row 1='1 cells': give 2 columns"),
        ([1, 2], "row 0='a int': give a pandas"),
        (["ab", "cd"], "row 0='a str': give a pandas"),
        ([{"a": 1, "b": 2}], "row 0=.*give a pandas"),
        ("table.csv", "table='str': give a pandas"),
        (None, "table='NoneType': give a pandas"),
        (pd.Series([1, 2], name="a"), "table='Series': give a pandas"),
        ({"a": [1, 2], "b": [1]}, r"table=.*'a': 2, 'b': 1.*same number of rows"),
        ({"a": [1], "b": "x"}, "column='x': give a list or an array"),
        ({"a": [1], "b": 3}, "column=3: give a list or an array"),
        ({"a": [1], "b": np.zeros((1, 2))}, r"column 'b'='shape \(1, 2\)': give one cell for each row"),
        (pd.DataFrame([[1, 2, 3]], columns=["a", "b", "b"]), "column='b': the table has this column more than once"),
    ],
)
def test_errors(table, message):
    with pytest.raises(ArgumentError, match=message):
        cells(table, ["a", "b"])


def test_names_are_asked_of_tables_that_have_them():
    with pytest.raises(ArgumentError, match="table='list': its columns have no names"):
        names_of([[1, 2]])
