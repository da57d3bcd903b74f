"""A cell that only one person has is nowhere: not in a template, not on the screen, not in any file of a run."""

from __future__ import annotations

import json

import pytest

from dpmac.tables.files import csv_text

WORD, NUMBER = "Quuxly", "41.8437162"


@pytest.fixture
def table(tmp_path):
    """300 patients, of whom one has a ward and a weight that nobody else has."""
    ward, weight = ["A", "B"] * 150, [f"{60 + row % 30}" for row in range(300)]
    ward[77], weight[77] = WORD, NUMBER
    death = ["1" if row % 3 == 0 else "0" for row in range(300)]
    (tmp_path / "patients.csv").write_text(csv_text({"ward": ward, "weight": weight, "death": death}))
    columns = {
        "ward": {"kind": "category", "values": ["A", "B"]},
        "weight": {"kind": "number", "low": 30, "high": 200},
        "death": {"kind": "category", "values": ["0", "1"]},
    }
    (tmp_path / "schema.json").write_text(json.dumps({"target": "death", "columns": columns}))
    return tmp_path


def no_secret_in(text: str) -> bool:
    return WORD not in text and NUMBER[:7] not in text


def test_no_cell_is_in_a_template(table, run):
    for options in ((), ("--kinds-from-header-only",)):
        done = run("schema", "init", "patients.csv", "--target", "death", *options)
        assert done.code == 0
        assert no_secret_in(done.out + done.err)


def test_no_cell_is_said_by_a_check_or_in_a_run(table, run):
    done = run("schema", "check", "schema.json", "patients.csv")
    assert done.code == 0
    assert no_secret_in(done.out + done.err)
    words = ["train", "patients.csv", "--schema", "schema.json", "--epsilon", "2", "--out", "first", "--epochs", "2"]
    done = run(*words, "--ledger", "patients.ledger")
    assert done.code == 0, done.err
    assert no_secret_in(done.out + done.err)
    assert run("report", "first").code == 0
    files = [path for path in [*(table / "first").rglob("*"), table / "patients.ledger"] if path.is_file()]
    assert {"README.md", "dpmac.json", "report.html", "model.safetensors"} <= {path.name for path in files}
    for path in files:
        assert no_secret_in(path.read_bytes().decode("latin-1")), path
