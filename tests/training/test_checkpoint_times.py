"""When a checkpoint is written: often where it is cheap, never more than a twentieth of the time; and if it fails."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from conftest import make_problem
from dpmac.mac import OptimizerStep
from dpmac.privacy import Ledger, PerLayerClip, Plan
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer, checkpoint
from dpmac.training.checkpoint import Checkpoints


@pytest.mark.parametrize(
    ("takes", "pause"), [(0.0, 0.25), (0.001, 0.25), (0.01, 1.0), (0.02, 2.0), (0.09, 2.0), (0.2, 4.0), (3.0, 60.0)]
)
def test_a_killed_process_loses_no_more_than_the_help_says(tmp_path, monkeypatch, takes, pause):
    clock = [100.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(checkpoint, "sync", lambda _: clock.__setitem__(0, clock[0] + takes))
    kept = Checkpoints(tmp_path / "kept")
    kept.write({"done": 1})
    clock[0] += 0.99 * pause
    assert not kept.due()
    clock[0] += 0.02 * pause
    assert kept.due()
    assert takes / (takes + pause) <= 0.05
    assert pause <= 2.0 or takes > 0.1


@dataclass(frozen=True)
class Secretive:
    """A bound that learns something under a name of its own, as anybody's may."""

    inner: PerLayerClip = PerLayerClip(1.0)  # noqa: RUF009 - frozen
    steps: int = 0

    def promise(self, partitions):
        return self.inner.promise(partitions)

    def apply(self, parts):
        return self.inner.apply(parts)

    def learned(self, _answer):
        return replace(self, steps=self.steps + 1)


def test_what_a_checkpoint_cannot_keep_does_not_end_a_training_that_is_half_paid_for(tmp_path):
    problem = make_problem(rows=40)
    plan = Plan(40, 10, 3, 1.0, 1e-3)
    trainer = Trainer(
        problem.network, problem.loss, plan, bound=Secretive(), wstep=OptimizerStep(lr=0.1), source=SeededNoise(0)
    )
    ledger = Ledger(tmp_path / "ledger")
    with pytest.warns(RuntimeWarning, match="learns something that a checkpoint cannot keep"):
        trainer.fit(problem.x, problem.y, ledger, Checkpoints(tmp_path / "kept", 0.0))
    assert len(ledger) == 3
