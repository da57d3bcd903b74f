"""``dpmac tune``: one entry, one folder, and nothing said of how many fits there were."""

from __future__ import annotations

import json

import pytest

import dpmac
from dpmac.estimators import search_tries
from dpmac.kernels.tries import Tries
from dpmac.privacy import Ledger

WORDS = ["tune", "patients.csv", "--schema", "patients.schema.json", "--ledger", "hospital.ledger", "--delta", "1e-5"]
FEW = [{"epochs": 2, "batch_size": 320}, {"epochs": 3, "batch_size": 320}]


@pytest.fixture
def hospital(new_hospital, monkeypatch):
    """With candidates that take a moment; every search has seven fits."""
    (new_hospital / "candidates.json").write_text(json.dumps(FEW))
    monkeypatch.setattr(Tries, "drawn", lambda *_: 7)
    return new_hospital


def tuned(run, *more, epsilon="4"):
    return run(*WORDS, "--epsilon", epsilon, "--candidates", "candidates.json", "--tries", "2", *more)


def test_a_search_becomes_a_folder_and_one_entry(hospital, run):
    done = tuned(run, "--out", "runs/best", "--purpose", "a test")
    assert done.code == 0, done.err
    assert "searching 2 candidates, 2 fits on average (how many is secret), epsilon 4 for all together" in done.out
    assert "best: " in done.out
    assert not any(words in done.out + done.err for words in ("7 fits", "7 tries", "of 7", "/7"))
    (entry,) = Ledger.read("hospital.ledger").entries
    assert (entry.label, entry.purpose, entry.model) == ("private search", "a test", "best")
    model = dpmac.load("runs/best")
    assert model.epochs in (2, 3)
    assert 3.9 < model.privacy_.epsilon <= 4.0
    statement = (hospital / "runs" / "best" / "statement.txt").read_text()
    assert "the private search that chose this model" in statement
    assert not (hospital / "runs" / "best.search").exists()
    for words in (["report", "runs/best"], ["inspect", "runs/best"], ["ledger", "show", "hospital.ledger"]):
        assert run(*words).code == 0
    assert run("ledger", "verify", "hospital.ledger", "--against", "runs/best").code == 0
    assert run("predict", "runs/best", "new-patients.csv", "--out", "p.csv").code == 0


def test_json_says_what_was_found_and_not_how_long_it_took(hospital, run):
    done = tuned(run, "--out", "runs/best", "--json", "--scoring", "log_loss")
    answer = json.loads(done.out)
    assert answer["best"] in FEW
    assert "seconds" not in answer
    assert answer["epsilon_of_a_fit"] < answer["epsilon"] <= 4.0
    assert done.err == ""


def test_a_killed_search_goes_on_with_the_same_command(hospital, run, monkeypatch):
    real = search_tries._try

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(search_tries, "_try", fails)
    done = tuned(run, "--out", "runs/best")
    assert done.code == 1
    assert "the search is paid for; the same command continues it" in done.err
    assert not any(words in done.err for words in ("7 fits", "7 tries", "of 7", "/7"))
    assert (hospital / "runs" / "best.search").is_dir()
    monkeypatch.setattr(search_tries, "_try", real)
    assert tuned(run, "--out", "runs/best").code == 0
    assert len(Ledger.read("hospital.ledger")) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--candidates", "patients.csv"], "it is no JSON"),
        (["--candidates", "patients.schema.json"], "give a list of objects"),
        (["--tries", "0.5"], "tries=0.5"),
        (["--held-out", "0.9"], "held_out=0.9"),
        (["--scoring", "error"], "choose one of accuracy, log_loss"),
        (["--epsilon", "inf"], "give a finite budget"),
        (["--out", "patients.csv"], "--out"),
    ],
)
def test_wrong_words_spend_nothing(hospital, run, words, said):
    done = tuned(run, "--out", "runs/best", *words)
    assert done.code == 2
    assert said in done.err
    assert not (hospital / "hospital.ledger").exists()
    assert not (hospital / "runs" / "best").exists()


def test_a_total_is_kept(hospital, run):
    assert run("ledger", "init", "hospital.ledger", "--total-epsilon", "3", "--delta", "1e-5").code == 0
    done = tuned(run, "--out", "runs/best")
    assert done.code == 1
    assert "total_epsilon=3.0" in done.err
    assert len(Ledger.read("hospital.ledger")) == 0


def test_persons_and_a_number(hospital, run):
    words = ["--groups", "patient", "--target", "weight", "--scoring", "error"]
    done = tuned(run, "--out", "runs/persons", *words)
    assert done.code == 0, done.err
    assert Ledger.read("hospital.ledger").unit.startswith("person")
