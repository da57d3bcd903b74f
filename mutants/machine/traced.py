"""What the tracers have left in a folder, put together: lines, durations, and what tests share."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutants.machine.tracing import NOBODY

PROCESSES = "processes"  # what tests share that start processes of their own: a server that imports everything
_START = 4.0  # seconds for that

Key = tuple[str, int]  # a worker, and a number of its
Lines = dict[str, set[int]]  # by file


@dataclass(frozen=True)
class Traced:
    """``tests`` and ``fixtures`` are the tables' rows; ``seen`` has the lines that were executed for each.

    ``apart`` are the tests with lines in other processes than the one that ran them.
    """

    tests: dict[Key, dict[str, Any]]
    fixtures: dict[Key, dict[str, Any]]
    seen: dict[Key, Lines]
    apart: set[Key]

    @classmethod
    def read(cls, folder: Path) -> Traced:
        """Tests that failed are left out."""
        tests, fixtures = {}, {}
        for table in sorted(folder.glob("table-*.jsonl")):
            for row in map(json.loads, table.read_text(encoding="utf-8").splitlines()):
                if "fixture" in row:
                    fixtures[row["worker"], row["number"]] = row
                elif row["passed"]:
                    tests[row["worker"], row["number"]] = row
        seen: defaultdict[Key, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        apart: set[Key] = set()
        for path in sorted(folder.glob("lines-*.txt")):
            process = path.stem.rpartition("-")[2]
            for row in path.read_text(encoding="utf-8").splitlines():
                worker, number, file, line = row.split()
                seen[worker, int(number)][file].add(int(line))
                if worker.rpartition("-")[2] != process:
                    apart.add((worker, int(number)))
        return cls(tests, fixtures, {key: dict(lines) for key, lines in seen.items()}, apart)

    def lines(self) -> dict[str, Lines]:
        """Every test's, with those of the fixtures that it shares with others; "" has those of imports."""
        found: defaultdict[str, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for key, row in self.tests.items():
            for each in (key, *self._shared(row)):
                _add(found[row["test"]], self.seen.get(each, {}))
        for (_, number), lines in self.seen.items():
            if number == NOBODY:
                _add(found[""], lines)
        return {test: dict(lines) for test, lines in found.items()}

    def seconds(self) -> dict[str, float]:
        """Every test's own, without the fixtures that it was the first to use."""
        shared = self._begun()
        return {row["test"]: max(0.005, row["seconds"] - shared.get(key, 0.0)) for key, row in self.tests.items()}

    def setups(self) -> dict[str, float]:
        """How long each shared fixture takes, the longest if there were several."""
        found = {PROCESSES: _START}
        for row in self.fixtures.values():
            found[_name(row)] = max(found.get(_name(row), 0.0), row["seconds"])
        return found

    def needs(self) -> dict[str, list[str]]:
        """The shared fixtures of every test that has some."""
        found: dict[str, list[str]] = {}
        for key, row in self.tests.items():
            shared = self._shared(row)
            names = {_name(self.fixtures[each]) for each in shared}
            if key in self.apart or any(each in self.apart for each in shared):
                names.add(PROCESSES)
            if names:
                found[row["test"]] = sorted(names)
        return found

    def _shared(self, test: dict[str, Any]) -> list[Key]:
        return [
            key
            for key, row in self.fixtures.items()
            if row["fixture"] in test["fixtures"] and test["test"].startswith(row["below"])
        ]

    def _begun(self) -> dict[Key, float]:
        """The seconds that each test has waited for shared fixtures (those within others are counted twice)."""
        found: defaultdict[Key, float] = defaultdict(float)
        for worker, number in self.fixtures:
            first = max((at for name, at in self.tests if name == worker and at < number), default=NOBODY)
            found[worker, first] += self.fixtures[worker, number]["seconds"]
        return found


def _name(fixture: dict[str, Any]) -> str:
    return f"{fixture['fixture']} of {fixture['below'] or 'all'}"


def _add(found: defaultdict[str, set[int]], lines: Lines) -> None:
    for file, numbers in lines.items():
        found[file] |= numbers
