"""From a mutant to its verdict: the quick server, then the thorough one for whoever survives."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from mutants.machine import jobs
from mutants.machine.baseline import Baseline
from mutants.machine.choosing import Killers, ordered, within
from mutants.machine.coverage import Coverage
from mutants.machine.environment import environment
from mutants.machine.jobs import Job, Outcome
from mutants.machine.mutation import Mutation, module_of
from mutants.machine.verdicts import Verdict, digest_of
from mutants.mutant import ROOT

_FILES = 8  # of tests that the cold server imports for one mutant: each takes a tenth of a second


@dataclass(frozen=True)
class Budgets:
    """Seconds of tests, by their known durations, that a mutant is asked at most."""

    executing: float = 15.0  # tests that execute the line

    @property
    def nearby(self) -> float:
        """Then others in their files."""
        return self.executing / 4

    @property
    def again(self) -> float:
        """Then some of them with everything imported anew."""
        return self.executing / 4


@contextmanager
def servers() -> Iterator[Path]:
    """Both servers, up and ready; the folder has their addresses and room for the mutants' texts."""
    with TemporaryDirectory(prefix="mutate-") as where, ExitStack() as stack:
        started = [stack.enter_context(_server(kind, Path(where))) for kind in ("cold", "hot")]
        for process in started:
            assert process.stdout is not None
            while (line := process.stdout.readline()).strip() != "ready":
                if not line:
                    raise RuntimeError(f"a server of tests did not start: {process.args!r}")
        yield Path(where)


@contextmanager
def _server(kind: str, where: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", f"mutants.machine.{kind}", str(where / kind)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Judge:
    """Decides mutants, several at a time (from threads)."""

    def __init__(self, where: Path, coverage: Coverage, baseline: Baseline, budgets: Budgets) -> None:
        self._where, self._coverage, self._baseline, self._budgets = where, coverage, baseline, budgets
        self.killers = Killers()

    def verdict(self, mutation: Mutation) -> Verdict:
        """Ask until a test notices, or there is none left to ask."""
        start = time.monotonic()
        covering = self._coverage.of(mutation)
        if not covering:
            return Verdict(mutation.name, "uncovered", mutation.digest, digest_of([]))
        text = self._where / f"{mutation.key}.py"
        text.write_text(mutation.applied(), encoding="utf-8")
        try:
            asked, noticed = self._noticed(mutation, covering, str(text))
        finally:
            text.unlink()
        spent = round(time.monotonic() - start, 2)
        if noticed is None:
            return Verdict(mutation.name, "survived", mutation.digest, digest_of(covering), asked=asked, seconds=spent)
        self.killers.note(mutation, noticed.test)
        words = " ".join(noticed.words.split())[:160]
        digest = digest_of([noticed.test])
        return Verdict(mutation.name, "killed", mutation.digest, digest, noticed.test, words, asked, spent)

    def _noticed(self, mutation: Mutation, covering: list[str], text: str) -> tuple[int, Outcome | None]:
        """How many tests were asked, and how one noticed."""
        seconds, budgets = self._coverage.seconds, self._budgets
        line = ordered(mutation, covering, seconds, self.killers.of(mutation))
        first = within(line, seconds, budgets.executing)
        outcome = self._ask("hot", mutation, first, text)
        if outcome.state == "not here":
            few = within(line, seconds, budgets.executing, _FILES)
            outcome = self._ask("cold", mutation, few, text)
            return len(few), outcome if outcome.state != "passed" else None
        if outcome.state != "passed":
            return len(first), outcome
        others = set(self._coverage.nearby(mutation)) - set(first)
        more = within(ordered(mutation, others, seconds, []), seconds, budgets.nearby) if others else []
        again = within(line, seconds, budgets.again, _FILES)
        for server, tests in (("hot", more), ("cold", again)):
            outcome = self._ask(server, mutation, tests, text)
            if outcome.state != "passed":
                return len(first) + len(more), outcome
        return len(first) + len(more), None

    def _ask(self, server: str, mutation: Mutation, tests: Sequence[str], text: str) -> Outcome:
        """The outcome, but for failures of tests that fail without the mutant as well."""
        while True:
            usable = tuple((test, self._limit(test)) for test in tests if not self._baseline.known_bad(test))
            if not usable:
                return Outcome("passed")
            outcome = self._sent(server, Job(module_of(mutation.file), text, usable))
            if outcome.state in ("passed", "not here"):
                return outcome
            test = _one_of(outcome.test, usable)
            if self._baseline.sound(test, self._limit(test), lambda job: self._sent(server, job)):
                return outcome if outcome.test else Outcome(outcome.state, test, outcome.words, outcome.seconds)

    def _sent(self, server: str, job: Job) -> Outcome:
        return jobs.ask(str(self._where / server), job)

    def _limit(self, test: str) -> float:
        return 20.0 + 10 * self._coverage.seconds[test]


def _one_of(failed: str, asked: Sequence[tuple[str, float]]) -> str:
    """The test that failed; where a file could not even be imported, the first of those asked in it."""
    names = [test for test, _ in asked]
    return failed if failed in names else next((test for test in names if test.startswith(failed)), names[0])
