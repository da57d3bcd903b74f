"""A rare target on the command line: no score alone, and a threshold that calls whom it says."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, log_loss, recall_score

import dpmac
from dpmac.cli.scores import evaluation_of
from dpmac.data import load_table


@pytest.fixture
def first(adult, tmp_path):
    shutil.copytree(adult.run, tmp_path / "first")
    shutil.copy(adult.folder / "test.csv", tmp_path / "test.csv")
    return tmp_path / "first"


@pytest.fixture(scope="module")
def known(adult):
    table = {name: cells[:300] for name, cells in load_table().test.items()}
    model = dpmac.load(adult.run)
    return table, model, np.array([label == ">50K" for label in table["income"]]), model.predict_proba(table)[:, 1]


def test_scores_are_scikit_learns_and_none_stands_alone(known):
    table, model, came, p = known
    found = evaluation_of(model, model.schema, table, "x", public=True, threshold=0.2)["scores"]
    assert found["average_precision"] == pytest.approx(average_precision_score(came, p))
    assert found["base_rate"] == pytest.approx(came.mean())
    assert found["sensitivity_at_0.2"] == pytest.approx(recall_score(came, p >= 0.2))
    assert found["specificity_at_0.2"] == pytest.approx(recall_score(~came, p < 0.2))
    assert found["log_loss"] == pytest.approx(log_loss(came, p))
    assert found["log_loss_of_base_rate"] == pytest.approx(log_loss(came, np.full(len(came), came.mean())))
    assert found["accuracy_of_commonest_class"] == pytest.approx(max(came.mean(), 1 - came.mean()))
    assert next(iter(found)) == "auroc"


def test_a_report_shows_each_score_beside_what_it_must_be_seen_beside(first, run):
    assert run("evaluate", "first", "test.csv", "--public").code == 0
    kept = json.loads((first / "evaluation.json").read_text())
    assert run("report", "first").code == 0
    page = (first / "report.html").read_text()
    text = " ".join(re.sub(r"<[^>]+>", " ", page.split("</style>")[1]).split())
    for words in ("for always saying the commonest class", "for drawing lots, the base rate", "A threshold to choose"):
        assert words in text, words
    head = page[: page.index('<section id="scores"')]
    assert "<dt>accuracy</dt>" not in head
    kept["thresholds"][0]["sensitivity"] = 2
    (first / "evaluation.json").write_text(json.dumps(kept))
    done = run("report", "first")
    assert done.code == 1
    assert "evaluation.json" in done.err


@pytest.mark.parametrize("threshold", ["0", "0.13", "0.5", "1"])
def test_a_threshold_calls_whom_it_says_and_leaves_probabilities(first, run, threshold):
    rows = list(csv.DictReader(io.StringIO(run("predict", "first", "test.csv", "--threshold", threshold).out)))
    assert [row["prediction"] == ">50K" for row in rows] == [float(row["p_>50K"]) >= float(threshold) for row in rows]
    plain = list(csv.DictReader(io.StringIO(run("predict", "first", "test.csv").out)))
    assert [row["p_>50K"] for row in rows] == [row["p_>50K"] for row in plain]


@pytest.mark.parametrize("command", [["predict", "first", "test.csv"], ["evaluate", "first", "test.csv"]])
def test_what_is_no_probability_is_refused(first, run, command):
    for threshold in ("1.5", "-1", "nan"):
        done = run(*command, "--threshold", threshold)
        assert (done.code, done.out) == (2, "")
        assert "--threshold" in done.err


def test_a_model_that_calls_nobody_takes_no_threshold():
    from types import SimpleNamespace

    from dpmac.checks import ArgumentError
    from dpmac.cli.predict import check_threshold

    two = SimpleNamespace(predict_proba=None, classes_=["a", "b"])
    check_threshold(two, 0.1)
    check_threshold(SimpleNamespace(), None)
    both = SimpleNamespace(predict_proba=None, classes_=["a", "b"], _indicator="labels")
    three = SimpleNamespace(predict_proba=None, classes_=["a", "b", "c"])
    for model in (SimpleNamespace(), both, three):
        with pytest.raises(ArgumentError, match="leave it out"):
            check_threshold(model, 0.1)
