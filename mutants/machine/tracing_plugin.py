"""A pytest plugin (``-p mutants.machine.tracing_plugin``): tells the tracers which test is running."""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from mutants.machine.tracing import NOBODY, start


class Plugin:
    """Tells the tracers which test is running, and writes down how long each took.

    What a fixture of a module, a class or the session does belongs to all tests that use it.
    """

    def __init__(self, folder: Path) -> None:
        current = folder / f"test-{os.getpid()}"
        current.write_bytes(bytes(8))
        with current.open("r+b") as handle:
            self._shared = mmap.mmap(handle.fileno(), 8)
        self._worker, self._count, self._seconds, self._passed = current.name, NOBODY, 0.0, True
        self._table = (folder / f"table-{os.getpid()}.jsonl").open("a", encoding="utf-8")
        os.environ["MUTATE_TEST"] = str(current)
        start()

    def _tell(self, number: int) -> None:
        self._shared[:8] = struct.pack("q", number)

    def _note(self, **fields: object) -> None:
        self._table.write(json.dumps({"worker": self._worker, **fields}) + "\n")
        self._table.flush()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, object, object]:
        self._count += 1
        mine, self._seconds, self._passed = self._count, 0.0, True
        self._tell(mine)
        answer = yield
        self._tell(NOBODY)
        self._note(
            number=mine, test=item.nodeid, seconds=self._seconds, passed=self._passed, fixtures=item.fixturenames
        )
        return answer

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before, start = self._shared[:8], time.monotonic()
        self._count += 1
        mine = self._count
        self._tell(mine)
        try:
            return (yield)
        finally:
            self._shared[:8] = before
            spent = time.monotonic() - start
            self._note(number=mine, fixture=fixturedef.argname, below=request.node.nodeid, seconds=spent)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._seconds += report.duration
        self._passed = self._passed and (report.passed or report.skipped)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """The profile must be known before tests/conftest.py loads it."""
    from mutants.machine.profile import register

    register()


def pytest_configure(config: Any) -> None:
    """Trace where tests are run: in xdist's workers, or here if there are none."""
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(Plugin(Path(os.environ["MUTATE_TRACE"])))
