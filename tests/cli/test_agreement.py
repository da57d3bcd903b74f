"""Data and schema that disagree, on the command line: said to the holder; ``--strict`` ends it; never published."""

from __future__ import annotations

import json

import pytest

from cli.messy import visits, write_schema, write_visits

pytestmark = [
    pytest.mark.filterwarnings("default::dpmac.tables.agreement.SchemaWarning"),  # as for a user
    pytest.mark.filterwarnings("ignore:rows share the ids"),
]
ROWS = visits()
TRAIN = ["train", "visits.csv", "--schema", "visits.json", "--epsilon", "1", "--out", "run", "--epochs", "2"]
TRAIN += ["--groups", "patient_id", "--ledger", "book.ledger", "--seed", "1"]
CHECK = ["schema", "check", "visits.json", "visits.csv", "--groups", "patient_id"]
WRONG = {
    "ward": str.lower,
    "emergency": {"True": "yes", "False": "no"}.get,
    "age": lambda cell: str(1000 + int(cell)),
}
SAID = [
    "column 'ward': of 600 cells 600 are none of its values and count as 'other'",
    "column 'emergency': of 600 cells 600 are none",
    "column 'age': of 600 cells 600 lie outside 0 to 120 and are clipped",
]


@pytest.fixture
def right(tmp_path):
    """A file and its schema, which agree."""
    rows = [{**row, "age": row["age"] if row["age"].isdigit() else "50"} for row in ROWS]
    write_visits(tmp_path / "visits.csv", rows)
    write_schema(tmp_path / "visits.json")
    return tmp_path, rows


@pytest.fixture
def wrong(right):
    folder, rows = right
    write_visits(folder / "visits.csv", rows, **WRONG)
    return folder


def test_a_check_says_what_disagrees_with_counts_and_that_no_guarantee_covers_it(wrong, run):
    done = run(*CHECK)
    assert done.code == 0
    assert all(words in done.err for words in SAID)
    assert "outside the guarantee: they are shown to you alone" in done.err
    assert done.err.count("\n") == 1
    strict = run(*CHECK, "--strict")
    assert strict.code == 2
    assert strict.err.startswith("dpmac: --strict: rows and schema disagree: column 'age'")


def test_rows_that_agree_are_silent_and_strict_goes_through(right, run):
    done = run(*CHECK, "--strict")
    assert (done.code, done.err) == (0, "")
    assert run(*TRAIN, "--strict", "--quiet").err == ""


def test_train_and_predict_warn_and_nothing_of_it_is_published(wrong, run):
    done = run(*TRAIN, "--quiet", "--json")
    assert done.code == 0
    assert all(words in done.err for words in SAID)
    assert "disagree" not in done.out
    assert run("report", "run").code == 0
    published = [path for path in (wrong / "run").rglob("*") if path.is_file()] + [wrong / "book.ledger"]
    assert {"statement.txt", "README.md", "report.html", "ledger.jsonl"} <= {path.name for path in published}
    for path in published:
        content = path.read_bytes()
        for word in (b"disagree", b"are none of its values", b"and are clipped: compare", b"SchemaWarning"):
            assert word not in content, path.name
    said = run("predict", "run", "visits.csv", "--out", "p.csv")
    assert said.code == 0
    assert all(words in said.err for words in SAID)
    assert "disagree" not in (wrong / "p.csv").read_text()
    stopped = run("predict", "run", "visits.csv", "--out", "q.csv", "--strict")
    assert stopped.code == 2
    assert not (wrong / "q.csv").exists()


def test_a_strict_training_spends_nothing_and_leaves_nothing(wrong, run):
    before = sorted(path.name for path in wrong.iterdir())
    done = run(*TRAIN, "--strict")
    assert done.code == 2
    assert "--strict: rows and schema disagree" in done.err
    assert sorted(path.name for path in wrong.iterdir()) == before


SPOILT = [
    ({"readmitted": lambda cell: "maybe" if cell == "yes" else cell}, {}, "this label is not among"),
    ({"readmitted": lambda cell: "" if cell == "yes" else cell}, {"readmitted": {"missing": True}}, "missing"),
    ({"patient_id": lambda cell: "" if cell.endswith("7") else cell}, {}, "groups"),
    ({"age": lambda cell: "old" if cell == "50" else cell}, {}, "column 'age'"),
]


@pytest.mark.parametrize(("cells", "columns", "said"), SPOILT, ids=[s for _, _, s in SPOILT])
def test_a_check_stops_where_a_training_would(cells, columns, said, right, run):
    """A third class in the target passed the one and stopped the other."""
    folder, rows = right
    write_visits(folder / "visits.csv", rows, **cells)
    raw = json.loads((folder / "visits.json").read_text())
    for name, more in columns.items():
        raw["columns"][name] |= more
    (folder / "visits.json").write_text(json.dumps(raw))
    checked, trained = run(*CHECK), run(*TRAIN)
    assert (checked.code, trained.code) == (2, 2)
    assert said in checked.err
    assert said in trained.err
    assert not (folder / "book.ledger").exists()


def test_a_check_takes_another_target_as_train_does(right, run):
    assert "make a regressor" in run(*CHECK, "--target", "age").out
    assert "make an autoencoder" in run(*CHECK, "--autoencoder").out
    assert "'nothing'" in run(*CHECK, "--target", "nothing").err


def test_columns_left_out_and_ids_kept_are_named(right, run):
    folder, _ = right
    ids = {"kind": "category", "values": ["V000001", "V000002"]}
    write_schema(folder / "visits.json", visit_id=ids, age=None)
    done = run(*CHECK)
    assert "left out: 5 columns of the file, not in the schema and seen by no model: postal_code" in done.out
    assert "ids: visit_id: an id of a person teaches nothing" in done.out
    write_schema(folder / "visits.json", patient_id={"kind": "number", "low": 0, "high": 1e6})
    write_visits(folder / "visits.csv", visits(), age=lambda _: "50", patient_id=lambda cell: cell[1:])
    assert "ids: patient_id: " in run("schema", "check", "visits.json", "visits.csv").out
