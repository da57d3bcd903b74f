"""A table with dates on the command line: from a template to predictions."""

from __future__ import annotations

import json
import math
from datetime import date, timedelta

import pyarrow as pa
import pytest
from pyarrow import parquet

from dpmac import DPMACClassifier, Machine, Schema
from dpmac.tables import Category, Date, Number
from dpmac.tables.files import csv_text, read_table

DAYS = [date(2015, 1, 1) + timedelta(days=37 * k % 4000) for k in range(400)]
AGES = [18 + k % 70 for k in range(400)]
DEATHS = [int(day.month in (12, 1, 2)) for day in DAYS]


@pytest.fixture
def files(tmp_path):
    written = [day.strftime("%d.%m.%Y") for day in DAYS]
    (tmp_path / "rows.csv").write_text(csv_text({"seen": written, "age": AGES, "death": DEATHS}))
    parquet.write_table(pa.table({"seen": DAYS, "age": AGES, "death": DEATHS}), tmp_path / "rows.parquet")
    return tmp_path


def test_dates_are_guessed_estimated_and_checked(files, run):
    template = run("schema", "init", "rows.csv", "--target", "death").json()
    seen = template["columns"]["seen"]
    assert seen == {"kind": "date", "low": None, "high": None, "missing": True, "format": "%d.%m.%Y"}
    assert "date: low and high" in " ".join(template["_help"])
    template["columns"]["death"] |= {"values": ["0", "1"]}
    template["columns"]["seen"] |= {"parts": ["month"]}
    (files / "open.json").write_text(json.dumps(template))
    left = run("schema", "check", "open.json")
    assert "\n  seen: write its public range, low and high as YYYY-MM-DD" in left.err
    words = ["schema", "estimate", "rows.csv", "--schema", "open.json", "--epsilon", "4", "--ledger", "book.ledger"]
    done = run(*words, "--out", "full.json", "--seed", "1")
    assert "ranges of 2 columns estimated from 400 rows" in done.err
    column = json.loads((files / "full.json").read_text())["columns"]["seen"]
    assert (column["kind"], column["format"], column["parts"]) == ("date", "%d.%m.%Y", ["month"])
    assert "2013" < column["low"] <= "2015-01-01"
    assert str(max(DAYS)) <= column["high"] < "2028"
    for file in ("rows.csv", "rows.parquet"):
        assert run("schema", "check", "full.json", file).code == 0


def test_dates_are_predicted_from_however_a_file_holds_them(files, run):
    columns = {"seen": Date("2015-01-01", "2025-12-31", "%d.%m.%Y", ["month"]), "age": Number(18, 100)}
    schema = Schema({**columns, "death": Category([0, 1])}, target="death")
    table = read_table(files / "rows.csv", schema)
    DPMACClassifier((2,), schema=schema, epochs=2, epsilon=math.inf, machine=Machine(progress=False)).fit(table).save(
        files / "run"
    )
    first, again = run("predict", "run", "rows.csv"), run("predict", "run", "rows.parquet")
    assert first.out == again.out
    assert len(first.out.splitlines()) == 401


def test_a_file_with_a_bad_date_is_named_by_row_and_nothing_is_spent(files, run):
    text = (files / "rows.csv").read_text().replace("07.02.2015", "30.02.2015")
    (files / "bad.csv").write_text(text)
    columns = {
        "seen": {"kind": "date", "low": None, "high": None, "format": "%d.%m.%Y"},
        "death": {"kind": "category", "values": ["0", "1"]},
    }
    (files / "open.json").write_text(json.dumps({"target": "death", "columns": columns}))
    words = ["schema", "estimate", "bad.csv", "--schema", "open.json", "--epsilon", "1", "--ledger", "book.ledger"]
    done = run(*words)
    assert (done.code, "bad.csv, line 3, column 'seen'='30.02.2015'" in done.err) == (2, True)
    assert not (files / "book.ledger").exists()
    columns["seen"] |= {"low": "2015-01-01", "high": "2026-01-01"}
    (files / "full.json").write_text(json.dumps({"target": "death", "columns": columns}))
    assert "bad.csv, line 3, column 'seen'='30.02.2015'" in run("schema", "check", "full.json", "bad.csv").err
