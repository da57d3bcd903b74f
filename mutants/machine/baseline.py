"""Tests that fail without any mutant prove nothing: each test that has noticed one is tried once on the plain code."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

from mutants.machine.environment import key
from mutants.machine.jobs import Job, Outcome
from mutants.machine.verdicts import digest_of


class Baseline:
    """What is known of tests here: for this Python, these libraries and the tests' present text."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock, self._key = path, threading.Lock(), key()
        self._sound: dict[str, bool] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.endswith("]"):
                    known, sound = json.loads(line)
                    self._sound[known] = sound

    def sound(self, test: str, limit: float, ask: Callable[[Job], Outcome]) -> bool:
        """Whether the test passes on the code as it is."""
        name = f"{self._key} {test} {digest_of([test])}"
        if name not in self._sound:
            passed = ask(Job("", "", ((test, limit),))).state == "passed"
            with self._lock:
                self._sound[name] = passed
                if passed:  # a failure may be the machine's, which was busy: it counts for this run only
                    with self._path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([name, passed]) + "\n")
        return self._sound[name]

    def known_bad(self, test: str) -> bool:
        """Whether the test was seen to fail."""
        return not self._sound.get(f"{self._key} {test} {digest_of([test])}", True)
