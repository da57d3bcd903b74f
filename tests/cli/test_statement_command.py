"""``dpmac statement``, ``key``, ``sign`` and ``verify``: from questions to a folder that can be checked."""

from __future__ import annotations

import json
import os
import shutil
import tomllib

import numpy as np
import pytest

import dpmac
from dpmac import DPMACClassifier
from dpmac.disclosure.answers import QUESTIONS, read_answers, template


@pytest.fixture
def first(adult, tmp_path, run):
    shutil.copytree(adult.run, tmp_path / "first")
    return tmp_path / "first"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes")
def test_answers_that_are_no_file_are_not_waited_for(first, run):
    """A pipe in a folder from somebody else would be read for ever."""
    os.mkfifo(first / "answers.toml")
    for words in (["statement", "first"], ["report", "first"], ["sign", "first", "--key", "x", "--by", "y"]):
        done = run(*words)
        assert done.code == 1
        assert "answers.toml is not a file" in done.err


def test_what_is_said_next_can_be_done(first, run):
    said = run("statement", "init", "first").out.rpartition("then")[2].split()
    assert said[0] == "dpmac"
    assert run(*said[1:]).code == 0


def test_a_hand_over_is_signed_and_checked(first, run):
    assert run("key", "officer.key").code == 0
    done = run("sign", "first", "--key", "officer.key", "--by", "A. Mills")
    assert done.code == 2
    assert "statement init first" in done.err
    assert run("statement", "init", "first").code == 0
    assert run("statement", "init", "first").code == 2  # nothing is written over
    path = first / "answers.toml"
    path.write_text(path.read_text().replace('searched = ""', 'searched = "no"'))
    assert "nobody has answered" not in run("statement", "first").out
    done = run("sign", "first", "--key", "officer.key", "--by", "A. Mills")
    assert (done.code, done.err) == (0, "")
    done = run("verify", "first")
    assert done.code == 0
    assert "anybody could have made it" in done.out
    assert "answers.toml" in done.out
    done = run("verify", "first", "--by", "officer.key.pub", "--json")
    assert done.json()["as_signed"]
    assert done.json()["known_key"]
    (first / "note").write_text("x")
    done = run("verify", "first", "--key", "officer.key.pub", "--json")
    assert done.code == 1
    assert json.loads(done.out) == {"as_signed": False, "findings": ["note was added"]}
    assert "note was added" in done.err


def test_a_statement_has_the_curve_and_the_details(first, run):
    found = run("statement", "show", "first", "--json").json()
    curve = [(point["delta"], point["epsilon"]) for point in found["curve"]]
    assert curve == sorted(curve)
    assert [epsilon for _, epsilon in curve] == sorted((epsilon for _, epsilon in curve), reverse=True)
    assert dict(curve)[found["delta"]] == found["epsilon"]
    said = run("statement", "first").out
    assert "zero-out" in said
    assert "The whole curve" in said
    assert found["spent"]["budget"] == 2.0
    assert {
        "variant",
        "neighbours",
        "clipping",
        "divisor",
        "sampling",
        "floating_point",
        "randomness",
        "audit",
        "code",
    } <= (set(found["details"]))


def test_questions_come_back_as_they_were_answered(tmp_path):
    known = {one.key: "x" for one in QUESTIONS} | {
        "searched": "no", "curators": ['A "quoted" \\ name', "é\x7f"], "authors": ["b"],
        "publication_date": "2026-02-28", "sector": "Healthcare", "description": "two\nlines",
    }  # fmt: skip
    (tmp_path / "answers.toml").write_text(template(known), "utf-8")
    assert dict(read_answers(tmp_path).given) == known
    assert read_answers(tmp_path).missing() == []
    (tmp_path / "answers.toml").write_text(template({}), "utf-8")
    assert dict(read_answers(tmp_path).given) == {}
    assert set(read_answers(tmp_path).missing()) == {one.key for one in QUESTIONS if one.needed}
    assert set(tomllib.loads(template({}))) == {one.key for one in QUESTIONS}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("searched = maybe", "not TOML"),
        ('searched = "maybe"', "one of no, public"),
        ('purpos = "x"', "did you mean 'purpose'"),
        ('curators = "one"', "give a list"),
        ("authors = [1]", "give a text"),
        ("name = 3", "give a text"),
        ('publication_date = "2026-02-30"', "YYYY-MM-DD"),
    ],
)
def test_an_answer_that_cannot_be_read_is_named(first, run, text, said):
    (first / "answers.toml").write_text(text)
    done = run("report", "first")
    assert done.code == 2
    assert "answers.toml" in done.err
    assert said in done.err
    assert not (first / "report.html").exists()


def test_an_entry_for_the_registry_asks_first_and_is_then_whole(tmp_path, run):
    draw = np.random.default_rng(0)
    X = draw.uniform(size=(100, 2))
    model = DPMACClassifier((), epsilon=1.0, epochs=1, feature_range=(0, 1)).fit(X, X[:, 0] > 0.5)
    first = dpmac.save(model, tmp_path / "first")
    assert run("statement", "first", "--registry").code == 2
    run("statement", "init", "first")
    refused = run("statement", "first", "--registry")
    assert refused.code == 2
    assert "a registry entry needs these answers: description, purpose, curators" in refused.err
    path = first / "answers.toml"
    text = path.read_text()
    for key in ("description", "purpose", "region"):
        text = text.replace(f'{key} = ""', f'{key} = "of people"')
    for key in ("curators", "authors"):
        text = text.replace(f"{key} = []", f'{key} = ["House"]')
    path.write_text(text)
    done = run("statement", "first", "--registry")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith('url_slug: "')
    assert 'variant_name: "Approximate DP"' in done.out
    assert run("statement", "first", "--registry", "--json").code == 2
