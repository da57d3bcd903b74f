"""Mutation by machine: tests see the mutant, the right ones are asked, and a failure counts only if it is its doing."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mutants.machine import earlier, scoring
from mutants.machine.baseline import Baseline
from mutants.machine.choosing import ordered, within
from mutants.machine.coverage import Coverage
from mutants.machine.earlier import unchanged_since
from mutants.machine.environment import environment
from mutants.machine.hot import functions, put_in
from mutants.machine.jobs import Events, Job, Outcome, _supervised
from mutants.machine.mutation import module_of, mutations, read
from mutants.machine.running import Budgets, Judge
from mutants.machine.scoring import Score, score
from mutants.machine.showing import write_page
from mutants.machine.source import Source
from mutants.machine.verdicts import Verdict, Verdicts, digest_of

# --- running ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def all_seen():
    """The suite has put what is loaded aside (conftest), where a search among live functions does not look."""
    gc.unfreeze()


def test_a_process_that_a_test_starts_sees_the_mutant(tmp_path):
    text = tmp_path / "checks.py"
    text.write_text(read("checks.py").text + "\nMARK = 'the mutant'\n")
    env = environment(MUTANT_MODULE="dpmac.checks", MUTANT_SOURCE=str(text))
    code = "from dpmac import checks; print(checks.MARK, checks.__file__)"
    answer = subprocess.check_output([sys.executable, "-c", code], env=env, text=True, cwd=tmp_path)
    assert answer.startswith("the mutant")
    assert answer.strip().endswith("checks.py")
    assert module_of("checks.py") == "dpmac.checks"


def test_a_function_that_is_loaded_gets_the_bug_in_place(tmp_path, all_seen):
    from dpmac import checks

    source = read("checks.py")
    before = checks.number.__code__
    (mutation,) = [
        each
        for each in mutations(source)
        if each.before == "low < result < high" and each.after == "low < result <= high"
    ]
    text = tmp_path / "checks.py"
    text.write_text(mutation.applied())
    try:
        assert put_in(Job("dpmac.checks", str(text), ()), functions())
        assert checks.number("x", 2.0, "fix", high=2.0, strict=True) == 2.0
    finally:
        checks.number.__code__ = before
    with pytest.raises(checks.ArgumentError):
        checks.number("x", 2.0, "fix", high=2.0, strict=True)


def test_a_bug_outside_functions_is_not_for_code_that_is_loaded(tmp_path, all_seen):
    text = tmp_path / "chain.py"
    text.write_text(read("extensions/ledger_file.py").text.replace("LONGEST = 200", "LONGEST = 201"))
    assert not put_in(Job("dpmac.extensions.ledger_file", str(text), ()), functions())


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda job, events: 0, Outcome("passed")),
        (lambda job, events: events.say("failed", "a", "words") or 1, Outcome("failed", "a", "words")),
        (lambda job, events: os.kill(os.getpid(), 9), Outcome("failed", "", "the process ended with -9")),
        (lambda job, events: os.kill(os.getpid(), 14), Outcome("timeout", "", "no end")),
        (lambda job, events: 1 / 0, Outcome("failed", "", "ZeroDivisionError: division by zero")),
    ],
    ids=["passed", "failed", "crashed", "alarm", "error"],
)
def test_whatever_becomes_of_a_process_is_told(work, expected):
    outcome = _supervised(Job("", "", ()), work)
    assert replace(outcome, seconds=0.0) == expected


def test_events_are_read_from_the_end(tmp_path):
    events = Events(tmp_path)
    assert events.last("running") == ("", "")
    for name in ("a", "b"):
        events.say("running", name)
    assert events.last("running") == ("b", "")


# --- tests and verdicts -----------------------------------------------------------------------------------------------

TEXT = """
LIMIT = 3


def short(a):
    if a < LIMIT:
        return a + 1
    return a


def other(b):
    return b * 2
