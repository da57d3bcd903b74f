"""Datasets of pyarrow: rows in one order, and what a dataset is told of them is heeded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, dataset, feather, parquet

from dpmac.checks import ArgumentError
from dpmac.tables import Files, Number
from dpmac.tables.coding import Reader
from dpmac.tables.ids import Ids, differing, persons_in

TABLE = pa.table({"a": np.arange(1000), "b": np.arange(1000) % 7})


@pytest.fixture
def path(tmp_path):
    parquet.write_table(TABLE, tmp_path / "t.parquet", row_group_size=100)
    return tmp_path / "t.parquet"


def test_a_filter_of_a_dataset_is_heeded(path):
    few = dataset.dataset(path).filter(dataset.field("b") == 3)
    files = Files(few)
    assert files["a"] == [row for row in range(1000) if row % 7 == 3]
    assert files.n == len(files["a"])
    with pytest.raises(ArgumentError, match="rewrite it as Parquet"):
        Files(few, scratch=None)


def test_datasets_of_other_formats_are_read_in_order(tmp_path):
    csv.write_csv(TABLE, tmp_path / "t.csv")
    feather.write_feather(TABLE, tmp_path / "t.feather", chunksize=77)
    for name, form in (("t.csv", "csv"), ("t.feather", "feather")):
        files = Files(dataset.dataset(tmp_path / name, format=form))
        assert files.n == 1000
        assert files["a"] == list(range(1000))
        assert files.part(1, 4)["a"] == list(range(250, 500))
    assert Files(dataset.dataset(TABLE))["b"] == TABLE["b"].to_pylist()


def test_folders_called_name_and_value_are_columns(tmp_path):
    for year in (2001, 2002):
        (tmp_path / f"year={year}").mkdir()
        parquet.write_table(TABLE.slice(0, 3), tmp_path / f"year={year}" / "t.parquet")
    files = Files(tmp_path)
    assert files["year"] == [2001] * 3 + [2002] * 3
    assert files["a"] == [0, 1, 2] * 2


def test_columns_of_one_file_that_another_has_not_are_missing_there(tmp_path):
    parquet.write_table(TABLE.slice(0, 2), tmp_path / "a.parquet")
    parquet.write_table(TABLE.slice(2, 2).select(["a"]).cast(pa.schema({"a": pa.int32()})), tmp_path / "b.parquet")
    files = Files(tmp_path)
    assert dict(files) == {"a": [0, 1, 2, 3], "b": [0, 1, None, None]}


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    parquet.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(ArgumentError, match="duplicate"):
        Files(tmp_path / "t.parquet")


# --- ids --------------------------------------------------------------------------------------------------------------

TEXTS = ["b", "a", "b", "c", "a", "d"]


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.binary(), list])
def test_ids_are_numbered_in_the_order_in_which_they_appear(kind):
    ids = Ids("who")
    for start in (0, 2, 4):
        few = TEXTS[start : start + 2]
        ids.add(few if kind is list else pa.array(few).cast(kind), start)
    assert ids.codes().tolist() == [0, 1, 0, 2, 1, 3]


@pytest.mark.parametrize(
    "cells", [pa.array(["a", None]), pa.array([1.0, float("nan")]), pa.array(["a", " "]), ["a", ""]]
)
def test_a_row_without_an_id_is_named(cells):
    with pytest.raises(ArgumentError, match="groups, row 41"):
        Ids("who").add(cells, 40)


def test_persons_and_different_values_are_counted(path):
    files = Files(path)
    assert persons_in(files.batches(["b"]), "b") == 7
    assert persons_in(files.batches(["a"], 10), "a") == 1000
    assert differing(files.batches(["a"], 10), "a", 20) == 1000
    assert differing(files.batches(["b"], 5), "b", 3) < 1000
    assert differing(files.batches(["b"], 5), "b", 20) == 7


def test_ids_that_cannot_be_told_apart_are_refused():
    ids = Ids("who")
    ids.add(pa.array([[1], [2]]), 0)
    with pytest.raises(ArgumentError, match="cannot be told apart"):
        ids.codes()


@pytest.mark.parametrize("when", ["between groups", "within one"])
def test_a_file_that_is_replaced_while_its_rows_are_read_is_refused(path, when):
    """Found by a user: a file of the same layout in its place was continued, unchecked."""
    batches = Files(path, scratch=None).batches(["a"], rows=100 if when == "between groups" else 40)
    next(batches)
    other = path.with_name("other.parquet")
    parquet.write_table(TABLE, other, row_group_size=100)
    other.replace(path)
    with pytest.raises(ArgumentError, match="it was written to since it was first read"):
        list(batches)


def test_rows_of_a_part_are_named_by_their_number_in_the_table(tmp_path):
    cells = pa.table({"a": [1.0] * 70 + [None] + [2.0] * 29, "b": [1.0] * 100})
    parquet.write_table(cells, tmp_path / "t.parquet", row_group_size=10)
    reader = Reader({"a": Number(0, 3)})
    with pytest.raises(ArgumentError, match="column 'a', row 70="):
        Files(tmp_path / "t.parquet").part(1, 2).read(reader)
