"""``dpmac schema``: templates that copy nothing from rows, checks that tell nothing of them, ranges that are paid."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from dpmac.cli import schema_check
from dpmac.privacy import Ledger
from dpmac.tables import Schema, crowding
from dpmac.tables.naming import names_ids


def test_a_template_has_columns_and_kinds_and_nothing_of_the_rows(new_hospital, run):
    done = run("schema", "init", "patients.csv", "--target", "death")
    raw = done.json()
    kinds = {name: column["kind"] for name, column in raw["columns"].items()}
    assert kinds == {
        **{"age": "number", "sex": "category"},
        **{"weight": "number", "ward": "category", "death": "category"},
    }
    assert raw["target"] == "death"
    facts = {value for column in raw["columns"].values() for key, value in column.items() if key != "kind"}
    assert facts == {None, True, False}
    assert raw["columns"]["death"]["missing"] is False
    assert raw["positive"] is None
    assert "looking at the rows" in done.err
    assert "left out, as ids: patient." in done.err


def test_a_template_says_how_cells_are_written_and_which_columns_are_crowded(run, tmp_path):
    """What was found in the file, or what was said of it; and no word of it where nothing was found."""
    rows = [f"{k},{k % 7};town {k % 120}" for k in range(240)]
    (tmp_path / "decimal.csv").write_text("\n".join(["dose;town", *rows]))
    (tmp_path / "plain.csv").write_text("\n".join(["dose,town", *(f"{k}.5,{'ab'[k % 2]}" for k in range(150))]))
    found = run("schema", "init", "decimal.csv")
    assert found.json()["cells"] == {"decimal": ",", "thousands": "."}
    assert "more than 100 different values: town. " in found.err
    said = run("schema", "init", "decimal.csv", "--decimal", ",", "--na", "unknown")
    assert said.json()["cells"] == {"na": ["unknown"], "decimal": ","}
    assert said.json()["columns"]["dose"]["kind"] == "number"
    plain = run("schema", "init", "plain.csv")
    assert "cells" not in plain.json()
    assert "different values" not in plain.err


def test_a_template_from_the_header_alone_does_not_depend_on_the_rows(new_hospital, run):
    words = ("schema", "init", "patients.csv", "--kinds-from-header-only")
    first = run(*words)
    header = (new_hospital / "patients.csv").read_text().splitlines()[0]
    (new_hospital / "patients.csv").write_text(f"{header}\n1,2,3,4,5,6\n")
    again = run(*words)
    assert first == again
    assert "looking at the rows" not in first.err
    assert {column["kind"] for column in first.json()["columns"].values()} == {None}


def test_a_template_is_refused_until_all_of_it_is_filled_in(new_hospital, run):
    raw = run("schema", "init", "patients.csv", "--kinds-from-header-only").json()
    path = new_hospital / "template.json"
    path.write_text(json.dumps(raw))
    left = run("schema", "check", "template.json")
    assert left.code == 2
    assert all(f"\n  {name}: write its kind" in left.err for name in raw["columns"])
    for name in ("patient", "sex", "ward", "death"):
        raw["columns"][name] |= {"kind": "category", "values": ["0", "1"]}
    for name in ("age", "weight"):
        raw["columns"][name]["kind"] = "number"
    path.write_text(json.dumps(raw))
    left = run("schema", "check", "template.json")
    assert left.err.count("write its public range") == 2
    trained = run("train", "patients.csv", "--schema", "template.json", "--epsilon", "1", "--out", "run")
    assert trained.code == 2
    assert "columns.age.low=None: this is not filled in yet: write its public range" in trained.err
    for name in ("age", "weight"):
        raw["columns"][name] |= {"low": 0, "high": 200}
    path.write_text(json.dumps(raw))
    assert run("schema", "check", "template.json").code == 0


def test_a_check_names_columns_that_cannot_be_read(new_hospital, run):
    path = new_hospital / "patients.csv"
    quiet = run("schema", "check", "patients.schema.json", "patients.csv")
    assert "is complete and matches patients.csv: 4 columns; dpmac train will make a classifier" in quiet.out
    assert "left out: 1 column of the file, not in the schema and seen by no model: patient" in quiet.out
    lines = path.read_text().splitlines()
    lines[1] = "p000,999,X,1,Z,1"  # one row out of range, with values that no one listed: clipped, or "other"
    path.write_text("\n".join(lines))
    assert run("schema", "check", "patients.schema.json", "patients.csv") == quiet
    lines[1] = "p000,old,F,heavy,A,1"
    path.write_text("\n".join(lines))
    done = run("schema", "check", "patients.schema.json", "patients.csv")
    assert done.code == 2
    assert "2 columns cannot be read" in done.err
    assert "patients.csv, line 2, column 'age'='old'" in done.err
    assert "patients.csv, line 2, column 'weight'='heavy'" in done.err


def test_ranges_are_estimated_paid_for_and_recorded(new_hospital, run):
    words = ["schema", "estimate", "patients.csv", "--schema", "half-done.json", "--ledger", "book.ledger"]
    done = run(*words, "--epsilon", "1", "--data-set", "patients")
    assert done.code == 0, done.err
    raw = json.loads(done.out)
    half = json.loads((new_hospital / "half-done.json").read_text())
    low, high = raw["columns"]["weight"]["low"], raw["columns"]["weight"]["high"]
    assert 0 < low < 70 < high < 200
    untouched = [name for name in half["columns"] if name != "weight"]
    assert all(raw["columns"][name] == half["columns"][name] for name in untouched)
    assert "estimated from 400 rows, for epsilon 1" in Schema.from_dict(raw).about
    ledger = Ledger.read(new_hospital / "book.ledger")
    assert (len(ledger), ledger.data_set, ledger.entries[0].label) == (1, "patients", "ranges")
    assert ledger.epsilon(1e-5) <= 1.0


REFUSED = [
    (["--epsilon", "0"], "epsilon=0.0"),
    (["--epsilon", "1", "--delta", "0.1"], "delta=0.1"),
    (["--epsilon", "1", "--schema", "patients.schema.json"], "there is nothing to estimate"),
    (["--epsilon", "1", "--out", "patients.csv/x"], "give a file in a folder that is there"),
    (["--epsilon", "1", "--schema", "none.json"], "none.json"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_a_wrong_estimate_spends_nothing(words, message, new_hospital, run):
    common = ["schema", "estimate", "patients.csv", "--schema", "half-done.json", "--ledger", "book.ledger"]
    done = run(*common, *words)
    assert done.code in (1, 2)
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (new_hospital / "book.ledger").exists()


def test_an_estimate_that_is_interrupted_leaves_what_others_have_paid(new_hospital, run, monkeypatch):
    """Found in an attack: it had begun the ledger, so it removed it, with six releases of another process in it."""
    from dpmac.privacy.entry import Entry
    from dpmac.tables import estimate

    def interrupted(*_, **__):
        other = Ledger.at(new_hospital / "book.ledger")
        for _ in range(6):
            other.append(Entry("training step", 1.0, 0.5))
        raise KeyboardInterrupt

    monkeypatch.setattr(estimate, "estimated_columns", interrupted)
    words = ["schema", "estimate", "patients.csv", "--schema", "half-done.json", "--ledger", "book.ledger"]
    assert run(*words, "--epsilon", "1").code == 130
    assert len(Ledger.read(new_hospital / "book.ledger")) == 6


IN_THE_WAY = [
    "no/where.json",
    "broken/where.json",
    "book.ledger",
    "./book.ledger",
    "book.ledger.seen",
    "patients.csv",
    "folder",
    "bad\udcff",
    "link.ledger",
]


@pytest.mark.parametrize("out", IN_THE_WAY)
def test_an_estimate_is_written_over_nothing_that_is_needed(out, new_hospital, run):
    """Found in an attack: the schema took the ledger's place, and a thousand releases were gone."""
    from dpmac.privacy.entry import Entry

    Ledger(new_hospital / "book.ledger").append(Entry("training step", 1.0, 0.5))
    (new_hospital / "folder").mkdir()
    (new_hospital / "broken").symlink_to(new_hospital / "nothing")
    (new_hospital / "link.ledger").symlink_to(new_hospital / "book.ledger")
    before = {path.name: path.read_bytes() for path in new_hospital.iterdir() if path.is_file()}
    words = ["schema", "estimate", "patients.csv", "--schema", "half-done.json", "--ledger", "book.ledger"]
    assert run(*words, "--epsilon", "1", "--out", out).code == 2
    assert {path.name: path.read_bytes() for path in new_hospital.iterdir() if path.is_file()} == before


