"""``train --additive``, ``edit``, ``predict --explain`` and ``export --json``."""

from __future__ import annotations

import csv
import io
import json
import shlex

import numpy as np
import pytest

import dpmac

TRAIN = "train patients.csv --schema patients.schema.json --target death --epsilon 2 --epochs 5 --seed 3 --quiet"
TRAIN += " --batch-size 400"  # all of them: quickly planned
SAID = '--who "A. Mills" --why agreed'


@pytest.fixture
def readable(run, new_hospital):
    done = run(*shlex.split(f"{TRAIN} --out readable --additive --pair age,sex --monotone age=+1 --searched no"))
    assert done.code == 0, done.err
    return new_hospital


def cells(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_an_additive_model_from_a_file_to_an_explanation(run, readable):
    job = dpmac.load("readable")
    assert job.get_params()["additive"] == [("age", "sex")]
    assert job.get_params()["monotone"] == {"age": 1}
    done = run("predict", "readable", "new-patients.csv", "--explain")
    assert done.code == 0, done.err
    for row in cells(done.out):
        total = sum(float(value) for name, value in row.items() if name.startswith(("term_", "intercept")))
        assert 1 / (1 + np.exp(-total)) == pytest.approx(float(row["p_1"]), abs=1e-9)
    assert "term_age x sex" in row
    assert run("export", "readable", "--json", "terms.json").code == 0
    assert json.loads((readable / "terms.json").read_text())["link"] == "logistic"
    assert run("report", "readable").code == 0


def test_edits_are_kept_named_and_taken_back(run, readable):
    words = (
        f'edit readable --out edited --remove "age x sex" --set sex:F=0.25 --set age:0=1 --monotone weight=-1 {SAID}'
    )
    done = run(*shlex.split(words))
    assert done.code == 0, done.err
    assert "'sex' changed by hand by A. Mills" in done.out
    model = dpmac.load("edited")
    assert [edit.action for edit in model.edits_] == ["monotone", "remove", "set", "set"]
    assert model.terms()["sex"].values[0] == 0.25
    assert (readable / "edited" / "declared.json").read_bytes() == (
        readable / "readable" / "declared.json"
    ).read_bytes()
    assert run("edit", "edited", "--out", "back", "--undo", "4").code == 0
    before, after = (run("predict", name, "new-patients.csv").out for name in ("readable", "back"))
    assert before == after


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("edit readable --out edited", "say what to edit"),
        (f"edit readable --out readable --remove sex {SAID}", "give a new one"),
        ("edit readable --out edited --remove sex --why x", "say who edits"),
        (f"edit readable --out edited --remove sx {SAID}", "did you mean 'sex'"),
        (f"edit readable --out edited --set sex=1 {SAID}", "TERM:POINT=VALUE"),
        (f"edit readable --out edited --set sex:F=x {SAID}", "TERM:POINT=VALUE"),
        (f"edit readable --out edited --monotone age {SAID}", "such as age=+1"),
        ("edit readable --out edited --undo 1", "nothing to take back"),
        (f"{TRAIN} --out other --monotone age=+1", "add --additive"),
        (f"{TRAIN} --out other --additive --pair age", "give two columns"),
        (f"{TRAIN} --out other --additive --hidden 8", "hidden units"),
        (f"{TRAIN} --out other --additive --monotone sex=1", "no order"),
    ],
)
def test_what_cannot_be_makes_nothing(run, readable, words, said):
    done = run(*shlex.split(words))
    assert done.code not in (0, None)
    assert said in done.err
    assert not (readable / "edited").exists()
    assert not (readable / "other").exists()


def test_a_model_of_another_kind_explains_nothing(run, new_hospital):
    assert run(*shlex.split(f"{TRAIN} --out first")).code == 0
    for words in ("predict first new-patients.csv --explain", f"edit first --out x --remove sex {SAID}"):
        done = run(*shlex.split(words))
        assert done.code != 0
        assert "no sum of terms" in done.err
    assert "additive=True" in run("export", "first", "--json", "x.json").err
