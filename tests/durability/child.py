"""A process to be killed: a training by the command or by ``fit``, and a witness of every release that it was handed.

Run by itself (``python child.py JSON``), or as a nursery that has imported everything and forks a child for each job.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NoReturn

import numpy as np

STEPS, ROWS = 40, 1000
NOBODY = 65534
FIT = {"epsilon": 2.0, "delta": 1e-5, "feature_range": (-1, 1), "epochs": 4, "batch_size": 100, "classes": [0, 1]}
FIT |= {"hidden_layer_sizes": ()}


def rows():
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (ROWS, 4))
    return x, (x[:, 0] + draw.normal(0, 0.5, ROWS) > 0).astype(int)


def watched(path):
    """From here on a byte is on the disk for every release, before whoever asked has its answer."""
    from dpmac.privacy import gaussian_release

    handle, exact = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), gaussian_release.release

    def release(*what, **how):
        answer = exact(*what, **how)
        os.write(handle, b".")
        os.fsync(handle)
        return answer

    found = [module for module in list(sys.modules.values()) if getattr(module, "release", None) is exact]
    assert len(found) > 3  # the door, the package, the trainer, the methods
    for module in found:
        module.release = release


def everything():
    """Import what a training needs: a module that comes later would not be watched."""
    import dpmac.cli.commands
    import dpmac.cli.scores
    import dpmac.cli.training
    import dpmac.report.page
    import dpmac.saving
    import dpmac.tables.estimate  # noqa: F401


def fitted(seed):
    """As a user would: a checkpoint that stays until the model is saved."""
    from dpmac import DPMACClassifier, Machine
    from dpmac.training.checkpoint import Checkpoints

    kept = Checkpoints("kept", 0.03, keep=True)
    if Path("model").exists():
        kept.clear()
        return
    model = DPMACClassifier(**FIT, random_state=seed, ledger="some.ledger", machine=Machine(checkpoint=kept))
    model.fit(*rows()).save("model")
    kept.clear()


def commands(lines):
    from dpmac.cli import main

    for words in lines:
        sys.argv = ["dpmac", *words]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise


def live(job, witness=True):
    """All that one process does."""
    os.chdir(job["folder"])
    everything()
    if witness:
        watched(job["witness"])
    fitted(job["seed"]) if job["lines"] is None else commands(job["lines"])


def nursery(jobs):
    """Forks a child for every job that comes: says its number, and when it has ended, how."""
    everything()
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            job = jobs.recv()
        except EOFError:
            return
        if job["inside"]:  # a plan that is computed inside is known to all that are forked later
            with open(job["said"], "w") as out, redirect_stdout(out), redirect_stderr(out):
                live(job, witness=False)
            jobs.send(os.getpid())
            jobs.send(0)
            continue
        pid = os.fork()
        if pid == 0:
            _be_a_child(job)
        jobs.send(pid)
        jobs.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _be_a_child(job) -> NoReturn:
    code = 1
    try:
        out = os.open(job["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        if job["nobody"] and os.getuid() == 0:  # root may write anywhere
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        live(job)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    live(json.loads(sys.argv[1]))
