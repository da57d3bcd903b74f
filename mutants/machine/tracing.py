"""Which test executes which line: a tracer for pytest, and for every process that a test starts.

``MUTATE_TRACE`` is the folder that all is written to. A pytest process keeps the number of its current test in a small
file that is mapped into memory (``MUTATE_TEST``), so that processes of its own which outlive a test, such as a server
that forks one for each command, know which test they work for. Every line is written as soon as it is first seen: a
process that is killed has left everything.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from mutants.machine.targets import groups
from mutants.mutant import PACKAGE, ROOT

NOBODY = 0  # the number while no test runs: imports and collection


class Tracer:
    """Writes ``test file line`` once for each line of a target file that is executed while that test is current."""

    def __init__(self, current: Path, out: Path) -> None:
        with current.open("r+b") as handle:
            self._shared = mmap.mmap(handle.fileno(), 8)
        self._worker = current.name
        self._out = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._files = {str(ROOT / PACKAGE / file): file for files in groups().values() for file in files}
        self._now = b""
        self._locals: dict[str, Callable[..., Any]] = {}

    def __call__(self, frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        path = frame.f_code.co_filename
        file = self._files.get(path)
        if file is None:
            return None
        if self._shared[:8] != self._now:
            self._now = self._shared[:8]
            self._locals = {}
        if (local := self._locals.get(path)) is None:
            local = self._locals[path] = self._tracer(file)
        return local

    def _tracer(self, file: str) -> Callable[..., Any]:
        (number,) = struct.unpack("q", self._now)
        seen: set[int] = set()

        def local(frame: FrameType, _event: str, _argument: object) -> Callable[..., Any]:
            if (line := frame.f_lineno) not in seen:
                seen.add(line)
                os.write(self._out, f"{self._worker} {number} {file} {line}\n".encode())
            return local

        return local


def start() -> None:
    """Trace this process, and the threads and forks that come of it."""
    current = Path(os.environ["MUTATE_TEST"])
    tracer = Tracer(current, Path(os.environ["MUTATE_TRACE"]) / f"lines-{os.getpid()}.txt")
    threading.settrace(tracer)
    sys.settrace(tracer)
