"""Averaged weights: the model is the moving average, and training goes on without it."""

from __future__ import annotations

import pytest
import torch

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import Averaged, OptimizerStep
from mac.bowls import bowl


def test_the_average_follows_the_weights_and_leaves_training_alone():
    problem, twin = make_problem(), make_problem()
    averaged = Averaged(OptimizerStep(0.1), decay=0.9).start(problem.network, 60)
    plain = OptimizerStep(0.1).start(twin.network, 60)
    mean = [p.detach().clone() for p in problem.network.parameters()]
    for step in range(1, 61):
        polynomials = bowl(twin, seed=step)
        averaged.apply(polynomials)
        plain.apply(polynomials)
        decay = min(0.9, step / (10 + step))
        mean = [decay * m + (1 - decay) * p.detach() for m, p in zip(mean, twin.network.parameters(), strict=True)]
        assert averaged.lr == plain.lr
    for ours, theirs in zip(problem.network.parameters(), twin.network.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for ours, wanted in zip(averaged.model.parameters(), mean, strict=True):
        assert torch.allclose(ours, wanted)
    with pytest.raises(ArgumentError, match="decay"):
        Averaged(OptimizerStep(), 1.0)
