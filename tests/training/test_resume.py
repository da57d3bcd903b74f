"""Trainings that are killed and resumed: seeded ones end as they would have, and no release is forgotten."""

from __future__ import annotations

import math
import random
import signal
import time
from functools import cache

import numpy as np
import pytest
import torch

from conftest import make_problem
from dpmac import DPMACClassifier, DPMACRegressor, Machine
from dpmac.bounds.adaptive import AdaptiveQuantile
from dpmac.checks import ArgumentError
from dpmac.mac import Averaged, ConjugateGradient, OptimizerStep, SecondOrder, cosine
from dpmac.privacy import Ledger, Normalise, PerLayerClip, Plan
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Trainer
from dpmac.training.checkpoint import Checkpoints
from processes import forked

STEPS = 12
KINDS = ("adam", "adaptive", "second")  # of state that is kept


class Killed(BaseException):
    pass


def killing_at(step):
    def on_step(done, _total):
        if done == step:
            raise Killed

    return on_step


def trainer_of(kind="adam", source=None, on_step=None, problem=None):
    problem = make_problem(rows=40) if problem is None else problem
    plan = Plan(40, 10, STEPS, 1.0, 1e-3)
    more = {
        "adam": {"wstep": Averaged(OptimizerStep(lr=0.1, schedule=cosine), 0.9), "bound": Normalise()},
        "adaptive": {"wstep": OptimizerStep(lr=0.1), "bound": AdaptiveQuantile(0.5)},
        "second": {"wstep": ConjugateGradient(3), "bound": PerLayerClip(1.0), "expansion": SecondOrder()},
    }[kind]
    return Trainer(
        problem.network, problem.loss, plan, source=source or SeededNoise(5), on_step=on_step, **more
    ), problem


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])


@cache
def uninterrupted(kind):
    trainer, problem = trainer_of(kind)
    return trainer.fit(problem.x, problem.y)


@pytest.mark.parametrize(
    ("kind", "every", "kills"),
    [
        *(("adam", every, kills) for every, kills in ((0.0, (5,)), (1e6, (5,)), (1e6, (STEPS,)))),
        *((kind, every, kills) for kind in KINDS for every, kills in ((0.0, (1, 4, 9)), (1e6, (3, 7)))),
    ],
)
def test_a_seeded_run_that_was_killed_ends_as_if_it_had_not_been(tmp_path, kind, every, kills):
    """Whether the last checkpoint is of the last step or of the start, the same bits and the same ledger come out."""
    whole = uninterrupted(kind)
    for kill in kills:
        trainer, problem = trainer_of(kind, on_step=killing_at(kill))
        with pytest.raises(Killed) as caught:
            trainer.fit(problem.x, problem.y, Ledger.at(tmp_path / "ledger"), Checkpoints(tmp_path / "kept", every))
        assert len(caught.value.ledger) == kill
    trainer, problem = trainer_of(kind)
    run = trainer.fit(problem.x, problem.y, Ledger.load(tmp_path / "ledger"), Checkpoints(tmp_path / "kept"))
    assert torch.equal(weights(run), weights(whole))
    assert [r.released_norms for r in run.history] == [r.released_norms for r in whole.history]
    assert Ledger.load(tmp_path / "ledger").entries == whole.ledger.entries


