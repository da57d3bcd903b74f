"""From a mutant to its verdict: the quick server, then the thorough one for whoever survives."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mutants.machine import jobs
from mutants.machine.baseline import Baseline
from mutants.machine.choosing import Killers, ordered, within
from mutants.machine.coverage import Coverage
from mutants.machine.environment import environment
from mutants.machine.jobs import Job, Outcome
from mutants.machine.mutation import Mutation, module_of
from mutants.machine.source import MODULE
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
        covering = self._coverage.of(mutation)
        if not covering:
            return Verdict(mutation.name, "uncovered", mutation.digest, digest_of([]))
        text = self._where / f"{mutation.key}.py"
        text.write_text(mutation.applied(), encoding="utf-8")
        asked, spent = set[str](), 0.0
        try:
            for server, tests in self._steps(mutation, covering):
                outcome = self._ask(server, mutation, tests, str(text))
                asked, spent = asked | set(tests), spent + outcome.seconds
                if outcome.state in ("failed", "timeout"):
                    return self._killed(mutation, outcome, len(asked), round(spent, 2))
        finally:
            text.unlink()
        digest = digest_of(covering)
        return Verdict(mutation.name, "survived", mutation.digest, digest, asked=len(asked), seconds=round(spent, 2))

    def _killed(self, mutation: Mutation, outcome: Outcome, asked: int, spent: float) -> Verdict:
        self.killers.note(mutation, outcome.test)
        words = " ".join(outcome.words.split())[:160]
        digest = digest_of([outcome.test])
        return Verdict(mutation.name, "killed", mutation.digest, digest, outcome.test, words, asked, spent)

    def _steps(self, mutation: Mutation, covering: list[str]) -> Iterator[tuple[str, list[str]]]:
        """Which server is asked which tests: those that execute the line, others in their files, some again.

        The quick server cannot take a bug outside functions: then the thorough one is asked all that it can import.
        """
        known, budgets = self._coverage, self._budgets
        line = ordered(mutation, covering, known, self.killers.of(mutation))
        if mutation.home == MODULE or isinstance(mutation.statement, ast.FunctionDef):
            yield "cold", within(line, known, budgets.executing, _FILES)
            return
        first = within(line, known, budgets.executing)
        yield "hot", first
        others = set(known.nearby(mutation)) - set(first)
        yield "hot", within(ordered(mutation, others, known, []), known, budgets.nearby)
        yield "cold", within(line, known, budgets.again, _FILES)

    def _ask(self, server: str, mutation: Mutation, tests: Sequence[str], text: str) -> Outcome:
        """The outcome, but for failures that happen without the mutant as well."""
        left = [(test, self._limit(test)) for test in tests if not self._baseline.known_bad(test)]
        spent = 0.0
        while left:
            job = Job(module_of(mutation.file), text, tuple(left))
            outcome = self._sent(server, job)
            spent += outcome.seconds
            if outcome.state in ("passed", "not here"):
                return replace(outcome, seconds=spent)
            at = _index(outcome.test, left)
            if self._is_noticed(server, job, at):
                return replace(outcome, test=left[at][0], seconds=spent)
            left = left[at + 1 :]
        return Outcome("passed", seconds=spent)

    def _is_noticed(self, server: str, job: Job, at: int) -> bool:
        """Whether a failure is the mutant's doing: the test passes without it, and it did not fail for its order.

        A test that came first needs no more than that. Any other one must fail by itself, too, or else pass without
        the mutant after the very same tests.
        """
        test, limit = job.tests[at]
        if not self._baseline.sound(test, limit, lambda plain: self._sent(server, plain)):
            return False
        if at == 0 or self._sent(server, replace(job, tests=job.tests[at : at + 1])).state != "passed":
            return True
        return self._sent(server, Job("", "", job.tests[: at + 1])).state == "passed"

    def _sent(self, server: str, job: Job) -> Outcome:
        return jobs.ask(str(self._where / server), job)

    def _limit(self, test: str) -> float:
        return 20.0 + 10 * self._coverage.alone(test)


def _index(failed: str, asked: Sequence[tuple[str, float]]) -> int:
    """Which test failed; where a file could not even be imported, the first of those asked in it."""
    names = [test for test, _ in asked]
    if failed in names:
        return names.index(failed)
    return next((at for at, test in enumerate(names) if test.startswith(failed)), 0)
