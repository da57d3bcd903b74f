"""Mutants do not rot: each still fits the code it is a bug of, and names tests that are there."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from mutants import guard, running
from mutants.bugs import MUTANTS
from mutants.mutant import ROOT, Mutant, StaleError
from mutants.results import Results
from mutants.running import BrokenError, Verdict, judge
from mutants.showing import write_page


@cache
def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_code_and_names_tests_that_are_there(mutant):
    """If this fails, the code has moved on: mend the mutant in mutants/bugs, so that it is the same bug again."""
    compile(mutant.applied(), mutant.file, "exec")
    assert mutant.applied() != mutant.path().read_text(encoding="utf-8")
    for test in mutant.asked():
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file(), test
        assert not name or name.partition("[")[0] in functions_of(ROOT / file), test


def test_there_are_many_and_each_has_its_own_name():
    assert len(MUTANTS) >= 60
    assert max(Counter(mutant.name for mutant in MUTANTS).values()) == 1
    for mutant in MUTANTS:
        assert mutant.name.replace("-", "").isalnum()  # it is a folder's name
        assert mutant.tests
        assert mutant.bug.endswith(".")
        assert mutant.why


def test_what_is_not_there_exactly_once_is_stale():
    mutant = MUTANTS[0]
    with pytest.raises(StaleError, match="is 0 times"):
        replace(mutant, old="nobody wrote this").applied()
    with pytest.raises(StaleError, match="times"):
        replace(mutant, old="\n").applied()
    with pytest.raises(StaleError, match="there is no"):
        replace(mutant, file="nowhere.py").applied()


# --- the runner -------------------------------------------------------------------------------------------------------

SMALL = Mutant("small", "It does nothing.", "No reason.", "one.py", "1", "2", ("tests/test_one.py",), audit="one")


@pytest.fixture
def whole(tmp_path):
    """A repository of one module."""
    root = tmp_path / "whole"
    for file, text in {"src/dpmac/one.py": "one = 1\n", "tests/test_one.py": "\n"}.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    return root


def test_verdicts(whole, monkeypatch):
    """Tests and audit see the mutant, and both must find it; the original is left as it was."""
    seen = []

    def tests(answer):
        def ask(copy, _tests, _log):
            seen.append(SMALL.path(copy).read_text())
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(running, "first_failure", ask)
        return judge(whole, SMALL, whole.parent)

    for found, state in ((True, "killed"), (False, "survived")):
        monkeypatch.setattr(running, "failed_audit", lambda *_, found=found: found)
        assert tests("a test").state == state  # the audit that is named must find it, too
    monkeypatch.setattr(running, "failed_audit", lambda *_: True)
    assert tests("a test") == Verdict("killed", "a test", pytest.approx(0, abs=60), True)
    assert tests(None).state == "survived"
    assert tests(BrokenError("no start")).state == "broken"
    assert set(seen) == {"one = 2\n"}
    assert SMALL.path(whole).read_text() == "one = 1\n"
    SMALL.path(whole).write_text("one = one\n")
    assert tests(None).state == "stale"


def test_a_verdict_is_kept_until_something_changes(whole, tmp_path):
    path = tmp_path / "verdicts.json"
    Results(path).keep(SMALL, whole, Verdict("killed", "a test", 1.0))
    assert Results(path).of(SMALL, whole) == Verdict("killed", "a test", 1.0)
    assert Results(path).of(replace(SMALL, new="3"), whole) is None
    for file in ("src/dpmac/one.py", "tests/test_one.py", "tests/conftest.py"):
        (whole / file).write_text("changed = 1\n")
        assert Results(path).of(SMALL, whole) is None, file
        Results(path).keep(SMALL, whole, Verdict("killed", "a test", 1.0))
    Results(path).keep(SMALL, whole, Verdict("survived"))
    assert Results(path).of(SMALL, whole) is None  # asked again


def test_other_code_than_the_copys_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("MUTANT_COPY", str(tmp_path))
    with pytest.raises(pytest.exit.Exception, match="was imported from"):
        guard.pytest_configure()
    import dpmac

    monkeypatch.setenv("MUTANT_COPY", str(Path(dpmac.__file__).parents[2]))
    guard.pytest_configure()


def test_the_page_says_what_survived(tmp_path):
    page = tmp_path / "page.md"
    write_page({SMALL: Verdict("killed", "tests/a/test_b.py::test_c_d[1]", 1.0)}, page)
    assert "All 1 were killed." in page.read_text()
    assert "| small | It does nothing. | `one.py` | `test_b.py`: c d |" in page.read_text()
    write_page({SMALL: Verdict("killed", "tests/a/test_b.py::test_c_d[1]", 1.0, True)}, page)
    assert "c d; the audit |" in page.read_text()
    write_page({SMALL: Verdict("survived")}, page)
    assert "not small" in page.read_text()
    assert "SURVIVED" in page.read_text()