@pytest.mark.parametrize("every", [0.0, 1e6])
def test_an_unseeded_run_pays_for_what_it_lost_and_keeps_to_its_plan(tmp_path, every):
    trainer, problem = trainer_of(source=SystemNoise(), on_step=killing_at(5))
    with pytest.raises(Killed):
        trainer.fit(problem.x, problem.y, Ledger.at(tmp_path / "ledger"), Checkpoints(tmp_path / "kept", every))
    trainer, problem = trainer_of(source=SystemNoise())
    ledger = Ledger.load(tmp_path / "ledger")
    assert len(ledger) == 5
    # the checkpoint is written behind on_step: the fifth step's is not, where one is written at every step
    with pytest.warns(RuntimeWarning, match="1 steps were released" if every == 0.0 else "4 steps were released"):
        run = trainer.fit(problem.x, problem.y, ledger, Checkpoints(tmp_path / "kept"))
    assert len(Ledger.load(tmp_path / "ledger")) == STEPS
    assert run.ledger.epsilon(1e-3) == trainer.plan.epsilon()
    assert run.history[-1].step == STEPS
    assert run.history[-1].lr < 0.01  # the schedule comes to its end


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    trainer, problem = trainer_of(on_step=killing_at(2))
    with pytest.raises(Killed):
        trainer.fit(problem.x, problem.y, Ledger.at(tmp_path / "ledger"), Checkpoints(tmp_path / "kept", 0.0))
    other, _ = trainer_of(source=SeededNoise(6))
    with pytest.raises(ArgumentError, match="another training"):
        other.fit(problem.x, problem.y, Ledger.load(tmp_path / "ledger"), Checkpoints(tmp_path / "kept"))
    same, _ = trainer_of()
    with pytest.raises(ArgumentError, match="not the ledger"):
        same.fit(problem.x, problem.y, Ledger(tmp_path / "another"), Checkpoints(tmp_path / "kept"))
    with pytest.raises(ArgumentError, match="needs a ledger on the disk"):
        same.fit(problem.x, problem.y, Ledger(), Checkpoints(tmp_path / "kept"))
    path = tmp_path / "kept" / "checkpoint.safetensors"
    raw = path.read_bytes()
    flipped = raw[:-3] + bytes([raw[-3] ^ 0x40]) + raw[-2:]
    for damaged in (
        raw[: len(raw) // 2],
        raw[:4],
        b"",
        raw.replace(b"dpmac-checkpoint-1", b"dpmac-checkpoint-9"),
        flipped,
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"checkpoint\.safetensors"):
            same.fit(problem.x, problem.y, Ledger.load(tmp_path / "ledger"), Checkpoints(tmp_path / "kept"))
    assert len(Ledger.load(tmp_path / "ledger")) == 2


def test_only_a_seeded_release_is_made_again_without_being_paid_for_again():
    from dpmac.privacy import Entry

    ledger = Ledger()
    with ledger.noting(run="mine"):
        for entry in (Entry("a", 1.0, 0.5, seeded=True), Entry("b", 1.0, 0.5)):
            ledger.append(entry)
    with ledger.noting(run="another's"):
        ledger.append(Entry("c", 1.0, 0.5, seeded=True))
    again = ledger.replaying("mine", 0)
    again.append(Entry("a", 1.0, 0.5, seeded=True))
    with pytest.raises(RuntimeError, match="'b'"):
        again.append(Entry("b", 1.0, 0.5))
    with pytest.raises(RuntimeError, match="'a'"):
        ledger.replaying("mine", 0).append(Entry("a", 2.0, 0.5, seeded=True))
    again = ledger.replaying("mine", 2)
    again.append(Entry("c", 1.0, 0.5, seeded=True))  # another run's is not taken for it
    assert [e.label for e in ledger.entries] == ["a", "b", "c", "c"]


def rows(n=400):
    made = np.random.default_rng(0)
    x = made.uniform(-1, 1, (n, 4))
    return x, (x[:, 0] + x[:, 1] > 0).astype(int)


SETTINGS = {"epsilon": 4.0, "delta": 1e-4, "feature_range": (-1, 1), "epochs": 2, "batch_size": 40, "random_state": 3}


@pytest.mark.parametrize("kind", [DPMACClassifier, DPMACRegressor])
def test_an_estimator_that_was_interrupted_goes_on(tmp_path, kind, monkeypatch):
    x, y = rows()
    more = {"target_range": (0, 1)} if kind is DPMACRegressor else {"classes": [0, 1]}
    whole = kind(**SETTINGS, **more).fit(x, y)
    kept = {"ledger": tmp_path / "ledger", "machine": Machine(checkpoint=tmp_path / "kept")}
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "on_step", None)
        original = Trainer._step

        def killed(self, training, *rest):
            original(self, training, *rest)
            if training.done == 12:
                raise KeyboardInterrupt

        patch.setattr(Trainer, "_step", killed)
        with pytest.raises(KeyboardInterrupt) as caught:
            kind(**SETTINGS, **more, **kept).fit(x, y)
    assert len(caught.value.ledger) == 12
    found = kind(**SETTINGS, **more, **kept).fit(x, y)
    assert np.array_equal(found.predict(x), whole.predict(x))
    assert torch.equal(weights(found.run_), weights(whole.run_))
    assert found.privacy_.epsilon == whole.privacy_.epsilon
    assert not (tmp_path / "kept").exists()
    again = kind(**SETTINGS, **more, **kept).fit(x, y)  # a new fit: paid for anew
    assert len(again.run_.ledger) == 2 * len(whole.run_.ledger)


