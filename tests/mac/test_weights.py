"""W-steps: released gradients reach a plain torch optimiser and its schedule."""

from __future__ import annotations

import copy

import pytest
import torch

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import OptimizerStep, StepDecay, cosine
from dpmac.privacy import SeededNoise


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.AdamW])
def test_it_does_what_the_torch_optimiser_does(optimizer):
    problem = make_problem()
    twin = copy.deepcopy(problem.network)
    updater = OptimizerStep(lr=0.1, optimizer=optimizer).start(problem.network, steps=3)
    plain = optimizer(twin.parameters(), lr=0.1)
    draw = SeededNoise(0)
    for _ in range(3):
        gradients = [draw.normal((lin.out_features, lin.in_features + 1)) for lin in twin.linears]
        updater.apply(gradients)
        for linear, gradient in zip(twin.linears, gradients, strict=True):
            linear.weight.grad, linear.bias.grad = gradient[:, :-1].clone(), gradient[:, -1].clone()
        plain.step()
    for ours, theirs in zip(problem.network.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def rates(schedule, steps):
    problem = make_problem()
    updater = OptimizerStep(lr=0.5, optimizer=torch.optim.SGD, schedule=schedule).start(problem.network, steps)
    zero = [torch.zeros(lin.out_features, lin.in_features + 1) for lin in problem.network.linears]
    seen = []
    for _ in range(steps):
        seen.append(updater.lr)
        updater.apply(zero)
    return seen


def test_schedules_are_followed():
    assert rates(lambda done: 1.0, 4) == [0.5] * 4
    assert rates(StepDecay(0.5, 3), 6) == pytest.approx([0.5, 0.5, 0.25, 0.25, 0.125, 0.125])
    falling = rates(cosine, 10)
    assert falling == sorted(falling, reverse=True)
    assert falling[5] == pytest.approx(0.25)


def test_options_reach_the_optimiser():
    problem = make_problem()
    step = OptimizerStep(lr=0.1, optimizer=torch.optim.SGD, options={"momentum": 0.9})
    assert step.start(problem.network, 1).optimizer.param_groups[0]["momentum"] == 0.9
    with pytest.raises(ArgumentError, match="lr=0"):
        OptimizerStep(lr=0)
