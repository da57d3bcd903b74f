"""Tables in files: what is read is what stands there, and what cannot be read is named."""

from __future__ import annotations

import csv
import gzip
import math
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmac.checks import ArgumentError
from dpmac.files import whole_file
from dpmac.tables import Category, Number, Schema
from dpmac.tables.files import csv_text, for_spreadsheets, guessed_kind, need_columns, read_table, rows_in

CELLS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff")).filter(
    lambda text: text and not text.isspace()
)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5), st.sampled_from([",", ";", "\t"]))
def test_cells_come_back_as_they_were(tmp_path_factory, rows, delimiter):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    table = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    with path.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle, delimiter=delimiter).writerows([table, *zip(*table.values(), strict=True)])
    assert read_table(path) == table
    path.write_text(csv_text(table), "utf-8", newline="")
    assert read_table(path) == table


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_marks_and_compression(tmp_path, delimiter):
    text = "\ufeff" + f"age{delimiter}sex\r\n007{delimiter}NA\r\n\r\n{delimiter}F\r\n"
    (tmp_path / "t.csv").write_bytes(text.encode())
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    expected = {"age": ["007", ""], "sex": ["NA", "F"]}
    assert read_table(tmp_path / "t.csv") == expected == read_table(tmp_path / "t.csv.gz")


def test_numbers_of_the_schema_are_read_and_texts_are_left(tmp_path):
    (tmp_path / "t.csv").write_text("age,code,sex\n7,7,F\n,8,M\n1e2,x,F\n")
    schema = Schema({"age": Number(0, 9), "code": Number(0, 9), "sex": Category(["F", "M"])})
    table = read_table(tmp_path / "t.csv", schema)
    assert table["age"][0] == 7.0
    assert math.isnan(table["age"][1])
    assert table["age"][2] == 100.0
    assert table["code"] == ["7", "8", "x"]  # the one who reads it names the row
    assert rows_in(table) == 3


BAD = [
    (b"", "it is empty"),
    (b"a,b\n1\n", "line 2 has 1 cells, the first line names 2 columns"),
    (b"a,a\n1,2\n", "the column 'a' is there more than once"),
    (b"a,b\n\xff,2\n", "it is not UTF-8"),
    (b'a,b\n"1,2\n', "it cannot be read as CSV"),
]


@pytest.mark.parametrize(("content", "message"), BAD, ids=[m for _, m in BAD])
def test_damaged_files_are_named(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(ArgumentError, match=message) as error:
        read_table(path)
    assert error.value.value == str(path)


def test_what_is_no_file_is_named(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(b"not gzip")
    for path, message in ((tmp_path, "folder"), (tmp_path / "x", "no such file"), (tmp_path / "t.csv.gz", "as CSV")):
        with pytest.raises(ArgumentError, match=message):
            read_table(path)


def test_all_missing_columns_are_named_and_the_nearest_is_offered():
    with pytest.raises(ArgumentError, match=r"it has no column 'agee', 'size'; its columns are 'age', 'sex'; did you"):
        need_columns("t.csv", {"age": [], "sex": []}, ["agee", "sex", "size"])


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1.5", "", "2"], "number"),
        ([str(i) for i in range(11)], "number"),
        ([str(i % 10) for i in range(50)], "category"),
        (["0", "1", ""], "category"),
        (["1", "x"], "category"),
        (["inf", "1"], "number"),
        ([None, 0.5, 1.0], "number"),
    ],
)
def test_kinds_are_guessed(cells, kind):
    assert guessed_kind(cells) == kind


# --- Parquet ----------------------------------------------------------------------------------------------------------


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(ArgumentError, match=r"pip install 'dpmac\[parquet\]'"):
        read_table(tmp_path / "t.parquet")


def test_parquet_columns_are_taken_as_they_are(tmp_path, monkeypatch):
    """Of a stand-in for pyarrow, which is an extra; with the real one below."""

    def column(name):
        return SimpleNamespace(to_pylist=lambda: {"age": [1, None], "sex": ["F", "M"]}[name])

    stand_in = ModuleType("pyarrow")
    stand_in.parquet = SimpleNamespace(
        read_schema=lambda path: [],
        read_table=lambda path, read_dictionary: SimpleNamespace(column_names=["age", "sex"], column=column),
    )
    monkeypatch.setitem(sys.modules, "pyarrow", stand_in)
    (tmp_path / "t.pq").write_bytes(b"PAR1")
    assert read_table(tmp_path / "t.pq") == {"age": [1, None], "sex": ["F", "M"]}


def test_real_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"age": [1.5, None], "sex": ["F", "M"]}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet") == {"age": [1.5, None], "sex": ["F", "M"]}
    (tmp_path / "t.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-8])
    with pytest.raises(ArgumentError, match="as Parquet"):
        read_table(tmp_path / "t.parquet")


# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_file_is_there_whole_or_as_it_was(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("before")

    def fail():
        with whole_file(path) as handle:
            handle.write("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fail()
    assert [p.name for p in tmp_path.iterdir()] == ["t.txt"]
    assert path.read_text() == "before"
    with whole_file(path) as handle:
        handle.write("after")
    assert path.read_text() == "after"


SIGNS = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", "\uff1d1"]
FORMULAS = [*SIGNS, "-1_0", "+inf", "--1", "'=1", "''=1", "'-1"]
NUMBERS = ["-1", "+5", "-1.5e-3", "-.5", -1, -0.5, np.float64(-2), np.int64(-3)]
HARMLESS = [*NUMBERS, "a", "'a", "a=1", "1-2", "", True, None]


def test_what_a_spreadsheet_would_compute_gets_an_apostrophe_and_numbers_none():
    found = for_spreadsheets({"=id": FORMULAS, "p_-": [*HARMLESS[: len(FORMULAS)]]})
    assert list(found) == ["'=id", "p_-"]
    assert found["'=id"] == [f"'{text}" for text in FORMULAS]
    assert for_spreadsheets({"a": HARMLESS})["a"] == HARMLESS


@given(st.lists(st.text(st.sampled_from("'=+-@ \ta1."), max_size=4), unique=True))
def test_no_two_texts_become_the_same_and_none_is_a_formula(texts):
    found = for_spreadsheets({"a": texts})["a"]
    assert len(set(found)) == len(texts)
    for text, now in zip(texts, found, strict=True):
        assert now in (text, f"'{text}")
        if now[:1] in tuple("=+-@\t\r"):
            float(now)
