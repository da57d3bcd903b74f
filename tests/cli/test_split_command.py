"""``dpmac split``, ``train --split`` and private scores: from a file to a report, and what is refused on the way."""

from __future__ import annotations

import csv
import errno
import json
import shutil
from datetime import date

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from dpmac.cli import split_files
from dpmac.privacy import Ledger
from dpmac.tables import Schema
from dpmac.tables.files import read_table

ROWS = 400


@pytest.fixture
def dpmac(run):
    """Run a command that must end with ``code``."""

    def given(*words, code=0):
        ended = run(*words)
        assert ended.code == code, ended.err
        return ended

    return given


@pytest.fixture
def shop(tmp_path):
    """A table of persons with two rows each, and its schema."""
    with (tmp_path / "visits.csv").open("w") as handle:
        out = csv.writer(handle)
        out.writerow(["person", "age", "sex", "ill"])
        for row in range(ROWS):
            age = (row * 37) % 100
            out.writerow([row // 2, age, "fm"[row % 2], "yes" if age > 50 else "no"])
    columns = {
        "age": {"kind": "number", "low": 0, "high": 100},
        "sex": {"kind": "category", "values": ["f", "m"]},
        "ill": {"kind": "category", "values": ["no", "yes"]},
    }
    schema = Schema.from_dict({"target": "ill", "columns": columns})
    (tmp_path / "schema.json").write_text(json.dumps(schema.to_dict()))
    return tmp_path


def rows_of(path):
    with path.open() as handle:
        return list(csv.DictReader(handle))


@pytest.mark.parametrize("ledger", ["visits-train.csv", "visits-test.csv", "here/../visits-test.csv"])
def test_no_file_takes_the_place_of_the_ledger(ledger, shop, dpmac):
    """Found in an attack: the ledger was opened under the name of a part, and the part was written over it."""
    (shop / "here").mkdir()
    words = ("split", shop / "visits.csv", "--by", "person", "--ledger", shop / ledger)
    assert "is the ledger's" in dpmac(*words, code=2).err
    dpmac("ledger", "init", shop / ledger, "--total-epsilon", "1")
    assert "is the ledger's" in dpmac(*words, "--overwrite", code=2).err
    assert Ledger.load(shop / ledger).account.total_epsilon == 1


def test_cells_are_the_same_in_the_parts(tmp_path, dpmac):
    odd = ["a\rb", "a\nb", "a\r\nb", " a ", 'say "a"', "a,b", "", "NA", "=1+1", "\t=x", "'=x", "1,5", "é", "-1"]
    rows = [["x\r" * (place == 3) + str(place), cell, ""] for place, cell in enumerate(odd)]
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle, quoting=csv.QUOTE_ALL).writerows([["id", "a\rname", "c"], *rows])
    dpmac("split", tmp_path / "t.csv", "--by", "id", "--ledger", tmp_path / "book", "--share", "test=0.5")
    read = [read_table(tmp_path / f"{name}.csv") for name in ("t", "t-train", "t-test")]
    whole, train, test = (list(zip(*table.values(), strict=True)) for table in read)
    assert sorted(train + test) == sorted(whole)
    assert [list(table) for table in read] == [["id", "a\rname", "c"]] * 3


def test_scores_that_cannot_be_kept_are_not_paid_for(shop, dpmac, monkeypatch):
    """Found in an attack: a folder in the file's place, or a name that no file holds, was noticed after the release."""
    book, out, test = shop / "book", shop / "run", shop / "visits.csv"
    common = ("--schema", shop / "schema.json", "--target", "ill", "--groups", "person", "--quiet", "--epochs", "1")
    dpmac("train", test, "--ledger", book, *common, "--epsilon", "1", "--out", out, "--seed", "0")
    spent = len(Ledger.load(book))
    score = ("--ledger", book, "--epsilon", "1", "--groups", "person")
    (out / "evaluation.json").mkdir()
    assert "a folder is where the scores are to be kept" in dpmac("evaluate", out, test, *score, code=2).err
    (out / "evaluation.json").rmdir()
    odd = shop / "odd\nname.csv"
    shutil.copy(test, odd)
    assert "line break" in dpmac("evaluate", out, odd, *score, code=2).err
    assert len(Ledger.load(book)) == spent

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dpmac.cli.scores.keep", full)  # whatever happens after the release, what it gave is shown
    told = dpmac("evaluate", out, test, *score, code=1).err
    assert "auroc" in told
    assert "No space left on device. These scores are paid for and kept nowhere" in told
    assert len(Ledger.load(book)) == spent + 1


def test_a_person_is_in_one_file_and_stays_there_when_rows_are_added(shop, dpmac):
    dpmac("split", shop / "visits.csv", "--by", "person", "--ledger", shop / "book", "--share", "test=0.3")
    parts = {name: rows_of(shop / f"visits-{name}.csv") for name in ("train", "test")}
    persons = {name: {row["person"] for row in rows} for name, rows in parts.items()}
    assert not persons["train"] & persons["test"]
    assert sum(map(len, parts.values())) == ROWS
    with (shop / "visits.csv").open("a") as handle:
        handle.write("900,50,f,no\n")
    dpmac("split", shop / "visits.csv", "--by", "person", "--ledger", shop / "book", "--overwrite")
    again = {name: rows_of(shop / f"visits-{name}.csv") for name in parts}
    assert sum(map(len, again.values())) == ROWS + 1
    for name, rows in parts.items():
        assert [row for row in again[name] if row["person"] != "900"] == rows


def test_rows_without_ids_are_numbered(shop, dpmac):
    answer = dpmac("split", shop / "visits.csv", "--ledger", shop / "book", "--json", "--out", shop / "parts")
    found = json.loads(answer.out)["splits"]
    numbers = [row["row"] for name in found for row in rows_of(shop / "parts" / f"visits-{name}.csv")]
    assert sorted(map(int, numbers)) == list(range(ROWS))
    assert sum(one["rows"] for one in found.values()) == ROWS
    assert Ledger.load(shop / "book").splits.by == "row"


def test_nothing_is_declared_by_a_split_that_fails(shop, dpmac):
    (shop / "bad.csv").write_text("person,age\n1,2\n,3\n")
    for words in (
        (shop / "visits.csv", "--by", "patient"),
        (shop / "visits.csv", "--share", "test=most"),
        (shop / "visits.csv", "--share", "test=1.5"),
        (shop / "bad.csv", "--by", "person"),
        (shop / "schema.json",),
    ):
        assert dpmac("split", *words, "--ledger", shop / "book", code=2).err.startswith("dpmac: ")
        assert not (shop / "book").exists()
        assert not list(shop.glob("*-test.csv"))


def test_from_a_file_to_private_scores_in_the_report(shop, dpmac):
    book, out = shop / "book", shop / "run"
    dpmac("split", shop / "visits.csv", "--by", "person", "--ledger", book, "--share", "test=0.4")
    common = ("--schema", shop / "schema.json", "--target", "ill", "--epsilon", "2", "--ledger", book, "--quiet")
    told = dpmac("train", shop / "visits.csv", *common, "--out", out, "--split", "train", code=2).err
    assert "are not in the split 'train'" in told
    assert not out.exists()
    train = (shop / "visits-train.csv", *common, "--out", out, "--split", "train", "--seed", "0")
    dpmac("train", *train, "--groups", "sex", code=2)  # not what it was divided by
    dpmac("train", *train, "--groups", "person")
    assert {entry.split for entry in Ledger.load(book).entries} == {"train"}
    before = Ledger.load(book).epsilon(1e-5)
    score = ("evaluate", out, shop / "visits-test.csv", "--ledger", book, "--split", "test", "--groups", "person")
    answer = dpmac(*score, "--epsilon", "1", "--by", "sex", "--json")
    found = json.loads(answer.out)
    assert found["paid"]
    assert 0 <= found["intervals"]["auroc"][0] <= found["scores"]["auroc"]
    assert Ledger.load(book).epsilon(1e-5) == before
    assert "split test" in dpmac("ledger", "show", book).out
    dpmac("report", out)
    page = (out / "report.html").read_text("utf-8")
    assert "for one person" in page
    assert "split &#x27;test&#x27;" in page
    assert "There are no scores here" not in page
    persons = ("--groups", "person")
    for words in (
        ("evaluate", out, shop / "visits-test.csv", "--epsilon", "1", *persons),
        ("evaluate", out, shop / "visits-test.csv", "--epsilon", "1", "--ledger", shop / "fresh", *persons),
        ("evaluate", out, shop / "visits-test.csv", "--split", "test"),
        (*score, "--epsilon", "1", "--public"),
        ("evaluate", out, shop / "visits-train.csv", *score[3:], "--epsilon", "1"),
    ):
        assert dpmac(*words, code=2).err.startswith("dpmac: ")
    assert Ledger.load(book).epsilon(1e-5) == before


# --- Parquet ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def stays(tmp_path):
    """A Parquet file of every type that could be written as another, in several row groups; and a folder of two."""
    rows = range(500)
    table = pa.table(
        {
            "person": pa.array([row // 2 for row in rows], pa.int32()),
            "age": pa.array([None if row % 50 == 3 else row % 97 / 7 for row in rows], pa.float32()),
            "ward": pa.array([["a", "b,c", None][row % 3] for row in rows]).dictionary_encode(),
            "day": pa.array([date(2020, 1, 1 + row % 28) for row in rows]),
            "ill": pa.array([row % 3 == 0 for row in rows]),
        }
    )
    pq.write_table(table, tmp_path / "stays.parquet", row_group_size=90)
    (tmp_path / "folder").mkdir()
    pq.write_table(table.slice(0, 200), tmp_path / "folder" / "0.parquet")
    pq.write_table(table.slice(200), tmp_path / "folder" / "1.parquet")
    return table


def test_parquet_is_divided_into_parquet_as_its_rows_are_in_csv(stays, tmp_path, dpmac, monkeypatch):
    monkeypatch.setattr(split_files, "BATCH", 64)
    book = tmp_path / "book"
    dpmac("split", tmp_path / "stays.parquet", "--by", "person", "--ledger", book, "--share", "test=0.3")
    parts = {name: pq.read_table(tmp_path / f"stays-{name}.parquet") for name in ("train", "test")}
    assert all(part.schema.equals(stays.schema) for part in parts.values())
    persons = {name: set(part["person"].to_pylist()) for name, part in parts.items()}
    assert not persons["train"] & persons["test"]
    for name, part in parts.items():  # in order, and to the last bit
        mask = pa.array([one in persons[name] for one in stays["person"].to_pylist()])
        assert part.equals(stays.filter(mask))
    dpmac("split", tmp_path / "folder", "--by", "person", "--ledger", book, "--out", tmp_path)
    for name, part in parts.items():
        assert pq.read_table(tmp_path / f"folder-{name}.parquet").equals(part)
    pacsv.write_csv(stays.select(["person", "age"]), tmp_path / "plain.csv")
    dpmac("split", tmp_path / "plain.csv", "--by", "person", "--ledger", book)
    for name in parts:
        assert {int(row["person"]) for row in rows_of(tmp_path / f"plain-{name}.csv")} == persons[name]
    for name, part in parts.items():  # what trains on a split takes the file
        assert len(Ledger.load(book).split(name, part["person"].to_pylist())) == 0


def test_rows_of_parquet_without_ids_are_numbered_and_bad_ones_declare_nothing(stays, tmp_path, dpmac):
    book = tmp_path / "book"
    pq.write_table(pa.table({"person": [1, None], "age": [1, 2]}), tmp_path / "bad.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and nothing")
    for words in (("bad.parquet", "--by", "person"), ("damaged.parquet",), ("stays.parquet", "--by", "patient")):
        told = dpmac("split", tmp_path / words[0], *words[1:], "--ledger", book, code=2).err
        assert told.startswith("dpmac: ")
        assert not book.exists()
    dpmac("split", tmp_path / "stays.parquet", "--ledger", book)
    parts = [pq.read_table(tmp_path / f"stays-{name}.parquet") for name in ("train", "test")]
    assert sorted(one for part in parts for one in part["row"].to_pylist()) == list(range(len(stays)))


def test_a_split_in_parquet_is_trained_on_and_scored(stays, tmp_path, dpmac):
    book, out = tmp_path / "book", tmp_path / "run"
    dpmac("split", tmp_path / "stays.parquet", "--by", "person", "--ledger", book, "--share", "test=0.4")
    columns = {
        "age": {"kind": "number", "low": 0, "high": 14, "missing": True},
        "ill": {"kind": "category", "values": ["False", "True"]},
    }
    (tmp_path / "schema.json").write_text(json.dumps(Schema.from_dict({"target": "ill", "columns": columns}).to_dict()))
    words = ("--schema", tmp_path / "schema.json", "--ledger", book, "--groups", "person")
    train = ("train", tmp_path / "stays-train.parquet", *words, "--split", "train", "--epsilon", "2", "--out", out)
    dpmac(*train, "--quiet", "--epochs", "1")
    score = ("evaluate", out, tmp_path / "stays-test.parquet", "--ledger", book, "--groups", "person")
    assert json.loads(dpmac(*score, "--epsilon", "1", "--split", "test", "--json").out)["paid"]
    before = Ledger.load(book).epsilon(1e-5)
    dpmac(*score, "--epsilon", "1", "--split", "train", code=2)
    assert Ledger.load(book).epsilon(1e-5) == before
