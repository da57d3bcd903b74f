"""Verdicts on the disk: one line of JSON each, added as soon as it is known; the last on a mutant counts."""

from __future__ import annotations

import ast
import hashlib
import json
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from mutants.machine.mutation import Mutation
from mutants.mutant import ROOT

State = Literal["killed", "survived", "uncovered"]


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: ``by`` is the test that noticed, ``words`` the beginning of what it said.

    ``code`` and ``tests`` are digests of the function it is in, and of the tests that decided.
    """

    name: str
    state: State
    code: str
    tests: str
    by: str = ""
    words: str = ""
    asked: int = 0
    seconds: float = 0.0


class Verdicts:
    """All that is known, by the mutants' names."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._known: dict[str, Verdict] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.endswith("}"):  # not cut by a kill
                    verdict = Verdict(**json.loads(line))
                    self._known[verdict.name] = verdict

    def add(self, verdict: Verdict) -> None:
        with self._lock:
            self._known[verdict.name] = verdict
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(verdict)) + "\n")

    def last(self, mutation: Mutation) -> Verdict | None:
        """The last word on a mutant, of whatever code and tests."""
        return self._known.get(mutation.name)

    def of(self, mutation: Mutation, covering: Iterable[str]) -> Verdict | None:
        """What is known of the mutant as the code and the tests are now."""
        verdict = self._known.get(mutation.name)
        if verdict is None or verdict.code != mutation.digest:
            return None
        deciding = [verdict.by] if verdict.state == "killed" else covering
        return verdict if verdict.tests == digest_of(deciding) else None


def digest_of(tests: Iterable[str]) -> str:
    """Of the text of test functions."""
    digests = sorted({f"{test} {_digest(test.partition('[')[0])}" for test in tests})
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[:16]


@cache
def _digest(function: str) -> str:
    """Of one test function, ``tests/test_x.py::test_y``; of the whole file if it is not found there."""
    file, _, name = function.partition("::")
    path = ROOT / file
    if not path.is_file():
        return "gone"
    text = path.read_text(encoding="utf-8")
    return _functions(text).get(name.rpartition("::")[2]) or hashlib.sha256(text.encode()).hexdigest()


@cache
def _functions(text: str) -> dict[str, str]:
    lines = text.splitlines()
    return {
        node.name: hashlib.sha256("\n".join(lines[_first(node) - 1 : node.end_lineno]).encode()).hexdigest()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    }


def _first(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
