"""The map of functions and lines to the tests that execute them. It is made once, and outlives small changes.

A function whose text has not changed since is known line by line; of another one it is known which tests execute it.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mutants.machine.mutation import Mutation, read
from mutants.machine.source import MODULE, Source
from mutants.machine.traced import Lines

IMPORTED = -1  # in place of a test: executed while modules are imported
ALL = "*"  # in place of a line: tests that execute the function, no one knows which of its lines
Known = dict[str, dict[str, dict[str, set[int]]]]  # file, function, line within it: tests


@dataclass
class Coverage:
    """Tests have numbers here. ``seconds`` and ``digests`` are by test and by test file."""

    tests: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)  # what a test shares with others: fixtures
    setups: dict[str, float] = field(default_factory=dict)  # and how long each takes
    digests: dict[str, str] = field(default_factory=dict)
    functions: dict[str, dict[str, str]] = field(default_factory=dict)  # file, function: the digest of its text
    lines: Known = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Coverage:
        """From a file; empty if there is none."""
        if not path.is_file():
            return cls()
        raw = json.loads(gzip.decompress(path.read_bytes()))
        sets = [set(each) for each in raw.pop("sets")]
        lines: Known = {
            file: {name: {line: sets[at] for line, at in known.items()} for name, known in functions.items()}
            for file, functions in raw["lines"].items()
        }
        return cls(**{**raw, "lines": lines})

    def save(self, path: Path) -> None:
        """To a file: no path in it is absolute."""
        numbers: dict[frozenset[int], int] = {}

        def number(tests: set[int]) -> int:
            return numbers.setdefault(frozenset(tests), len(numbers))

        lines = {
            file: {name: {line: number(tests) for line, tests in known.items()} for name, known in functions.items()}
            for file, functions in self.lines.items()
        }
        raw = {
            "tests": self.tests,
            "seconds": self.seconds,
            "needs": self.needs,
            "setups": self.setups,
            "digests": self.digests,
            "functions": self.functions,
            "lines": lines,
            "sets": [sorted(each) for each in numbers],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps(raw).encode()))

    def of(self, mutation: Mutation) -> list[str]:
        """The tests that execute what the mutant changes."""
        return [self.tests[at] for at in sorted(self._numbers(mutation)) if self.tests[at] in self.seconds]

    def alone(self, test: str) -> float:
        """How long the test takes by itself, with all that it shares with others."""
        return self.seconds[test] + sum(self.setups[need] for need in self.needs.get(test, []))

    def nearby(self, mutation: Mutation) -> list[str]:
        """All tests in the files of those: what one of them has computed may have been kept for the others."""
        files = {test.partition("::")[0] for test in self.of(mutation)}
        return [test for test in self.seconds if test.partition("::")[0] in files]

    def _numbers(self, mutation: Mutation) -> set[int]:
        known = self.lines.get(mutation.file, {})
        if mutation.home == MODULE:
            return _union(known[name] for name in self._users(mutation) if name in known)
        lines = known.get(mutation.home, {})
        if self.functions.get(mutation.file, {}).get(mutation.home) != mutation.digest:
            return _union([lines] if lines else [])
        if isinstance(mutation.statement, ast.FunctionDef) and mutation.function == mutation.home:
            return _union([lines])  # a default: evaluated by the import, used by every call
        first = mutation.source.functions[mutation.home][0]
        asked = [str(line - first) for line in mutation.executed()]
        found = set[int]().union(*(lines.get(line, set()) for line in (*asked, ALL)))
        if IMPORTED in found:
            return _union(known.values())
        return found

    def _users(self, mutation: Mutation) -> list[str]:
        """The functions of the file that use the name which a statement outside functions sets; else all of them."""
        functions = mutation.source.functions
        names = _targets(mutation.statement)
        lines = mutation.source.text.splitlines()
        using = [
            name
            for name, (first, last) in functions.items()
            if any(re.search(rf"\b{re.escape(each)}\b", "\n".join(lines[first - 1 : last])) for each in names)
        ]
        return using or list(functions)

    def without(self, files: Iterable[str]) -> None:
        """Forget the tests of these files."""
        gone = set(files)
        for test in [test for test in self.seconds if test.partition("::")[0] in gone]:
            del self.seconds[test]
            self.needs.pop(test, None)
        for file in gone:
            self.digests.pop(file, None)

    def add(self, seen: dict[str, Lines], seconds: dict[str, float], needs: dict[str, list[str]]) -> None:
        """New tests: ``seen`` has the lines of every file that each executes, under the code as it is now."""
        number = {test: at for at, test in enumerate(self.tests)}
        for test in seconds:
            if test not in number:
                number[test] = len(self.tests)
                self.tests.append(test)
        self.seconds.update(seconds)
        self.needs.update(needs)
        by_line: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        for test, files in seen.items():
            for file, lines in files.items():
                for line in lines:
                    by_line[file, line].add(IMPORTED if test == "" else number[test])
        self._forget({number[test] for test in seconds})
        sources = {file: read(file) for file in sorted({file for file, _ in by_line})}
        for source in sources.values():
            self._refresh(source)
        for (file, line), tests in by_line.items():
            source = sources[file]
            name = source.function_at(line)
            if name != MODULE:
                within = str(line - source.functions[name][0])
                self.lines.setdefault(file, {}).setdefault(name, {}).setdefault(within, set()).update(tests)

    def _forget(self, tests: set[int]) -> None:
        for functions in self.lines.values():
            for known in functions.values():
                for line in known:
                    known[line] = known[line] - tests

    def _refresh(self, source: Source) -> None:
        """Of functions whose text has changed, keep only which tests execute them."""
        file = source.file
        digests = {name: source.digest(name) for name in source.functions}
        old, known = self.functions.get(file, {}), self.lines.setdefault(file, {})
        for name, digest in digests.items():
            if name in known and old.get(name) != digest:
                known[name] = {ALL: _union([known[name]])}
        self.functions[file] = digests


def _union(all_lines: Iterable[dict[str, set[int]]]) -> set[int]:
    found = {test for lines in all_lines for tests in lines.values() for test in tests}
    return found - {IMPORTED}


def _targets(statement: ast.stmt | None) -> list[str]:
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return [each.id for target in targets if target for each in ast.walk(target) if isinstance(each, ast.Name)]
