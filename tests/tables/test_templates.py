"""Guesses at a whole table: ids, postal codes and signs in numbers, and that nothing of the rows is in them."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpmac.tables import CellFormat, Files
from dpmac.tables.templates import guessed_columns

N = 400
PATIENTS = {
    "visit": [f"V{k:04d}" for k in range(N)],
    "patient": [f"P{k % 130}" for k in range(N)],
    "age": [["71", "NA", "-", "n/a", ""][k % 5] if k % 3 == 0 else str(20 + k % 60) for k in range(N)],
    "plz": [f"{10115 + k % 200}" for k in range(N)],
    "code": [f"A{k % 150}" for k in range(N)],
    "cost": [f"{k}.{k % 900 + 100},{k % 10}0" for k in range(N)],
    "crp": ["<0,5" if k % 9 == 0 else f"{k % 70},{k % 10}" for k in range(N)],
    "died": ["yes" if k % 11 == 0 else "no" for k in range(N)],
}


@pytest.mark.parametrize("stored", [False, True])
def test_ids_go_and_the_rest_is_what_it_is(stored, tmp_path):
    table = PATIENTS
    if stored:
        pq.write_table(pa.table(PATIENTS), tmp_path / "visits.parquet")
        table = Files(tmp_path / "visits.parquet")
    found = guessed_columns(table, "died")
    assert found.ids == ["visit", "patient"]
    kinds = {name: column["kind"] for name, column in found.columns.items()}
    assert kinds == {
        **{"age": "number", "plz": "prefix", "code": "category", "cost": "number", "crp": "number", "died": "category"}
    }
    assert found.cells == {"decimal": ",", "thousands": ".", "censored": None}
    assert found.crowded == ["code"]
    assert found.columns["died"] == {"kind": "category", "values": None, "missing": False}
    written = json.dumps(found.columns)
    assert not any(cell in written for name in ("visit", "patient", "plz", "code") for cell in PATIENTS[name])


def test_what_is_stated_is_not_guessed():
    found = guessed_columns(PATIENTS, "died", CellFormat())
    assert found.cells == {}
    assert found.columns["crp"]["kind"] == "category"
    assert found.columns["age"]["kind"] == "number"


def test_a_target_is_never_left_out():
    assert "visit" in guessed_columns(PATIENTS, "visit").columns
