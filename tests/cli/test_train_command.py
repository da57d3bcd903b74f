"""``dpmac train``, ``predict``, ``evaluate``, ``inspect``: from a table to a model, and every way to ask wrongly."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import dpmac
from dpmac import DPMACClassifier, Schema
from dpmac.cli import places
from dpmac.cli.inspect import _words
from dpmac.privacy import Entry, Ledger
from dpmac.tables import Category, Number
from dpmac.tables.files import csv_text

TRAIN = ["train", "patients.csv", "--schema", "patients.schema.json", "--epsilon", "1", "--out", "run"]


def table_of(path):
    with path.open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    return {name: [row[name] for row in rows] for name in rows[0]}


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_a_file_becomes_a_model_that_says_what_it_cost(adult):
    model = dpmac.load(adult.run)
    assert model.privacy_.epsilon <= 2.0
    assert "epsilon = 2.00" in adult.said.out
    assert "auroc on the public rows" in adult.said.out
    ledger = Ledger.read(adult.ledger)
    assert len(ledger) == len(model.privacy_.ledger)
    assert {entry.model for entry in ledger.entries} == {"first"}
    assert not (adult.run / "job.json").exists()
    assert not (adult.run / "checkpoint").exists()
    kept = json.loads((adult.run / "evaluation.json").read_text())
    assert (kept["rows"], kept["public"], kept["file"]) == (300, True, "test.csv")
    assert sum(b["rows"] for b in kept["reliability"]) == 300


def test_predictions_are_the_models_own(adult, run, tmp_path):
    done = run("predict", adult.run, adult.folder / "test.csv", "--id", "age", "--out", "p.csv")
    assert done.code == 0, done.err
    said, table = table_of(tmp_path / "p.csv"), table_of(adult.folder / "test.csv")
    model = dpmac.load(adult.run)
    assert list(said) == ["age", "prediction", "p_<=50K", "p_>50K"]
    assert said["age"] == table["age"]
    assert said["prediction"] == model.predict(table).tolist()
    assert np.array_equal(np.array(said["p_>50K"], dtype=float), model.predict_proba(table)[:, 1])
    assert run("predict", adult.run, adult.folder / "test.csv", "--out", "p.csv").code == 2
    assert run("predict", adult.run, adult.folder / "test.csv", "--out", "p.csv", "--force").code == 0
    assert list(table_of(tmp_path / "p.csv")) == ["prediction", "p_<=50K", "p_>50K"]
    shown = run("predict", adult.run, adult.folder / "test.csv")
    assert shown.out == (tmp_path / "p.csv").read_text()


def test_predictions_hold_no_formula_of_a_spreadsheet(run, tmp_path):
    labels, ids = ["=1+1", "-1"] * 20, ["@SUM(A1)", "-7", "+cmd", "a"] * 10
    schema = Schema({"a": Number(0, 1), "y": Category(["=1+1", "-1"])}, target="y")
    table = {"a": [0.0, 1.0] * 20, "y": labels}
    DPMACClassifier((2,), schema=schema, epochs=2, epsilon=math.inf).fit(table).save(tmp_path / "run")
    (tmp_path / "rows.csv").write_text(csv_text({"=who": ids, "a": table["a"]}))
    assert run("predict", "run", "rows.csv", "--id", "=who", "--out", "p.csv").code == 0
    said = table_of(tmp_path / "p.csv")
    assert list(said) == ["'=who", "prediction", "p_-1", "p_=1+1"]
    assert said["'=who"] == ["'@SUM(A1)", "-7", "'+cmd", "a"] * 10
    assert set(said["prediction"]) <= {"'=1+1", "-1"}
    assert run("predict", "run", "rows.csv").out.splitlines()[0] == "prediction,p_-1,p_=1+1"


def test_a_run_folder_names_no_place_on_this_machine(adult, run):
    shutil.copytree(adult.run, "run")
    assert run("report", "run").code == 0
    for path in Path("run").iterdir():
        assert str(adult.folder).encode() not in path.read_bytes(), path.name


def test_scores_are_right_and_kept_only_of_public_rows(adult, run, tmp_path):
    from sklearn.metrics import log_loss, roc_auc_score

    copy = shutil.copytree(adult.run, tmp_path / "copy")
    (copy / "evaluation.json").unlink()
    done = run("evaluate", copy, adult.folder / "test.csv", "--json")
    assert "outside the guarantee" in done.err
    assert not (copy / "evaluation.json").exists()
    table, model = table_of(adult.folder / "test.csv"), dpmac.load(copy)
    happened = np.array(table["income"]) == ">50K"
    p = model.predict_proba(table)
    scores = done.json()["scores"]
    assert scores["auroc"] == pytest.approx(roc_auc_score(happened, p[:, 1]))
    assert scores["log_loss"] == pytest.approx(log_loss(happened, p[:, 1]))
    assert scores["accuracy"] == pytest.approx(model.score(table, table["income"]))
    public = run("evaluate", copy, adult.folder / "test.csv", "--public", "--json")
    assert public.err == ""
    assert json.loads((copy / "evaluation.json").read_text()) == public.json()


def test_inspect_names_a_hundred_columns_at_most():
    assert _words("columns", ["a", "b"]) == "a, b"
    many = _words("columns", [f"c{k}" for k in range(3000)])
    assert many.endswith("c98, c99, and 2,900 more (--json has all)")


def test_inspect_says_epsilon_as_the_statement_does():
    assert [_words("epsilon", e) for e in (1.9999, 2.0, 0.00123)] == ["2.00", "2.00", "0.0013"]


def test_inspect_tells_what_lies_there(adult, run):
    found = run("inspect", adult.run, "--json").json()
    assert (found["finished"], found["estimator"], found["target"]) == (True, "DPMACClassifier", "income")
    assert found["epsilon"] == pytest.approx(dpmac.load(adult.run).privacy_.epsilon)
    assert found["seeded"] is True
    assert "model.safetensors" in run("inspect", adult.run).out
    assert "is finished" in run("resume", adult.run).err


def test_a_number_makes_a_regressor_and_no_target_an_autoencoder(new_hospital, run):
    fast = ("--epochs", "2", "--epsilon", "5", "--hidden", "none", "--quiet", "--json")
    found = run(*TRAIN, "--target", "weight", *fast).json()
    assert found["estimator"] == "DPMACRegressor"
    rows = run("predict", "run", "test-patients.csv").out.splitlines()
    assert rows[0] == "prediction,std"
    assert 30 <= float(rows[1].split(",")[0]) <= 200
    scores = run("evaluate", "run", "test-patients.csv", "--json").json()["scores"]
    assert scores.keys() == {"rmse", "mean_absolute_error", "r2"}
    found = run(*TRAIN[:-1], "codes", "--autoencoder", *fast).json()
    assert found["estimator"] == "DPMACAutoencoder"
    codes = run("predict", "codes", "patients.csv").out.splitlines()
    assert codes[0].startswith("code_1,")
    assert codes[0].endswith(",reconstruction_error")
    assert len(codes) == 401


# --- what is refused, before anything is spent ------------------------------------------------------------------------


def spoilt(folder, **cells):
    """patients.csv with other cells in row 3, or without a column (None)."""
    lines = [line.split(",") for line in (folder / "patients.csv").read_text().splitlines()]
    for name, cell in cells.items():
        place = lines[0].index(name)
        if cell is None:
            lines = [line[:place] + line[place + 1 :] for line in lines]
        else:
            lines[3][place] = cell
    (folder / "patients.csv").write_text("\n".join(map(",".join, lines)) + "\n")


REFUSED = [
    ({"age": None}, [], 2, "it has no column 'age'"),
    ({"weight": "heavy"}, [], 2, "patients.csv, line 4, column 'weight'='heavy': this column holds numbers"),
    ({"weight": ""}, [], 2, "patients.csv, line 4, column 'weight'=None: the cell is missing"),
    ({"death": "maybe"}, [], 2, "patients.csv, line 4, column 'death'='maybe': this label is not among classes="),
    ({}, ["--target", "deaht"], 2, "target='deaht': it is not among the columns"),
    ({}, ["--schema", "none.json"], 2, "there is no such file: make a template with  dpmac schema init"),
    ({}, ["--schema", "half-done.json"], 2, "half-done.json: columns.weight.low=None: this is not filled in yet"),
    ({}, ["--schema", "patients.csv"], 2, "this file is not JSON"),
    ({}, ["--epsilon", "0"], 2, "--epsilon=0.0: give a number above 0"),
    ({}, ["--delta", "0.5"], 2, "delta=0.5: it must be below 1/n"),
    ({}, ["--hidden", "many"], 2, "--hidden='many': give whole numbers"),
    ({}, ["--batch-size", "1000"], 2, "batch_size=1000.0: it cannot exceed n=400"),
    ({}, ["--total-epsilon", "0.5"], 1, "total_epsilon=0.5: the ledger holds 0.00 already"),
    ({}, ["--out", "patients.csv/run"], 2, "nothing can be written in"),
    ({}, ["--out", "."], 2, "--out='.': it exists"),
    ({}, ["--ledger", "patients.csv"], 2, "it would be written over file patients.csv"),
    ({}, ["--ledger", "nowhere/here/l.ledger", "--epochs", "-1"], 2, "epochs=-1.0"),
    ({}, ["--public-test", "new-patients.csv"], 2, "it has no column 'death'"),
]


@pytest.mark.parametrize(("cells", "words", "code", "message"), REFUSED, ids=[m[:40] for *_, m in REFUSED])
def test_what_is_wrong_is_said_and_nothing_is_spent_or_left(cells, words, code, message, new_hospital, run):
    spoilt(new_hospital, **cells)
    before = sorted(new_hospital.iterdir())
    done = run(*TRAIN, "--ledger", "book.ledger", *words)
    assert done.code == code, done.err
    assert message in done.err
    assert "Traceback" not in done.err
    assert [path for path in sorted(new_hospital.iterdir()) if path.name != "nowhere"] == before


def test_a_full_disk_is_noticed_before_the_start(new_hospital, run, monkeypatch):
    monkeypatch.setattr(places, "FREE_SPACE", 2**60)
    done = run(*TRAIN)
    assert done.code == 1
    assert "MB are free in" in done.err
    assert not (new_hospital / "run").exists()


def test_the_ledger_inside_a_finished_run_is_not_gone_on_with(adult, new_hospital, run):
    done = run(*TRAIN, "--ledger", adult.run / "ledger.jsonl")
    assert done.code == 2
    assert "must stay as it is" in done.err


def test_another_data_sets_ledger_is_refused(new_hospital, run):
    Ledger(new_hospital / "book.ledger", "another").append(Entry("mean", 1.0, 1.0))
    done = run(*TRAIN, "--ledger", "book.ledger", "--data-set", "patients")
    assert done.code == 2
    assert "the ledger is of the data set 'another'" in done.err
    assert not (new_hospital / "run").exists()


# --- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["inspect", "predict", "evaluate", "report", "export"])
def test_truncated_weights_are_named(command, adult, run, tmp_path):
    copy = shutil.copytree(adult.run, tmp_path / "copy")
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    more = {"predict": [adult.folder / "test.csv"], "evaluate": [adult.folder / "test.csv"]}.get(command, [])
    more += ["--torch", "x.pt2"] if command == "export" else []
    done = run(command, copy, *more)
    assert done.code == 1
    assert "model.safetensors is not what was saved" in done.err
    assert done.err.count("\n") == 1


def test_what_is_no_run_folder_is_said(run, tmp_path):
    for words in (["inspect", tmp_path], ["resume", tmp_path], ["predict", tmp_path / "none", tmp_path / "x.csv"]):
        done = run(*words)
        assert done.code in (1, 2)
        assert str(tmp_path) in done.err
        assert done.err.count("\n") == 1


def test_missing_columns_are_all_named(adult, run, tmp_path):
    (tmp_path / "few.csv").write_text("age,sex\n30,Male\n")
    done = run("predict", adult.run, "few.csv")
    assert done.code == 2
    assert "'workclass', 'education'" in done.err
    assert "income" not in done.err  # the target is not needed


def test_a_bug_can_be_looked_at(adult, run, monkeypatch):
    monkeypatch.setenv("DPMAC_TRACEBACK", "1")
    monkeypatch.setattr(sys, "argv", ["dpmac", "inspect", "nowhere"])
    from dpmac import cli

    with pytest.raises(FileNotFoundError):
        cli.main()