def test_an_estimate_may_fill_in_its_own_template(new_hospital, run):
    words = ["schema", "estimate", "patients.csv", "--schema", "half-done.json", "--ledger", "book.ledger"]
    assert run(*words, "--epsilon", "1", "--out", "half-done.json").code == 0
    assert json.loads((new_hospital / "half-done.json").read_text())["columns"]["weight"]["low"] is not None


@pytest.mark.filterwarnings("default::dpmac.tables.agreement.SchemaWarning")
def test_a_file_that_disagrees_is_not_said_to_fit(new_hospital, run):
    raw = json.loads((new_hospital / "patients.schema.json").read_text())
    raw["columns"]["age"] |= {"low": 1000, "high": 2000}
    (new_hospital / "wrong.json").write_text(json.dumps(raw))
    done = run("schema", "check", "wrong.json", "patients.csv")
    assert done.code == 0
    assert "rows and schema disagree: column 'age'" in done.err
    assert "patients.csv can be read with it, but they disagree (see above)" in done.out
    assert "matches" not in done.out


def test_a_model_that_is_not_finished_points_to_resume(new_hospital, run):
    from dpmac.cli.jobs import JOB
    from dpmac.saving import manifest

    assert manifest.JOB == JOB
    (new_hospital / "half").mkdir()
    (new_hospital / "half" / JOB).write_text("{}")
    for command in (("predict", "half", "patients.csv"), ("report", "half"), ("evaluate", "half", "patients.csv")):
        done = run(*command)
        assert done.code == 1
        assert "its training was interrupted, or is still running. dpmac resume half  continues it" in done.err