def test_a_checkpoint_needs_a_ledger_on_the_disk(tmp_path):
    x, y = rows()
    for ledger in (None, Ledger()):
        with pytest.raises(ArgumentError, match="needs a ledger on the disk"):
            DPMACClassifier(**SETTINGS, ledger=ledger, machine=Machine(checkpoint=tmp_path / "kept")).fit(x, y)
    with pytest.raises(ArgumentError, match="checkpoint=3"):
        Machine(checkpoint=3)


def test_an_interruption_after_the_training_hands_the_ledger_over_and_is_not_paid_twice(tmp_path, monkeypatch):
    from dpmac.methods import Calibration

    x, y = rows(2000)
    settings = {**SETTINGS, "epochs": 1}
    kept = {"ledger": tmp_path / "ledger", "machine": Machine(checkpoint=tmp_path / "kept")}
    original = Calibration.fit

    def killed(self, *arguments, **more):
        original(self, *arguments, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Calibration, "fit", killed)
        with pytest.raises(KeyboardInterrupt) as caught:
            DPMACClassifier(**settings, **kept).fit(x, y)
    spent = len(caught.value.ledger)
    whole = DPMACClassifier(**settings, ledger=Ledger()).fit(x, y)
    found = DPMACClassifier(**settings, **kept).fit(x, y)
    assert found.calibration_ == whole.calibration_
    assert len(found.run_.ledger) == spent


def one_life(connection, where):
    """What a process does until it is killed: a fit that goes on with what is kept."""
    torch.set_num_threads(1)
    x, y = rows()
    keep = Checkpoints(where / "kept", 0.05, keep=True)
    connection.send("ready")
    settings = {**SETTINGS, "epochs": 100}
    model = DPMACClassifier(**settings, classes=[0, 1], ledger=where / "ledger", machine=Machine(checkpoint=keep))
    model.fit(x, y)
    np.save(where / "found.npy", model.decision_function(x))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_real_kills_at_random_moments(tmp_path, seed):
    """SIGKILL, again and again, until a process comes to the end: the model is the uninterrupted one's, bit for bit."""
    moments, kills = random.Random(seed), 0
    while True:
        child, connection = forked(one_life, tmp_path)
        assert connection.recv() == "ready"
        if kills < 2:
            time.sleep(moments.uniform(0.1, 0.6))
            child.kill()
        kills += 1
        child.join()
        connection.close()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
    x, y = rows()
    whole = DPMACClassifier(**{**SETTINGS, "epochs": 100}, classes=[0, 1]).fit(x, y)
    assert np.array_equal(np.load(tmp_path / "found.npy"), whole.decision_function(x))
    assert len(Ledger.load(tmp_path / "ledger")) == len(whole.run_.ledger)
    assert math.isfinite(whole.privacy_.epsilon)
