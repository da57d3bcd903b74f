"""One measurement in a process of its own: nothing that another one loaded, warmed up or left in memory counts.

The child is the same script with a JSON object as its only argument; its last line on standard output is the answer.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def answer(script: str, asked: dict[str, Any], threads: int, cap: float | None = None) -> dict[str, Any]:
    """What the child said, or ``{"failed": why}`` of one that died, or that the system ended.

    ``cap`` is in seconds of every thread's processor: a busy machine shall not decide who finishes.
    """
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    env = os.environ | {name: str(threads) for name in THREADS} | {"PYTHONPATH": path}
    command = [sys.executable, "-W", "ignore", script, json.dumps(asked)]
    most = None if cap is None else int(cap * threads)
    limit = None if most is None else partial(resource.setrlimit, resource.RLIMIT_CPU, (most, most))
    done = subprocess.run(command, env=env, capture_output=True, text=True, preexec_fn=limit, check=False)
    if -done.returncode in (signal.SIGXCPU, signal.SIGKILL) and cap is not None:
        return {"failed": f"not finished in {cap:g} s of a processor", "told": done.stderr.strip().splitlines()[-1:]}
    try:
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}, and no word"])[-1]
        return {"failed": last[:300]}
    return found


def asked_of_child() -> dict[str, Any] | None:
    """The question, if this process is a child; None if a person started it."""
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        question: dict[str, Any] = json.loads(sys.argv[1])
        return question
    return None


def machine(device: str = "cpu") -> str:
    """What kind of machine this is, in words."""
    if device != "cpu":
        import torch

        return str(torch.cuda.get_device_name())
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text(encoding="utf-8").splitlines() if cpus.exists() else []
    name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "CPU")
    return f"{name}, {os.cpu_count()} cores"
