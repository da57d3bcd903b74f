"""A pytest plugin of the processes that run tests on a mutant: they run until one fails."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import pytest

from mutants.machine.jobs import Events, Job

QUIET = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
OPTIONS = (
    *QUIET,
    *("-s", "-p", "no:xdist", "-p", "no:randomly", "--tb=short"),
)


def _forget() -> None:
    """No test is warned of what another has fitted, and no fixture is, which tests/conftest.py does not see to."""
    if (warning := sys.modules.get("dpmac.estimators.warning")) is not None:
        warning.forget()


class Asking:
    """Says which test is running, limits its time, and ends the process at the first failure."""

    def __init__(self, job: Job, events: Events) -> None:
        self._limits, self._events = dict(job.tests), events

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Only the job's tests, in its order."""
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self._limits if test in found]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._events.say("running", nodeid)
        _forget()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process, whatever it is doing
        signal.setitimer(signal.ITIMER_REAL, self._limits.get(nodeid, 60.0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.fail(report.nodeid, report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.fail(report.nodeid, report)

    def fail(self, test: str, report: Any) -> None:
        """Say it and end: nothing is torn down, the folder is removed with all that is in it."""
        crash = getattr(report.longrepr, "reprcrash", None)
        self._events.say("failed", test, crash.message if crash is not None else str(report.longrepr)[-300:])
        os._exit(1)
