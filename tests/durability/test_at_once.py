"""Two at a time: writers of one ledger, processes that go on with one run, and a fork in the middle of a fit."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import warnings

import numpy as np
import pytest

from cli.commands import wait_for
from dpmac import ArgumentError, DPMACClassifier, Machine
from dpmac.privacy import Entry, Ledger
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.exclusive import exclusive_access
from durability.child import FIT, STEPS, rows
from durability.lives import ROUNDS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
WRITER = """
import sys, time
from dpmac.privacy import Entry, Ledger
book, done = Ledger.load(sys.argv[1]), 0
print("ready", flush=True)
sys.stdin.readline()
for step in range(200):
    try:
        book.append(Entry(sys.argv[2], 1.0, 0.5))
        done += 1
    except (RuntimeError, ValueError) as error:  # the file has grown; or the other one is writing just now
        assert "a ledger has one writer" in str(error)
        book = Ledger.load(sys.argv[1])
print(done, flush=True)
"""


@pytest.mark.long
def test_two_processes_that_write_one_ledger_lose_no_line(tmp_path):
    """Whoever comes second is refused, loads it again, and goes on: every append that returned is in the file."""
    path = tmp_path / "ledger"
    Ledger(path).append(Entry("first", 1.0, 0.5))  # which makes the file
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], **pipes) for name in ("a", "b")]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    made = [int(writer.communicate(timeout=120)[0]) for writer in writers]
    labels = [entry.label for entry in Ledger.read(path).entries]
    assert [labels.count(name) for name in ("a", "b")] == made
    assert min(made) > 0


def test_a_second_process_with_the_same_checkpoint_is_refused_before_it_spends(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    ready, go = os.pipe(), os.pipe()
    pid = _forked()
    if pid == 0:
        with exclusive_access(kept, "checkpoint"):
            os.write(ready[1], b"r")
            select.select([go[0]], [], [], 60)
        os._exit(0)
    os.read(ready[0], 1)
    with pytest.raises(ArgumentError, match="another process is training with it"):
        DPMACClassifier(**FIT, ledger=tmp_path / "ledger", machine=Machine(checkpoint=kept)).fit(*rows())
    assert not (tmp_path / "ledger").exists()
    assert list(kept.iterdir()) == []
    os.write(go[1], b"g")
    os.waitpid(pid, 0)
    model = DPMACClassifier(**FIT, ledger=tmp_path / "ledger", machine=Machine(checkpoint=kept)).fit(*rows())
    assert len(model.privacy_.ledger) == STEPS + ROUNDS


@pytest.mark.parametrize("first", ["parent", "child"])
def test_a_fork_in_the_middle_of_a_fit(tmp_path, monkeypatch, first):
    """The parent goes on, the child is refused at its next release, whoever comes first; and no draw is made twice."""
    from dpmac.training.trainer import Trainer

    path, exact, pids = tmp_path / "ledger", Trainer._step, []

    def forking(self, training, *rest):
        exact(self, training, *rest)
        if training.done == 10 and not pids:
            pids.append(_forked())
            me = "child" if pids[0] == 0 else "parent"
            np.save(tmp_path / f"{me}.npy", training.noise.normal((8,)).numpy())
            if me != first:
                after = (lambda: len(Ledger.read(path)) >= 20) if me == "child" else (tmp_path / "child.txt").exists
                wait_for(after)

    monkeypatch.setattr(Trainer, "_step", forking)
    model = DPMACClassifier(**FIT, ledger=path, machine=Machine(checkpoint=Checkpoints(tmp_path / "kept", keep=True)))
    said = ""
    try:
        model.fit(*rows())
    except Exception as error:
        said = str(error)
    if pids[0] == 0:
        (tmp_path / "child.txt").write_text(said)
        os._exit(0)
    os.waitpid(pids[0], 0)
    ends = {"parent": said, "child": (tmp_path / "child.txt").read_text()}
    assert ends["parent"] == ""
    assert "a ledger has one writer" in ends["child"]
    assert len(Ledger.read(path)) == STEPS + ROUNDS
    assert not np.array_equal(np.load(tmp_path / "child.npy"), np.load(tmp_path / "parent.npy"))


def _forked():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        return os.fork()
