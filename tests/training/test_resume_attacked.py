"""What a reviewer did to runs that are resumed: other runs in the same ledger, caps, metrics, full disks."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dpmac import DPMACPCA, DPMACClassifier, Machine
from dpmac.checks import ArgumentError
from dpmac.privacy import Ledger
from dpmac.randomness import SystemNoise
from dpmac.training import checkpoint as room
from dpmac.training import trainer as trainers
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.interruptions import held_back
from tests.training.test_resume import STEPS, Killed, killing_at, rows, trainer_of


@pytest.fixture
def releases(monkeypatch):
    """Counts releases, and interrupts after so many more."""

    class Count:
        made, end = 0, 10**9

        def after(self, more=None):
            self.end = 10**9 if more is None else self.made + more

    count, real = Count(), trainers.release

    def counted(*arguments, **named):
        if count.made >= count.end:
            raise KeyboardInterrupt
        count.made += 1
        return real(*arguments, **named)

    monkeypatch.setattr(trainers, "release", counted)
    return count


def fit(folder, name, seed, **more):
    x, y = rows()
    settings = {"epsilon": 2.0, "delta": 1e-4, "classes": [0, 1], "calibrate": False, "feature_range": (-1, 1)}
    machine = Machine(checkpoint=Checkpoints(folder / name, 0.0))
    model = DPMACClassifier(
        (), **settings, **more, ledger=folder / "ledger", random_state=seed, machine=machine, epochs=4, batch_size=40
    )
    return model.fit(x, y)


@pytest.mark.parametrize("seeds", [(1, 2), (1, 1), (None, None)])
def test_two_killed_runs_in_one_ledger_take_none_of_each_others_releases(tmp_path, releases, seeds):
    """Each was taken for the other's when a seeded run was continued, and releases went unrecorded."""
    for name, seed, steps in (("a", seeds[0], 8), ("b", seeds[1], 12)):
        releases.after(steps)
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path, name, seed)
    releases.after()
    for name, seed in (("a", seeds[0]), ("b", seeds[1])):
        fit(tmp_path, name, seed)
    assert len(Ledger.load(tmp_path / "ledger")) == 80
    assert releases.made == 80  # checkpoints after every step: none was made again


def test_what_others_released_since_counts_against_a_total(tmp_path, releases):
    releases.after(10)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, "a", None, total_epsilon=3.0)
    x, _ = rows()
    DPMACPCA(2, epsilon=2.4, delta=1e-4, feature_range=(-1, 1), ledger=tmp_path / "ledger", total_epsilon=3.0).fit(x)
    releases.after()
    with pytest.raises(ArgumentError, match="total_epsilon"):
        fit(tmp_path, "a", None, total_epsilon=3.0)
    assert fit(tmp_path, "a", None, total_epsilon=5.0).plan_.steps == 40


def test_an_old_copy_of_the_ledger_is_noticed(tmp_path, releases):
    releases.after(5)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, "a", 1)
    old = (tmp_path / "ledger").read_bytes()
    releases.after(5)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, "a", 1)
    releases.after()
    (tmp_path / "ledger").write_bytes(old)
    with pytest.raises(ValueError, match=r"older copy: .*ledger.seen saw 10 releases, and it has 5"):
        fit(tmp_path, "a", 1)
    (tmp_path / "ledger.seen").unlink()  # the checkpoint knows it, too
    with pytest.raises(ArgumentError, match="or an older copy"):
        fit(tmp_path, "a", 1)


@pytest.mark.parametrize("metric", [np.float32(0.5), float("nan"), np.float64("inf"), 1])
def test_metrics_of_any_kind_of_number_are_kept(tmp_path, metric):
    """A paid training was ended by its last checkpoint, and the next fit gave the untrained network back."""
    trainer, problem = trainer_of(on_step=killing_at(STEPS))
    trainer.evaluate = lambda _network: {"score": metric}
    with pytest.raises(Killed):
        trainer.fit(problem.x, problem.y, Ledger(tmp_path / "ledger"), Checkpoints(tmp_path / "kept", 0.0))
    trainer.on_step = None
    run = trainer.fit(problem.x, problem.y, Ledger.load(tmp_path / "ledger"), Checkpoints(tmp_path / "kept", 0.0))
    found = [record.metrics["score"] for record in run.history]
    np.testing.assert_equal(found, [float(metric)] * len(found))


def test_a_full_disk_stops_a_training_before_it_is_paid_for_and_not_after(tmp_path, monkeypatch):
    real, written = room.write_tensors, []

    def full(path, *rest):
        written.append(path)
        if len(written) != after:
            raise OSError(28, "No space left on device")
        return real(path, *rest)

    monkeypatch.setattr(room, "write_tensors", full)
    after = 0
    trainer, problem = trainer_of()
    with pytest.raises(OSError, match="No space"):
        trainer.fit(problem.x, problem.y, Ledger(tmp_path / "first"), Checkpoints(tmp_path / "kept", 0.0))
    assert not (tmp_path / "first").exists()
    written.clear()
    after = 1
    with pytest.warns(RuntimeWarning, match="could not be written"):
        run = trainer.fit(problem.x, problem.y, Ledger(tmp_path / "second"), Checkpoints(tmp_path / "kept", 0.0))
    assert len(run.ledger) == STEPS
    assert len(list((tmp_path / "kept").iterdir())) == 1  # the first checkpoint, and no part of another


def test_a_run_with_other_settings_is_not_gone_on_with(tmp_path, releases):
    releases.after(5)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, "a", 1)
    for more, what in (({"learning_rate": 0.5}, "wstep"), ({"z_step": "adam"}, "zstep")):
        with pytest.raises(ArgumentError, match=what):
            fit(tmp_path, "a", 1, **more)


@pytest.fixture
def heard():
    """Python's own handler of SIGINT, which a process that a shell starts in the background does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_loses_no_step(tmp_path, heard):
    """It waits for the end of the step, and the step is written down."""

    def interrupting(done, _total):
        if done == 5:
            os.kill(os.getpid(), signal.SIGINT)

    trainer, problem = trainer_of(source=SystemNoise(), on_step=interrupting)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(problem.x, problem.y, Ledger(tmp_path / "ledger"), Checkpoints(tmp_path / "kept", 1e6))
    assert signal.getsignal(signal.SIGINT) is heard
    trainer.on_step = None
    run = trainer.fit(problem.x, problem.y, Ledger.load(tmp_path / "ledger"), Checkpoints(tmp_path / "kept"))
    assert len(run.ledger) == STEPS  # and no warning: none was lost


@pytest.mark.usefixtures("heard")
def test_a_second_ctrl_c_is_not_kept_waiting():
    came = []

    def twice():
        with held_back() as held:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                came.append(held.came)

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert came == [True]
    with pytest.raises(KeyboardInterrupt), held_back():  # and one that nobody let through comes at the end
        os.kill(os.getpid(), signal.SIGINT)
    with ThreadPoolExecutor(1) as other:
        assert not other.submit(_held_in_a_thread).result()


def _held_in_a_thread():
    with held_back() as held:
        return held.came


@pytest.mark.usefixtures("heard")
def test_a_handler_that_the_interruption_sets_is_left_in_place():
    """Whoever ends a run on Ctrl-C may not want to hear of a second one on the way out."""

    def deaf(*_):
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    signal.signal(signal.SIGINT, deaf)
    with held_back() as held:
        os.kill(os.getpid(), signal.SIGINT)
        held.let_through()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
