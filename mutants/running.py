"""One mutant from the copy to the verdict: its own tests, then further ones, then the audit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mutants.copies import mutated
from mutants.guard import ELSEWHERE
from mutants.mutant import Mutant, StaleError

State = Literal["killed", "survived", "stale", "broken"]
LIMIT = 600.0  # seconds for one set of tests: a mutant that makes them wait for ever is killed by that
DRAWS = 4000  # of an audit: enough for bugs that halve the noise
_PASSED, _FAILED = 0, 1


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant. ``by`` is the test that killed it, or what went wrong; ``audited`` says whether the
    audit, if it was asked, found a claim that is wrong."""

    state: State
    by: str = ""
    seconds: float = 0.0
    audited: bool = False


class BrokenError(RuntimeError):
    """Tests that could not even be started: not what a mutant should be killed by."""


def judge(whole: Path, mutant: Mutant, logs: Path) -> Verdict:
    """Put the mutant into a copy of ``whole`` and ask its tests. What they print is left in ``logs``."""
    start = time.monotonic()
    try:
        with mutated(whole, mutant) as copy:
            log = logs / f"{mutant.name}.log"
            log.unlink(missing_ok=True)
            killer = first_failure(copy, mutant.tests, log)
            if killer is None and mutant.further:
                killer = first_failure(copy, mutant.further, log)
            audited = bool(mutant.audit) and failed_audit(copy, mutant.audit, log)
    except StaleError as error:
        return Verdict("stale", str(error))
    except BrokenError as error:
        return Verdict("broken", str(error), time.monotonic() - start)
    missed = bool(mutant.audit) and not audited
    by = f"dpmac audit --only '{mutant.audit}' passes" if missed else killer or ""
    state: State = "survived" if missed or killer is None else "killed"
    return Verdict(state, by, time.monotonic() - start, audited)


def first_failure(copy: Path, tests: Sequence[str], log: Path) -> str | None:
    """The first of ``tests`` that fails in a copy; None if all pass. They run until one does."""
    report = copy / "killed-by.txt"
    options = ["-p", "mutants.guard", "-p", "no:cacheprovider", "-x", "-q", "--tb=short"]
    code = _run(copy, ["-m", "pytest", *options, *tests], log)
    if code is None:
        return f"no end within {LIMIT:.0f} s"
    if code == _PASSED:
        return None
    if code == _FAILED and report.is_file():
        return report.read_text(encoding="utf-8").splitlines()[0]
    wrong = "another copy of dpmac was imported" if code == ELSEWHERE else f"pytest ended with {code}"
    raise BrokenError(f"{wrong}: see {log}")


def failed_audit(copy: Path, words: str, log: Path) -> bool:
    """Whether the audit of the cases with these words in their name proves a claim of a copy wrong."""
    code = _run(copy, ["-m", "dpmac", "audit", "--only", words, "--draws", str(DRAWS), "--workers", "1"], log)
    if code not in (_PASSED, _FAILED):
        raise BrokenError(f"dpmac audit ended with {code}: see {log}")
    return code == _FAILED


def _run(copy: Path, arguments: Sequence[str], log: Path) -> int | None:
    """Python in a copy, on the copy's own code; its exit code, or None if it took too long."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(copy / "src"), str(copy)]),
        "OMP_NUM_THREADS": "1",
        "MUTANT_COPY": str(copy),
        "MUTANT_REPORT": str(copy / "killed-by.txt"),
    }
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=copy, env=env, stdout=out, stderr=out, start_new_session=True
        )
        try:
            return process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:  # and whatever it has started
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
