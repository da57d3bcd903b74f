"""``dpmac ledger``: what was spent, what is left, and whether the file is as it was written."""

from __future__ import annotations

import math
import re

import pytest

from dpmac.privacy import Entry, Ledger
from dpmac.privacy.accounting import epsilon_of


@pytest.fixture
def book(tmp_path):
    """Two models from one data set, in a file."""
    ledger = Ledger(tmp_path / "hospital.ledger", "patients 2026")
    with ledger.noting(purpose="mortality", model="first"):
        for _ in range(3):
            ledger.append(Entry("training step", 4.0, 1.0))
    with ledger.noting(purpose="stay", model="[second]"):
        ledger.append(Entry("training step", 5.0, 0.1, seeded=True))
    return tmp_path / "hospital.ledger"


def test_show_tells_what_when_and_for_what(book, run):
    done = run("ledger", "show", book, "--json").json()
    assert (done["data_set"], done["releases"], done["seeded"]) == ("patients 2026", 4, True)
    assert [(group["model"], group["purpose"], group["count"]) for group in done["groups"]] == [
        ("first", "mortality", 3),
        ("[second]", "stay", 1),
    ]
    exact = Ledger.read(book).epsilon(1e-5)
    assert done["epsilon"] == exact
    text = run("ledger", "show", book).out
    assert f"{math.ceil(exact * 1e4) / 1e4:.4f}" in text
    assert "[second]" in text
    assert "patients 2026" in " ".join(text.split())


def test_what_is_left_still_fits_and_hardly_more_does(book, run):
    left = run("ledger", "remaining", book, "--epsilon", "4", "--json").json()
    assert left["spent"] == Ledger.read(book).epsilon(1e-5)
    assert left["remaining"] == Ledger.read(book).remaining(4, 1e-5)
    text = run("ledger", "remaining", book, "--epsilon", "4").out
    said = float(re.search(r"further release of epsilon ([\d.]+)", text)[1])
    assert left["remaining"] - 1e-4 <= said <= left["remaining"]


def test_an_empty_budget_ends_with_code_1(book, run):
    done = run("ledger", "remaining", book, "--epsilon", "1")
    assert (done.code, done.out) == (1, "")
    assert "nothing is left of a total of 1" in done.err
    assert Ledger.read(book).epsilon(1e-5) > 1
    assert epsilon_of(Ledger.read(book).mechanisms(), 1e-5) > 1


@pytest.mark.parametrize("command", [["verify"], ["show"], ["remaining", "--epsilon", "5"]], ids=lambda c: c[0])
@pytest.mark.parametrize("how", ["edited", "cut", "foreign", "missing"])
def test_a_ledger_that_was_tampered_with_is_refused(command, how, book, run):
    text = book.read_text()
    if how == "edited":
        book.write_text(text.replace('"noise_multiplier": 4.0', '"noise_multiplier": 9.0', 1))
    if how == "cut":
        book.write_text("".join(text.splitlines(keepends=True)[:-1]))
    if how == "foreign":
        book.write_text("name,age\nme,3\n")
    if how == "missing":
        book.unlink()
    before = book.read_bytes() if book.exists() else None
    done = run("ledger", command[0], book, *command[1:])
    assert done.code == (2 if how == "missing" else 1)
    words = {"edited": "line 2: edited", "cut": "was cut", "foreign": "", "missing": "there is no such file"}
    assert words[how] in done.err
    assert str(book) in done.err
    assert done.err.count("\n") == 1
    assert (book.read_bytes() if book.exists() else None) == before


def test_a_whole_ledger_is_called_so_and_not_touched(book, run):
    before = book.read_bytes()
    assert run("ledger", "verify", book).out.startswith(f"{book} is complete: 4 releases\ndigest: ")
    known = {"whole": True, "releases": 4, "data_set": "patients 2026"}
    assert run("ledger", "verify", book, "--json").json() == {**known, "digest": before.split(b'"')[-2].decode()}
    assert book.read_bytes() == before


def test_verify_against_a_folder_a_copy_or_a_digest_finds_an_older_copy_of_all(book, run, tmp_path):
    digest = run("ledger", "verify", book, "--json").json()["digest"]
    assert digest in run("ledger", "verify", book).out
    old = tmp_path / "old"
    old.write_bytes(book.read_bytes())
    Ledger.load(book).append(Entry("mean", 8.0, 1.0))
    newest = run("ledger", "verify", book, "--json").json()["digest"]
    for against in (digest, digest[:12], newest, old):
        done = run("ledger", "verify", book, "--against", against)
        assert done.code == 0
        assert "it holds all of" in done.out
    for against in (newest, book):
        done = run("ledger", "verify", old, "--against", against)
        assert done.code == 1
        assert "older copy, or another ledger" in done.err
    assert "--against" in run("ledger", "verify", old, "--against", "runs/nowhere").err