"""


def test_the_map_knows_lines_and_after_a_change_functions(tmp_path, monkeypatch):
    source = Source("small.py", TEXT)
    monkeypatch.setattr("mutants.machine.coverage.read", lambda _: source)
    known = Coverage()
    lines = {"t.py::a": {"small.py": {6, 7}}, "t.py::b": {"small.py": {6, 8}}}
    known.add(lines, {"t.py::a": 1.0, "t.py::b": 2.0}, {})
    known.save(tmp_path / "map")
    known = Coverage.load(tmp_path / "map")

    def tests_of(before, made):
        return next(known.of(mutation) for mutation in mutations(made) if mutation.before == before)

    assert tests_of("a < LIMIT", source) == ["t.py::a", "t.py::b"]
    assert tests_of("a + 1", source) == ["t.py::a"]
    assert tests_of("b * 2", source) == []
    assert tests_of("3", source) == ["t.py::a", "t.py::b"]  # whoever uses the name
    edited = Source("small.py", TEXT.replace("return a\n", "return a + 5\n"))
    assert tests_of("a + 1", edited) == ["t.py::a", "t.py::b"]
    known.without(["t.py"])
    assert tests_of("a + 1", source) == []


def test_quick_tests_and_those_that_have_noticed_before_come_first():
    mutation = next(mutations(Source("extensions/ledger_file.py", "x = a < b\n")))
    seconds = {
        "a.py::slow": 9.0,
        "a.py::quick[1]": 1.0,
        "a.py::quick[2]": 1.0,
        "b.py::c": 1.2,
        "test_ledger_file.py::d": 2.0,
    }
    known = Coverage(seconds=seconds)
    order = ordered(mutation, seconds, known, ["a.py::slow"])
    assert order == ["a.py::slow", "test_ledger_file.py::d", "a.py::quick[1]", "b.py::c", "a.py::quick[2]"]
    assert within(order, known, 4.5) == ["a.py::slow"]
    assert within(order[1:], known, 3.5) == ["test_ledger_file.py::d", "a.py::quick[1]"]
    assert within(order[1:], known, 99, files=1) == ["test_ledger_file.py::d"]


def test_what_tests_share_is_counted_once():
    mutation = next(mutations(Source("extensions/ledger_file.py", "x = a < b\n")))
    seconds = dict.fromkeys(("a.py::a", "a.py::b", "b.py::c"), 1.0)
    known = Coverage(seconds=seconds, needs={"a.py::a": ["model"], "a.py::b": ["model"]}, setups={"model": 5.0})
    order = ordered(mutation, seconds, known, [])
    assert order[0] == "b.py::c"
    assert within(order, known, 8.0) == order
    assert within(order, known, 7.5) == order[:2]


def test_a_verdict_holds_until_the_function_or_the_tests_change(tmp_path):
    first, second = (Source("small.py", text) for text in (TEXT, TEXT.replace("return a\n", "return a + 5\n")))
    (mutation, edited) = (next(each for each in mutations(made) if each.before == "a + 1") for made in (first, second))
    tests = ["tests/test_machine_running.py::test_events_are_read_from_the_end"]
    path = tmp_path / "verdicts.jsonl"
    Verdicts(path).add(Verdict(mutation.name, "survived", mutation.digest, digest_of(tests)))
    with path.open("a") as file:
        file.write('{"name": "cut by a ki')
    kept = Verdicts(path)
    assert kept.of(mutation, tests).state == "survived"
    assert kept.of(mutation, []) is None
    assert kept.of(edited, tests) is None
    Verdicts(path).add(Verdict(mutation.name, "killed", mutation.digest, digest_of(tests), by=tests[0]))


def test_the_score_leaves_out_what_is_explained_and_the_page_says_all(tmp_path, monkeypatch):
    made = list(mutations(Source("extensions/ledger_file.py", TEXT)))[:4]
    states = ("killed", "survived", "uncovered", "survived")
    known = [(each, Verdict(each.name, state, "", "")) for each, state in zip(made, states, strict=True)]
    explained = tmp_path / "ledger.json"
    explained.write_text(json.dumps({made[3].name: "It only changes the speed.", made[0].name: "It is killed."}))
    monkeypatch.setattr(scoring, "EXPLAINED", tmp_path)
    found = score(known)
    assert [len(each) for each in (found.killed, found.alive, found.uncovered, found.explained)] == [1, 1, 1, 1]
    assert found.words() == "33.3 %"
    assert Score().words() == "-"
    write_page({"extensions/ledger_file.py": found}, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "| ledger | 4 | 1 | 1 | 1 | 1 | 0 | 0 | 33.3 % |" in page
    assert "It only changes the speed." in page
    assert "earlier commit" not in page


def test_what_was_asked_on_an_earlier_commit_counts_where_the_function_is_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "EXPLAINED", tmp_path)
    before = "A, B = 1, 2\nC = 7\n\ndef f(x):\n    return x + A\n\ndef g(x):\n    return x + B\n"
    after = before.replace("x + B", "x * B").replace("C = 7", "D = 6\nC = 7") + "\ndef h(x):\n    return x + 1\n"
    said = SimpleNamespace(stdout=before)
    monkeypatch.setattr(earlier.subprocess, "run", lambda command, **_: said if "abc:" in command[2] else None)
    made = list(mutations(Source("extensions/ledger_file.py", after)))
    verdict = Verdict(made[0].name, "survived", "", "")
    known = [(each, verdict if each is made[0] else None) for each in made]
    found = score(known, unchanged_since("abc"))
    assert found.alive == made[:1]
    assert {each.home for each in found.earlier} == {"<module>", "f"}
    assert {each.home for each in found.open} == {"<module>", "g", "h"}
    assert [each.before for each in found.open if each.home == "<module>"] == ["6"]
    assert found.total == len(made)
    write_page({"extensions/ledger_file.py": found}, tmp_path / "page.md", "abc")
    page = (tmp_path / "page.md").read_text()
    assert f"{len(found.earlier)} further mutants" in page
    assert "`python -m mutants.machine show --markdown docs/results/machine.md --asked abc`" in page


# --- kills ------------------------------------------------------------------------------------------------------------


class Answering:
    """A judge's servers: ``failing(mutated, tests)`` is the test that fails, or None."""

    def __init__(self, failing):
        self.failing, self.asked = failing, []

    def __call__(self, _address, job):
        tests = [test for test, _ in job.tests]
        self.asked.append((bool(job.module), tests))
        failed = self.failing(bool(job.module), tests)
        return Outcome("passed") if failed is None else Outcome("failed", failed, "words")


