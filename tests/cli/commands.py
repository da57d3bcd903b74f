"""Ways to give a command: in this process, or in one of its own that can be limited, interrupted and killed.

A server has imported everything and forks a process for every command, so that a real one starts in milliseconds.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from processes import forked


def serve(jobs: Connection) -> None:
    """Runs one command after the other, each in a process of its own, or inside: plans that are computed here are known
    to all that are forked later."""
    import torch

    for name in ("cli.training", "cli.scores", "estimators", "report.page", "saving.export", "tables.files"):
        importlib.import_module(f"dpmac.{name}")
    importlib.import_module("sklearn.metrics")
    torch.set_num_threads(1)
    while True:
        try:
            job = jobs.recv()
        except EOFError:
            return
        sys.argv = ["dpmac", *job["words"]]
        if job["inside"]:
            os.chdir(job["folder"])
            with open(job["out"], "w") as out, open(job["err"], "w") as err, redirect_stdout(out), redirect_stderr(err):
                code = _code()
            jobs.send(None)
            jobs.send(code)
            continue
        pid = os.fork()
        if pid == 0:
            _be_a_command(job)
        jobs.send(pid)
        jobs.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _be_a_command(job: dict[str, Any]) -> NoReturn:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(job["folder"])
    if job["file_limit"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_limit"],) * 2)
    for number, path in ((0, os.devnull), (1, job["out"]), (2, job["err"])):
        os.dup2(os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    code = _code()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _code() -> int:
    """Give the command that ``sys.argv`` holds: how it ended."""
    import dpmac.cli

    try:
        dpmac.cli.main()
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 99
    return 0


@dataclass(frozen=True)
class Ended:
    """What a command has left."""

    code: int
    out: str
    err: str

    def json(self):
        assert self.code == 0, self.err
        return json.loads(self.out)


@dataclass
class Running:
    """A command on its way."""

    pid: int | None  # None: it ran inside the server
    server: Server
    places: tuple[str, str]
    ended: bool = False

    def send(self, signum):
        assert self.pid, "a command of its own"  # 0 would be all processes of the tests
        os.kill(self.pid, signum)

    def end(self) -> Ended:
        code = self.server.jobs.recv()
        self.ended = True
        out, err = (Path(place).read_text() if place != "/dev/full" else "" for place in self.places)
        return Ended(code, out, err)


class Server:
    """Commands, one at a time, each in a process of its own."""

    def __init__(self):
        self.process, self.jobs = self._forked()
        self.scratch = tempfile.TemporaryDirectory()
        self.count = 0
        self.last: Running | None = None

    def _forked(self):
        return forked(serve)

    def begin(self, *words, folder, file_limit=0, out=None, inside=False) -> Running:
        self._end_what_a_failed_test_left()
        self.count += 1
        places = [str(Path(self.scratch.name) / f"{self.count}.{name}") for name in ("out", "err")]
        places[0] = places[0] if out is None else str(out)
        job = {"words": list(map(str, words)), "folder": str(folder), "file_limit": file_limit, "inside": inside}
        self.jobs.send({**job, "out": places[0], "err": places[1]})
        self.last = Running(self.jobs.recv(), self, tuple(places))
        return self.last

    def _end_what_a_failed_test_left(self):
        """Its exit code would be taken for the next command's process."""
        if self.last is not None and not self.last.ended:
            self.last.send(signal.SIGKILL)
            self.last.end()

    def run(self, *words, **how) -> Ended:
        return self.begin(*words, **how).end()

    def stop(self):
        self.jobs.close()
        self.process.join(60)
        self.scratch.cleanup()


def wait_for(seen, seconds=60.0):
    """Wait until ``seen()`` holds."""
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)


def lines_of(path) -> int:
    return Path(path).read_bytes().count(b"\n") if Path(path).exists() else 0
