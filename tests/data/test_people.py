"""The table of people that comes with the package: whole, checked, covered by its schema, under a stated licence."""

from __future__ import annotations

import csv
import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

import dpmac.data
from dpmac.checks import ArgumentError
from dpmac.data import CATALOGUE, DataError, fetching, load_table, people
from dpmac.tables import Category, TableEncoder

FULL = Path(__file__).parents[3] / "shared" / "data" / "tables" / "adult.csv.gz"
RENAMED = {"marital_status": "marital"}


@pytest.fixture(scope="module")
def table():
    return load_table()


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """The package's folder of tables, to be broken."""
    shutil.copytree(fetching.TABLES, tmp_path / "tables")
    for module in (fetching, people):
        monkeypatch.setattr(module, "TABLES", tmp_path / "tables")
    return tmp_path / "tables"


def test_rows_columns_and_names(table):
    entry = CATALOGUE["adult"]
    assert (table.name, list(table.train), list(table.test)) == ("adult", *2 * [list(table.schema.columns)])
    assert {len(cells) for cells in table.train.values()} == {entry.train_rows}
    assert {len(cells) for cells in table.test.values()} == {entry.test_rows}
    assert entry.shape == (len(table.schema.columns),)
    assert table.schema.task == "classification"
    rates = [np.mean(np.array(part["income"]) == table.schema.positive) for part in (table.train, table.test)]
    assert rates == pytest.approx([0.24, 0.24], abs=0.02)  # as in all of the set


@pytest.mark.parametrize("part", ["train", "test"])
def test_the_schema_covers_every_cell(part, table):
    """It was not made from the rows, so this may be asked: no stranger, nothing clipped, no gap where none is told."""
    codes = TableEncoder(table.schema).codes(getattr(table, part)).numpy()  # an undeclared gap would be an error
    for place, column in enumerate(table.schema.features.values()):
        there = codes[:, place][~np.isnan(codes[:, place])]
        if isinstance(column, Category):
            assert there.max() < column.other
        else:
            assert column.low <= there.min() <= there.max() <= column.high


def test_it_is_an_excerpt_of_the_whole_set(table):
    """Where the whole set lies beside the repository: its first rows, cell by cell. Elsewhere: the rows stand still."""
    if not FULL.is_file():
        assert [table.train[name][0] for name in ("age", "workclass", "income")] == ["39", "State-gov", "<=50K"]
        return
    with gzip.open(FULL, "rt", newline="") as handle:
        whole = list(csv.DictReader(handle))[:10_000]
    for name in table.schema.columns:
        assert table.train[name] + table.test[name] == [row[RENAMED.get(name, name)] for row in whole]


def test_it_is_small_and_its_licence_is_beside_it(table):
    sizes = [path.stat().st_size for path in fetching.TABLES.iterdir()]
    assert sum(sizes) < 100_000
    for words in ("CC BY 4.0", "10.24432/C5XW20", "Becker", "Changes made here"):
        assert words in table.licence
    assert "CC BY 4.0" in CATALOGUE["adult"].licence


def test_it_is_found_and_never_fetched(table, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMAC_DATA", str(tmp_path))  # another place is no matter: this one is always there
    assert dpmac.data.find("adult") == dpmac.data.fetch("adult") == fetching.TABLES
    assert table.source == str(fetching.TABLES)
    assert list(tmp_path.iterdir()) == []


def test_a_changed_cell_is_found_out(copy):
    content = gzip.decompress((copy / "adult.csv.gz").read_bytes())
    (copy / "adult.csv.gz").write_bytes(gzip.compress(content.replace(b"39,State-gov", b"38,State-gov", 1)))
    for reading in (load_table, lambda: dpmac.data.find("adult"), lambda: dpmac.data.fetch("adult")):
        with pytest.raises(DataError, match="is altered"):
            reading()


def test_a_schema_of_other_columns_is_an_error(copy):
    text = (copy / "adult.schema.json").read_text()
    (copy / "adult.schema.json").write_text(text.replace('"hours_per_week"', '"hours"'))
    with pytest.raises(DataError, match="are not the schema's"):
        load_table()


def test_images_and_tables_are_not_mixed_up():
    with pytest.raises(ArgumentError, match=r"name='adult': this is a table.*load_table\('adult'\)"):
        dpmac.data.load("adult")
    with pytest.raises(ArgumentError, match=r"name='mnist': these are images: .*or give a table: adult"):
        load_table("mnist")
    with pytest.raises(ArgumentError, match="name='nobody': give one of adult"):
        load_table("nobody")