@pytest.mark.parametrize(
    ("failing", "state", "by"),
    [
        (lambda mutated, tests: "t.py::b" if mutated and "t.py::b" in tests else None, "killed", "t.py::b"),
        (lambda mutated, tests: None, "survived", ""),
        (lambda mutated, tests: "t.py::b" if "t.py::b" in tests else None, "survived", ""),  # without the mutant, too
        (
            lambda mutated, tests: "t.py::b" if tests[:2] == ["t.py::a", "t.py::b"] else None,
            "survived",
            "",
        ),  # its order
        (lambda mutated, tests: "t.py::b" if mutated and len(tests) > 1 else None, "killed", "t.py::b"),  # what a left
    ],
    ids=["noticed", "unnoticed", "fails anyway", "fails for its order", "needs another test"],
)
def test_a_failure_counts_only_if_it_is_the_mutants_doing(failing, state, by, tmp_path, monkeypatch):
    source = Source("small.py", TEXT)
    monkeypatch.setattr("mutants.machine.coverage.read", lambda _: source)
    names = ("t.py::a", "t.py::b", "t.py::c")
    known = Coverage()
    known.add(
        {name: {"small.py": {7}} for name in names}, {name: 0.1 * at for at, name in enumerate(names, start=1)}, {}
    )
    monkeypatch.setattr("mutants.machine.running.jobs.ask", Answering(failing))
    judge = Judge(tmp_path, known, Baseline(tmp_path / "baseline.jsonl"), Budgets())
    mutation = next(each for each in mutations(source) if each.before == "a + 1")
    verdict = judge.verdict(mutation)
    assert (verdict.state, verdict.by) == (state, by)
    assert not list(tmp_path.glob("*.py"))
    uncovered = next(each for each in mutations(source) if each.before == "b * 2")
    assert judge.verdict(uncovered).state == "uncovered"