# --- what a check says of columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "listed"), [(0, None), (1, "n00"), (20, "n19"), (21, "n19 and 1 more"), (25, "n19 and 5 more")]
)
def test_columns_that_are_left_out_are_named_up_to_twenty(count, listed):
    schema = SimpleNamespace(columns={"age": None})
    table = dict.fromkeys(["age", "who", *(f"n{k:02d}" for k in range(count))])
    said = schema_check._left_out(schema, table, "who")
    assert len(said) == (count > 0)
    if said:
        assert f"left out: {count} column" in said[0]
        assert said[0].endswith(listed)


def test_columns_of_ids_are_named_by_name_or_by_cells():
    """A name that may be a category's as well, "subject", is an id's if the schema has no list, or a long one."""
    few, many, none = (
        SimpleNamespace(classes=classes, ordered=False, dense=False)
        for classes in ([f"v{k}" for k in range(20)], [f"v{k}" for k in range(21)], None)
    )
    number = SimpleNamespace(classes=None, ordered=True, dense=True)
    cells = {
        "subject": ["a", "b"] * 50,
        "patient_id": ["a", "b"] * 50,
        "code": [f"c{k}" for k in range(100)],
        "age": range(100),
    }
    assert names_ids("subject") is False
    for column, sure in ((few, False), (many, True), (none, True), (number, True)):
        assert schema_check._is_id(column, cells, "subject") is sure
    assert schema_check._is_id(few, cells, "patient_id")
    assert schema_check._is_id(few, cells, "code")
    assert not schema_check._is_id(number, cells, "age")
    (said,) = schema_check._ids(SimpleNamespace(features={"subject": many, "code": few, "age": number}), cells)
    assert said.startswith("ids: subject, code: ")
    assert schema_check._ids(SimpleNamespace(features={"age": number}), cells) == []


def test_a_check_looks_at_persons_and_at_crowded_columns_at_epsilon_two(new_hospital, run, monkeypatch):
    asked = []
    monkeypatch.setattr(crowding, "crowding", lambda *given: asked.append(given[1:]) or "many values")
    done = run("schema", "check", "patients.schema.json", "patients.csv", "--groups", "patient")
    assert "many values" in done.out
    assert asked == [(400, 2.0, "person")]
