"""Processes that are killed while they train together: the others stop, nothing paid is lost, and all can go on."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
import torch
from together_child import STEPS, gone_on, trained

from dpmac.extensions.world import SINGLE_PROCESS
from dpmac.privacy import Ledger
from dpmac.training.checkpoint import Checkpoints
from processes import together_run, values

TURNS = max(8, int(os.environ.get("KILLS", "0")) * 2 // 5)  # `make durability` takes 20


def written(folder):
    """Releases that are on the disk."""
    path = folder / "ledger"
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def killing(folder, victim, after, moment=0.0, how=signal.SIGKILL):
    """Ends ``victim`` a ``moment`` after so many releases are on the disk."""

    def during(processes):
        end = time.monotonic() + 60
        while written(folder) < after and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(moment)
        os.kill(processes[victim].pid, how)

    return during


def stopped(folder, size, victim, after, moment=0.0, **other):
    """A training of which one process was killed; the releases that are on the disk then."""
    ended = together_run(size, gone_on, str(folder), other, 1e6, 0.05, during=killing(folder, victim, after, moment))
    assert ended[victim].code == -signal.SIGKILL
    for rank, one in enumerate(ended):
        if rank != victim:
            assert one.error == "WorldError", one
            assert "another process has stopped, or cannot be reached" in one.words
            assert "start all processes again to go on" in one.words
    return written(folder)


def close(one, other):
    torch.testing.assert_close(torch.tensor(one["weights"]), torch.tensor(other["weights"]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_seeded_training_that_lost_a_process_ends_as_if_it_had_not(victim, tmp_path):
    made = stopped(tmp_path, 2, victim, 4)
    assert 4 <= made < STEPS
    whole = values(together_run(2, trained, None, {}))
    assert values(together_run(2, gone_on, str(tmp_path), {})) == whole
    assert len(Ledger.read(tmp_path / "ledger")) == STEPS


def test_another_number_of_processes_may_go_on(tmp_path):
    whole = trained(SINGLE_PROCESS, None, {})
    stopped(tmp_path, 2, 1, 3)
    stopped(tmp_path, 4, 2, 6)
    ended = gone_on(SINGLE_PROCESS, str(tmp_path), {})
    close(ended, whole)
    assert len(Ledger.read(tmp_path / "ledger")) == STEPS == ended["releases"]


def test_an_unseeded_training_whose_follower_was_killed_loses_no_step_that_was_released(tmp_path):
    """The leader is there to write down what it has, although no checkpoint was due."""
    made = stopped(tmp_path, 3, 2, 4, unseeded=True)
    saved = Checkpoints(tmp_path / "checkpoint").read()
    assert made - saved["done"] in (0, 1)  # 1: the event was written, and its answer not sent to all
    ended = values(together_run(3, gone_on, str(tmp_path), {"unseeded": True}))
    assert {one["releases"] for one in ended} == {STEPS} == {written(tmp_path)}
    assert len({str(one["weights"]) for one in ended}) == 1


def test_a_killed_leader_leaves_a_ledger_that_counts_every_release(tmp_path):
    made = stopped(tmp_path, 2, 0, 4, unseeded=True)
    assert Checkpoints(tmp_path / "checkpoint").read()["done"] == 1  # none was due since: the rest is paid, and gone
    ended = values(together_run(2, gone_on, str(tmp_path), {"unseeded": True}))
    assert {one["releases"] for one in ended} == {STEPS} == {written(tmp_path)}
    assert made >= 4


@pytest.mark.long
@pytest.mark.parametrize("turn", range(TURNS))
def test_whoever_is_killed_whenever_no_release_is_uncounted(turn, tmp_path):
    draw = random.Random(turn)
    seeded, size = bool(turn % 2), draw.choice([2, 3, 4])
    other = {} if seeded else {"unseeded": True}
    made = 0
    while made < 7:
        after, moment = draw.randint(made + 1, made + 3), draw.uniform(0.0, 0.03)  # once they have found each other
        made = stopped(tmp_path, size, draw.randrange(size), min(after, 8), moment, **other)
    ended = values(together_run(draw.choice([2, 4]), gone_on, str(tmp_path), other))
    assert {one["releases"] for one in ended} == {STEPS} == {len(Ledger.read(tmp_path / "ledger"))}
    if seeded:
        close(ended[0], trained(SINGLE_PROCESS, None, {}))
