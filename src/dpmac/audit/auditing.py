"""An audit: all cases, one after the other or in processes beside each other, and what they found.

How many looks there are is known before the first draw, and the confidence is divided among them. Noise is the default
one, of the operating system: an audit cannot be repeated bit for bit, and two audits differ as two samples do.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Protocol

import torch

from dpmac.audit.confidence import share_of
from dpmac.audit.findings import QUICK, Audit, Effort, Finding, looks_of
from dpmac.audit.module_steps import module_cases
from dpmac.audit.one_run import ManyCanaries
from dpmac.audit.one_shots import one_shot_cases
from dpmac.audit.runs import run_cases
from dpmac.audit.searches import search_cases
from dpmac.audit.splits import split_cases
from dpmac.audit.steps import step_cases
from dpmac.checks import ArgumentError, integer

CONFIDENCE = 0.99


class AnyCase(Protocol):
    """What an audit asks of a case: a name, how many findings it will give, and those findings."""

    @property
    def name(self) -> str: ...

    @property
    def looks(self) -> int: ...

    @property
    def quick(self) -> bool: ...

    @property
    def share(self) -> float: ...

    def judge(self, effort: Effort, miss: float) -> list[Finding]: ...


Told = Callable[[str, list[Finding]], None]  # a case's name, and what it found


def all_cases() -> dict[str, AnyCase]:
    """Every case under its name; the longest first, so that two processes end together."""
    found: list[AnyCase] = [*run_cases(), ManyCanaries(), *step_cases(), *module_cases(), *search_cases()]
    found += [*split_cases(), *one_shot_cases()]
    return {case.name: case for case in found}


def chosen_cases(effort: Effort = QUICK, only: str = "") -> dict[str, AnyCase]:
    """The cases of an audit: a quick one leaves some out. ``only`` keeps those with these words in their name, quick or
    not."""
    known = all_cases()
    if not only:
        return {name: case for name, case in known.items() if case.quick or effort.name != QUICK.name}
    found = {name: case for name, case in known.items() if only.lower() in name.lower()}
    if not found:
        raise ArgumentError("only", only, f"no case has that in its name; there are: {'; '.join(known)}")
    return found


def audit(
    effort: Effort = QUICK,
    *,
    confidence: float = CONFIDENCE,
    only: str = "",
    workers: int = 1,
    told: Told | None = None,
) -> Audit:
    """Try to prove every claim of this build wrong, by its real code and its default noise.

    Of a correct build, some lower bound exceeds its claim with a chance of 1 - ``confidence`` at most, over all cases
    together. ``only`` keeps cases by their name. ``workers`` processes share the cases; 1 stays in this one. ``told``
    is called with every case that is done. What is audited is the code, on made-up rows: no ledger of yours is written
    to.
    """
    cases = chosen_cases(effort, only)
    integer("workers", workers, "give the number of processes, at least 1")
    miss, begun = share_of(confidence, looks_of(list(cases.values()))), time.monotonic()
    by_name: dict[str, list[Finding]] = {}
    for name, found in _judged(cases, effort, miss, min(workers, len(cases))):
        by_name[name] = found
        if told is not None:
            told(name, found)
    findings = tuple(finding for name in cases for finding in by_name[name])
    return Audit(findings, effort, confidence, time.monotonic() - begun)


def _judged(
    cases: dict[str, AnyCase], effort: Effort, miss: float, workers: int
) -> Iterator[tuple[str, list[Finding]]]:
    if workers == 1:
        for name, case in cases.items():
            yield name, case.judge(effort, miss)
        return
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    with ProcessPoolExecutor(workers, context, _quiet) as pool:
        try:
            jobs = {pool.submit(_judge, name, effort, miss): name for name in cases}
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _end(multiprocessing.active_children())
            raise


def _judge(name: str, effort: Effort, miss: float) -> list[Finding]:
    return all_cases()[name].judge(effort, miss)


def _quiet() -> None:
    """In a worker process: one thread, and no output when Ctrl-C ends it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)


def _end(children: Sequence[multiprocessing.process.BaseProcess]) -> None:
    for child in children:
        child.terminate()
