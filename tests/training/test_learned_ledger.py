"""The paper's Algorithm 2 writes into the ledger that it was given, from its first release on."""

from __future__ import annotations

import pytest
from torch import nn

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.methods import NormHistogram
from dpmac.privacy import Ledger, PerLayerClip, Plan
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer
from dpmac.training.learned import costs_before, fit_with_learned_thresholds


def test_all_three_parts_are_in_the_ledger_that_was_given(tmp_path):
    problem, ledger = make_problem((5, 4, 3), rows=40), Ledger(tmp_path / "ledger")
    pretraining, histogram = Plan(40, 20, 2, 4.0, 1e-5), NormHistogram(5.0)
    plan = Plan(40, 20, 3, 3.0, 1e-5, costs_before(pretraining, histogram))
    trainer = Trainer(problem.network, problem.loss, plan, bound=PerLayerClip(1.0), source=SeededNoise(0))
    run = fit_with_learned_thresholds(trainer, pretraining, histogram, problem.x, problem.y, ledger)
    assert run.ledger is ledger
    assert Ledger.read(tmp_path / "ledger").mechanisms() == plan.mechanisms()
    assert len(run.model.origin) == len(ledger) == 6


def test_somebody_s_own_module_is_refused_before_anything_is_released():
    """Of its layers no histogram of norms is known."""
    problem, ledger = make_problem((5, 3), rows=40), Ledger()
    pretraining, histogram = Plan(40, 20, 2, 4.0, 1e-5), NormHistogram(5.0)
    plan = Plan(40, 20, 3, 3.0, 1e-5, costs_before(pretraining, histogram))
    trainer = Trainer(nn.Linear(5, 3), problem.loss, plan, source=SeededNoise(0))
    with pytest.raises(ArgumentError, match="network='Linear': Algorithm 2 trains dpmac networks"):
        fit_with_learned_thresholds(trainer, pretraining, histogram, problem.x, problem.y, ledger)
    assert len(ledger) == 0
