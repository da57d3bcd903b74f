"""The quick server: it has imported the package and collected every test; a fork changes a function in place.

``python -m mutants.machine.hot ADDRESS``. What happened while modules were imported and tests were collected had the
code without the bug: whoever survives here is asked again by the cold server, which imports everything anew.
"""

from __future__ import annotations

import gc
import sys
from collections import defaultdict
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from mutants.machine.asking import OPTIONS, Asking
from mutants.machine.codes import changed, compiled
from mutants.machine.jobs import NOT_HERE, Events, Job, serve
from mutants.machine.profile import register
from mutants.mutant import PACKAGE, ROOT


class Hot:
    """Instead of running the tests that were collected, serve."""

    def __init__(self, address: str) -> None:
        self._address = address

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        register()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        alive = functions()

        def work(job: Job, events: Events) -> int:
            if job.module and not put_in(job, alive):
                return NOT_HERE
            session.config.pluginmanager.register(Asking(job, events))
            asked = [items[test] for test, _ in job.tests if test in items]
            for item, following in zip(asked, [*asked[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            return 0

        gc.collect()
        gc.freeze()
        serve(self._address, work)
        return True


Alive = dict[tuple[str, str, int], list[FunctionType]]


def functions() -> Alive:
    """All functions of the package that are there, by their file, name and line."""
    found: defaultdict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if type(thing) is FunctionType and str(ROOT / PACKAGE) in thing.__code__.co_filename:
            found[_key(thing.__code__)].append(thing)
    return dict(found)


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def put_in(job: Job, alive: Alive) -> bool:
    """Give the functions that the bug is in their new code; False, and nothing done, if it is not in a function."""
    path = (ROOT / PACKAGE).joinpath(*job.module.split(".")[1:]).with_suffix(".py")
    old = compiled(path.read_text(encoding="utf-8"), str(path))
    new = compiled(Path(job.source).read_text(encoding="utf-8"), str(path))
    pairs = changed(old, new)
    if pairs is None or not pairs:
        return False
    outermost = _key(pairs[0][0])
    if outermost not in alive or len({_key(one) for one, _ in pairs}) < len(pairs):
        return False
    for before, after in pairs:
        for function in alive.get(_key(before), []):
            if function.__code__.co_freevars != after.co_freevars:
                return False
            function.__code__ = after
    return True


if __name__ == "__main__":
    sys.exit(pytest.main([*OPTIONS, "--continue-on-collection-errors", "tests"], plugins=[Hot(sys.argv[1])]))
