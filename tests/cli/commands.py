"""Ways to give a command: in this process, or in one of its own that can be limited, interrupted and killed.

A server imports everything once and forks a process for every command, so that a real one starts in milliseconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

SERVER = """
import json, os, resource, signal, sys, traceback
from contextlib import redirect_stderr, redirect_stdout
import torch
import dpmac.cli, dpmac.estimators, dpmac.saving.export, dpmac.report.page, dpmac.privacy, dpmac.tables.files
import dpmac.cli.training, dpmac.cli.scores, sklearn.metrics
torch.set_num_threads(1)
def ended():
    try:
        dpmac.cli.main()
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 99
    return 0

for line in sys.stdin:
    job = json.loads(line)
    sys.argv = ["dpmac", *job["words"]]
    if job["inside"]:  # plans that are computed here are known to all that are forked later
        os.chdir(job["folder"])
        with open(job["out"], "w") as out, open(job["err"], "w") as err, redirect_stdout(out), redirect_stderr(err):
            code = ended()
        print(0, code, sep="\\n", flush=True)
        continue
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(job["folder"])
        if job["file_limit"]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_limit"],) * 2)
        for number, path in ((0, os.devnull), (1, job["out"]), (2, job["err"])):
            os.dup2(os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        code = ended()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


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

    pid: int
    server: Server
    places: tuple[str, str]

    def send(self, signum):
        os.kill(self.pid, signum)

    def end(self) -> Ended:
        code = int(self.server.process.stdout.readline())
        out, err = (Path(place).read_text() if place != "/dev/full" else "" for place in self.places)
        return Ended(code, out, err)


@dataclass
class Server:
    """Commands, one at a time, each in a process of its own."""

    process: subprocess.Popen = field(init=False)

    def __post_init__(self):
        code = [sys.executable, "-c", SERVER]
        self.process = subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.scratch = tempfile.TemporaryDirectory()
        self.count = 0

    def begin(self, *words, folder, file_limit=0, out=None, inside=False) -> Running:
        self.count += 1
        places = [str(Path(self.scratch.name) / f"{self.count}.{name}") for name in ("out", "err")]
        places[0] = places[0] if out is None else str(out)
        job = {"words": list(map(str, words)), "folder": str(folder), "file_limit": file_limit, "inside": inside}
        self.process.stdin.write(json.dumps({**job, "out": places[0], "err": places[1]}) + "\n")
        self.process.stdin.flush()
        return Running(int(self.process.stdout.readline()), self, tuple(places))

    def run(self, *words, **how) -> Ended:
        return self.begin(*words, **how).end()

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=60)
        self.scratch.cleanup()


def wait_for(seen, seconds=60.0):
    """Wait until ``seen()`` holds."""
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)


def lines_of(path) -> int:
    return Path(path).read_bytes().count(b"\n") if Path(path).exists() else 0
