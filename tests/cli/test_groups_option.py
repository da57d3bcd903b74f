"""``--groups COLUMN``: from a file in which persons have several rows to a model that protects persons."""

from __future__ import annotations

import csv
import json
import os
import re

import pytest

import dpmac
from dpmac.cli.jobs import Job
from dpmac.privacy import Ledger
from dpmac.training import Trainer

TRAIN = ["train", "visits.csv", "--schema", "patients.schema.json", "--epsilon", "1", "--epochs", "6"]
TRAIN += ["--batch-size", "400", "--hidden", "none", "--quiet"]
pytestmark = pytest.mark.filterwarnings("default::dpmac.PrivacyWarning")  # written to standard error
UNIT = "one person, all rows with the same 'patient', there or blank"


@pytest.fixture
def hospital(new_hospital):
    """The patients of the examples, each with one row to three."""
    with (new_hospital / "patients.csv").open(newline="") as handle:
        head, *rows = csv.reader(handle)
    with (new_hospital / "visits.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([head, *(row for turn in range(3) for k, row in enumerate(rows) if k % 3 >= turn)])
    return new_hospital


def test_a_file_of_visits_becomes_a_model_that_protects_patients(hospital, run):
    done = run(*TRAIN, "--groups", "patient", "--out", "run", "--ledger", "l", "--json")
    assert done.code == 0, done.err
    answer = done.json()
    assert answer["persons"] == 400
    assert "rows" not in answer
    model = dpmac.load(hospital / "run")
    assert (model.plan_.n, model.max_rows) == (400, 4)
    assert "patient" not in model.schema.columns
    assert UNIT in str(model.privacy_.statement())
    found = run("inspect", "run", "--json").json()
    assert found["persons"] == 400
    assert UNIT in found["unit"]
    assert UNIT in (hospital / "run" / "statement.txt").read_text()
    assert Ledger.read(hospital / "l").unit == "person by patient"
    texts = [path.read_text() for path in (hospital / "run").iterdir() if path.suffix in (".json", ".md", ".txt")]
    assert not any(re.search(r"(?<![\w.])799(?![\w.])", text) for text in texts)  # the number of rows in all
    assert run("predict", "run", "new-patients.csv").code == 0
    assert run("report", "run").code == 0
    said = run(*TRAIN, "--groups", "patient", "--out", "other", "--ledger", "l")
    assert said.code == 0, said.err


def test_the_column_is_no_input_even_if_the_schema_has_it(hospital, run):
    raw = json.loads((hospital / "patients.schema.json").read_text())
    raw["columns"]["patient"] = {"kind": "category", "values": ["p001", "p002"]}
    (hospital / "patients.schema.json").write_text(json.dumps(raw))
    assert run(*TRAIN, "--groups", "patient", "--max-rows", "1", "--out", "run").code == 0
    model = dpmac.load(hospital / "run")
    assert "patient" not in model.schema.columns
    assert model.max_rows == 1


def test_a_ledger_of_rows_is_not_gone_on_with_for_persons_nor_the_other_way_round(hospital, run):
    assert run(*TRAIN, "--out", "rows", "--ledger", "rows.ledger").code == 0
    done = run(*TRAIN, "--groups", "patient", "--out", "run", "--ledger", "rows.ledger")
    assert done.code == 2
    assert "whose unit of privacy is a row" in done.err
    assert not (hospital / "run").exists()
    estimated = ["schema", "estimate", "visits.csv", "--schema", "half-done.json", "--epsilon", "9", "--ledger", "p"]
    done = run(*estimated, "--groups", "patient", "--out", "whole.json")
    assert done.code == 0, done.err
    assert "400 persons" in json.loads((hospital / "whole.json").read_text())["about"]
    assert run(*TRAIN, "--out", "run", "--ledger", "p").code == 2
    assert run(*TRAIN, "--groups", "patient", "--out", "run", "--ledger", "p").code == 0


def test_rows_that_share_ids_are_warned_of_and_wrong_columns_are_named(hospital, run):
    assert "rows share the ids of column 'patient'" in run(*TRAIN, "--out", "run").err
    for column, said in (("death", "it is the target"), ("patiend", "did you mean 'patient'")):
        done = run(*TRAIN, "--groups", column, "--out", "other")
        assert (done.code, said in done.err) == (2, True), done.err
    assert run(*TRAIN, "--groups", "patient", "--max-rows", "0", "--out", "other").code == 2
    text = (hospital / "visits.csv").read_text().replace("p007,", ",", 1)
    (hospital / "visits.csv").write_text(text)
    done = run(*TRAIN, "--groups", "patient", "--out", "other")
    assert done.code == 2
    assert "visits.csv, line 9, groups=''" in done.err
    assert not (hospital / "other").exists()


def test_resume_remembers_whose_the_rows_are(hospital, run, monkeypatch):
    words = [*TRAIN, "--groups", "patient", "--max-rows", "2", "--seed", "3"]
    assert run(*words, "--out", "whole").code == 0
    step, made = Trainer._step, []

    def interrupted(self, *what):
        made.append(1)
        if len(made) == 4:
            raise KeyboardInterrupt
        step(self, *what)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", interrupted)
        assert run(*words, "--out", "run").code == 130
    job = Job.load(hospital / "run")
    assert (job.groups, job.max_rows, job.rows) == ("patient", 2, 400)
    assert run("inspect", "run", "--json").json()["persons"] == 400
    whole, dates = (hospital / "visits.csv").read_text(), (hospital / "visits.csv").stat()
    (hospital / "visits.csv").write_text(whole.replace("p017", "p018"))
    assert "399 persons, and the training began with 400" in run("resume", "run").err
    (hospital / "visits.csv").write_text(whole)
    os.utime(hospital / "visits.csv", ns=(dates.st_atime_ns, dates.st_mtime_ns))
    assert run("resume", "run").code == 0
    models = [dpmac.load(hospital / name) for name in ("whole", "run")]
    assert models[0].network_.weight_layers[0].matrix().equal(models[1].network_.weight_layers[0].matrix())
    assert models[1].privacy_.ledger.unit == "person by patient"


def test_a_job_of_an_older_version_is_of_rows(tmp_path):
    job = Job("f.csv", {}, "l", 1.0)
    job.save(tmp_path)
    raw = json.loads((tmp_path / "job.json").read_text())
    del raw["groups"], raw["max_rows"]
    (tmp_path / "job.json").write_text(json.dumps(raw))
    assert Job.load(tmp_path) == job
    assert job.unit == "rows"
