"""``dpmac ledger``: totals at their edges, exit codes, and what a ledger is held against."""

from __future__ import annotations

import json
import re

import pytest

from dpmac.privacy import Entry, Ledger
from dpmac.privacy.statement import not_less, round_up, unit_in_words


@pytest.fixture
def book(tmp_path):
    ledger = Ledger(tmp_path / "book", "patients")
    for _ in range(3):
        ledger.append(Entry("training step", 4.0, 1.0))
    return tmp_path / "book"


@pytest.mark.parametrize("delta", [[], ["--delta", "1e-8"]])
def test_what_is_left_may_be_less_than_one_and_is_rounded_down_while_what_is_spent_is_rounded_up(delta, book, run):
    at = float(delta[1]) if delta else 1e-5
    spent = Ledger.read(book).epsilon(at)
    total = f"{spent + 0.2:.4f}"
    left = Ledger.read(book).remaining(float(total), at)
    assert 0 < left < 1
    done = run("ledger", "remaining", book, "--epsilon", total, *delta)
    assert done.code == 0
    assert done.out.startswith(f"spent: epsilon {round_up(spent)} at delta {not_less(at)}\nleft of a total of ")
    said = float(re.search(r"further release of epsilon ([\d.]+)$", done.out.strip())[1])
    assert left - 1e-4 < said <= left
    found = run("ledger", "remaining", book, "--epsilon", total, *delta, "--json").json()
    assert found == {"total": float(total), "delta": at, "spent": spent, "remaining": left}


def test_a_total_that_is_spent_fails_in_words_and_as_json(book, run):
    spent = Ledger.read(book).epsilon(1e-5)
    for total in (spent / 2, spent):
        done = run("ledger", "remaining", book, "--epsilon", repr(total))
        assert (done.code, done.out) == (1, "")
        assert f"it holds epsilon {round_up(spent)} already" in done.err
        done = run("ledger", "remaining", book, "--epsilon", repr(total), "--json")
        assert (done.code, json.loads(done.out)["remaining"]) == (1, 0.0)


def test_a_ledger_of_an_exact_release_has_no_epsilon_and_nothing_is_left(book, run):
    Ledger.load(book).append(Entry("mean", 0.0, 1.0))
    assert run("ledger", "show", book, "--json").json()["epsilon"] is None
    done = run("ledger", "remaining", book, "--epsilon", "9", "--json")
    assert (done.code, json.loads(done.out)["spent"]) == (1, None)
    assert "epsilon inf" in " ".join(run("ledger", "show", book).out.split())


@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_show_counts_at_the_delta_that_was_asked(delta, book, run):
    exact = Ledger.read(book).epsilon(delta)
    words = [] if delta == 1e-5 else ["--delta", str(delta)]
    found = run("ledger", "show", book, "--json", *words).json()
    assert (found["epsilon"], found["delta"], found["unit"]) == (exact, delta, unit_in_words(Ledger.read(book).unit))
    text = " ".join(run("ledger", "show", book, *words).out.split())
    assert f"All 3 together: epsilon {round_up(exact)} at delta {not_less(delta)}, for one row" in text


def test_the_table_has_every_group_and_says_which_were_seeded(book, run):
    ledger = Ledger.load(book)
    with ledger.noting(model="second", purpose="stay"):
        ledger.append(Entry("calibration", 5.0, 0.25, seeded=True))
    text = run("ledger", "show", book).out
    lines = [line for line in text.splitlines() if "training step" in line or "calibration" in line]
    assert "(seeded)" not in lines[0]
    for words in ("second", "stay", "calibration (seeded)", "0.25"):
        assert words in lines[1]
    assert "patients" in text
    groups = run("ledger", "show", book, "--json").json()["groups"]
    assert [group["count"] for group in groups] == [3, 1]
    assert all({"from", "to"} <= group.keys() for group in groups)


# --- verify -----------------------------------------------------------------------------------------------------------


def test_any_digest_of_the_chain_holds_and_no_other_does(book, run):
    digests = re.findall(r'"([0-9a-f]{64})"', book.read_text())
    assert len(digests) >= 3
    for digest in digests:
        for text in (digest, digest[:8], digest.upper()):
            assert run("ledger", "verify", book, "--against", text).code == 0
    other = "".join("0" if letter != "0" else "1" for letter in digests[-1])
    assert run("ledger", "verify", book, "--against", other).code == 1
    for text in (digests[-1][:7], "not a digest", "zzzzzzzzzz"):
        done = run("ledger", "verify", book, "--against", text)
        assert (done.code, "--against=" in done.err) == (2, True)
    assert run("ledger", "verify", book, "--against", "0123456789abcdef").code == 1


def test_the_digest_that_is_said_is_the_newest(book, run):
    said = run("ledger", "verify", book, "--json").json()["digest"]
    assert said in book.read_text().splitlines()[-1]
    assert run("ledger", "verify", book).out == f"{book} is complete: 3 releases\ndigest: {said}\n"


def test_a_ledger_that_differs_in_its_last_release_alone_is_another(tmp_path, run):
    for name, last in (("one", 4.0), ("two", 5.0)):
        ledger = Ledger(tmp_path / name)
        for sigma in (3.0, last):
            ledger.append(Entry("mean", sigma, 1.0))
    assert run("ledger", "verify", tmp_path / "one", "--against", tmp_path / "one").code == 0
    done = run("ledger", "verify", tmp_path / "one", "--against", tmp_path / "two")
    assert done.code == 1
    assert "does not hold all of" in done.err
