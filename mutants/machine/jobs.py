"""A job for a server: tests to run on a mutant, in a process of its own, and what came of it."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Literal

from mutants.mutant import ROOT

NOT_HERE = 98  # how a process ends that cannot put this mutant into code which is loaded already
_DEATH = 1  # PR_SET_PDEATHSIG: the signal that comes when the parent ends
State = Literal["passed", "failed", "timeout", "not here"]


@dataclass(frozen=True)
class Job:
    """``tests`` with a limit in seconds for each, on the text ``source`` in place of ``module``'s (both may be "")."""

    module: str
    source: str
    tests: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Outcome:
    """``test`` is the one that failed or had no end, and ``words`` the beginning of what it said."""

    state: State
    test: str = ""
    words: str = ""
    seconds: float = 0.0  # of a processor


def ask(address: str, job: Job) -> Outcome:
    """Have a server do the job."""
    with Client(address) as connection:
        connection.send(job)
        outcome = connection.recv()
    assert isinstance(outcome, Outcome)
    return outcome


class Events:
    """What a process says while it runs tests: one line of JSON each, in a file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "events.jsonl"

    def say(self, what: str, test: str = "", words: str = "") -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([what, test, words[:300]]) + "\n")

    def last(self, what: str) -> tuple[str, str]:
        """The test and the words of the last such event."""
        if self._path.is_file():
            for line in reversed(self._path.read_text(encoding="utf-8").splitlines()):
                kind, test, words = json.loads(line)
                if kind == what:
                    return test, words
        return "", ""


def serve(address: str, work: Callable[[Job, Events], int]) -> None:
    """For each job, fork: ``work`` runs in a process of its own, and its code is 0 if all tests passed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    with Listener(address, backlog=64) as listener:
        print("ready", flush=True)
        while True:
            connection = listener.accept()
            if _forked() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                try:
                    connection.send(_supervised(connection.recv(), work))
                finally:
                    os._exit(0)
            connection.close()


def _supervised(job: Job, work: Callable[[Job, Events], int]) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="mutate-"))
    events = Events(folder)
    pid = _forked()
    if pid == 0:
        code = 97
        try:
            _move_in(job, folder)
            code = work(job, events)
        except BaseException as error:
            events.say("failed", "", f"{type(error).__name__}: {error}")
        finally:
            os._exit(code)
    code, seconds = _wait(pid, 60.0 + sum(limit for _, limit in job.tests))
    outcome = _outcome(code, events, seconds)
    shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _forked() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads, which here only wait
        return os.fork()


def _move_in(job: Job, folder: Path) -> None:
    """Everything that the tests write, and all they start, is in this process's folder and group."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH, signal.SIGKILL)  # who is stopped leaves nothing running
    os.chdir(ROOT)
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((0, nothing), (1, log), (2, log)):
        os.dup2(target, number)
    os.environ.update(TMPDIR=str(folder), PYTEST_DEBUG_TEMPROOT=str(folder))
    tempfile.tempdir = None
    if job.module:
        os.environ.update(MUTANT_MODULE=job.module, MUTANT_SOURCE=job.source)


def _wait(pid: int, limit: float) -> tuple[int, float]:
    """The exit code, negative for a signal, and the time it took of a processor; what it has started ends with it."""
    end = time.monotonic() + limit
    pause = 0.002
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done or time.monotonic() > end:
            break
        time.sleep(pause)
        pause = min(0.05, 1.2 * pause)
    _kill(pid)
    if not done:
        _, status, used = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status) if done else -signal.SIGALRM
    return code, used.ru_utime + used.ru_stime


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _outcome(code: int, events: Events, seconds: float) -> Outcome:
    if code == 0:
        return Outcome("passed", seconds=seconds)
    if code == NOT_HERE:
        return Outcome("not here", seconds=seconds)
    running, _ = events.last("running")
    if code == -signal.SIGALRM:
        return Outcome("timeout", running, "no end", seconds)
    test, words = events.last("failed")
    return Outcome("failed", test or running, words or f"the process ended with {code}", seconds)
