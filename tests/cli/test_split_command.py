"""``dpmac split``, ``train --split`` and private scores: from a file to a report, and what is refused on the way."""

from __future__ import annotations

import csv
import json

import pytest

from dpmac.privacy import Ledger
from dpmac.tables import Schema

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
