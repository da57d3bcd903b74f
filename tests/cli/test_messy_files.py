"""A file as people have it, on the command line: gaps, thousands, "<0.5", and errors that an editor finds."""

from __future__ import annotations

import csv
import json

import pytest

from cli.messy import visits, write_schema, write_visits

ROWS = visits()
COSTS = {"costs": {"kind": "number", "low": 0, "high": 1e5}, "crp": {"kind": "number", "low": 0, "high": 300}}
TRAIN = ["train", "visits.csv", "--schema", "visits.json", "--epsilon", "1", "--out", "run", "--epochs", "2"]
TRAIN += ["--groups", "patient_id", "--seed", "1", "--quiet", "--json"]
CHECK = ["schema", "check", "visits.json", "visits.csv", "--groups", "patient_id"]
WRITTEN = ["--thousands", ",", "--censored", "half"]


@pytest.fixture
def folder(tmp_path):
    write_visits(tmp_path / "visits.csv", ROWS)
    write_schema(tmp_path / "visits.json", **COSTS)
    return tmp_path


def test_every_bad_column_is_named_with_its_count_its_line_and_the_option_that_helps(folder, run):
    done = run(*CHECK)
    assert done.code == 2
    assert "2 columns cannot be read" in done.err
    large = sum("," in row["costs"] for row in ROWS)
    small = [place for place, row in enumerate(ROWS) if row["crp"] == "<0.5"]
    assert f"if commas separate thousands, say --thousands , ({large} of 600 cells are so)" in done.err
    assert f"visits.csv, line {small[0] + 2}, column 'crp'='<0.5'" in done.err
    assert f"--censored limit, half or missing ({len(small)} of 600 cells are so)" in done.err
    assert run(*TRAIN).code == 2


def test_a_model_reads_new_rows_as_it_read_its_own(folder, run):
    assert run(*CHECK, *WRITTEN).code == 0
    assert run(*TRAIN, *WRITTEN).code == 0
    assert json.loads((folder / "run" / "schema.json").read_text())["cells"] == {"thousands": ",", "censored": "half"}
    first = run("predict", "run", "visits.csv")
    assert first.code == 0, first.err
    halves = {"crp": lambda cell: "0.25" if cell == "<0.5" else cell}
    plain = {**halves, "costs": lambda cell: cell.replace(",", "")}
    write_visits(folder / "plain.csv", ROWS, **plain)
    assert run("predict", "run", "plain.csv").out == first.out
    german = {name: lambda cell, change=change: change(cell).replace(".", ",") for name, change in plain.items()}
    write_visits(folder / "german.csv", ROWS, **german)
    assert run("predict", "run", "german.csv", "--decimal", ",", "--thousands", ".").out == first.out
    assert run("predict", "run", "german.csv").code == 2


def test_na_and_the_like_are_missing_and_more_can_be_stated(folder, run):
    assert {"NA", "n/a", "NULL", "-", ""} < {row["age"] for row in ROWS}
    write_visits(folder / "visits.csv", ROWS, age=lambda cell: "unbekannt" if cell == "-" else cell)
    done = run(*CHECK, *WRITTEN)
    assert done.code == 2
    assert "'unbekannt': this column holds numbers" in done.err
    assert "say so with --na" in done.err
    assert run(*CHECK, *WRITTEN, "--na", "unbekannt").code == 0


def test_lines_are_those_of_an_editor(folder, run):
    """A note of two lines in a quoted cell, and an empty line, before the bad cell."""
    names, *lines = (folder / "visits.csv").read_text().splitlines()
    first, second, *rest = csv.reader(lines[:3])
    bad = dict(zip(names.split(","), rest[0], strict=True)) | {"age": "old"}
    first, second, last = (",".join(f'"{cell}"' for cell in cells) for cells in (first, second, bad.values()))
    text = [f"{names},note", f'{first},"two\nlines"', "", f"{second},", f"{last},"]
    (folder / "visits.csv").write_text("\n".join(text) + "\n")
    line = 1 + (folder / "visits.csv").read_text().splitlines().index(text[-1])
    done = run(*CHECK, *WRITTEN)
    assert f"visits.csv, line {line}, column 'age'='old'" in done.err
    assert line == 6


def test_a_missing_target_cell_is_not_answered_by_advice_that_fails(folder, run):
    write_visits(folder / "visits.csv", ROWS, readmitted=lambda cell: "" if cell == "yes" else cell)
    for words in (CHECK, TRAIN):
        done = run(*words, *WRITTEN)
        assert done.code == 2
        assert "missing=True" not in done.err
        assert "column 'readmitted'" in done.err
        assert "drop the row" in done.err


@pytest.mark.parametrize("words", [["--decimal", ";"], ["--thousands", "."], ["--censored", "zero"]])
def test_a_format_that_cannot_be_is_named_by_its_option(words, folder, run):
    if words[0] == "--thousands":
        words = [*words, "--decimal", "."]
    done = run(*TRAIN, *words)
    assert done.code == 2
    assert done.err.startswith(f"dpmac: {words[0]}='{words[1]}'")
    assert not (folder / "run").exists()


def test_ranges_are_estimated_of_numbers_as_they_are_written(folder, run):
    open_ = {"costs": {"kind": "number", "low": None, "high": None}, "crp": {"kind": "number", "low": 0, "high": 300}}
    write_schema(folder / "open.json", **open_)
    words = ["schema", "estimate", "visits.csv", "--schema", "open.json", "--epsilon", "1", "--ledger", "b.ledger"]
    assert run(*words).code == 2
    assert not (folder / "b.ledger").exists()
    done = run(*words, *WRITTEN)
    assert done.code == 0, done.err
    found = done.json()
    assert found["columns"]["costs"]["high"] >= 50_000
    assert found["cells"] == {"thousands": ",", "censored": "half"}
