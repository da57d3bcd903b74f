"""The paper's Z-step: it descends on the sum of all layer losses, one example at a time."""

from __future__ import annotations

import pytest
import torch
from oracles import mac_objective, problems, solve

from dpmac.checks import ArgumentError
from dpmac.mac import AdamCoordinates, Coordinates
from dpmac.mac.coordinates import forward_values, problems_of
from dpmac.mac.zsteps.adam import Descent


@pytest.mark.parametrize("mu", [0.3, 1.0, 5.0])
def test_the_closed_form_gradient_is_autograds(mu):
    for problem in problems():
        zstep = AdamCoordinates(steps=3, lr=0.1, mu=mu)
        zs = [z.clone().requires_grad_() for z in solve(problem, zstep).inputs[1:]]
        mac_objective(problem, Coordinates((problem.x, *zs), (*zs, problem.y)), mu).sum().backward()
        with torch.no_grad():
            descent = Descent(problems_of(problem.network, problem.loss), problem.x, problem.y, mu)
            for ours, z in zip(descent.zs, zs, strict=True):
                ours.copy_(z)
            descent.descend()
        for z, gradient in zip(zs, descent.gradients, strict=True):
            assert torch.allclose(z.grad, gradient, atol=1e-12)


def test_it_lowers_every_examples_objective():
    for problem in problems():
        start = solve(problem, AdamCoordinates(steps=1, lr=1e-12))
        end = solve(problem, AdamCoordinates(steps=30, lr=0.01))
        assert (mac_objective(problem, end, 1.0) < mac_objective(problem, start, 1.0)).all()


def test_it_equals_torchs_adam_on_autograd_one_example_at_a_time():
    for problem in problems():
        batched = solve(problem, AdamCoordinates(steps=30, lr=0.003))
        for n in range(2):
            x, y = problem.x[n : n + 1], problem.y[n : n + 1]
            zs = [z.clone().requires_grad_() for z in forward_values(problem.network, x)[1]]
            adam = torch.optim.Adam(zs, lr=0.003)
            for _ in range(30):
                adam.zero_grad()
                mac_objective(problem, Coordinates((x, *zs), (*zs, y)), 1.0).sum().backward()
                adam.step()
            for ours, theirs in zip(batched.inputs[1:], zs, strict=True):
                assert torch.allclose(ours[n], theirs[0], atol=1e-9)


def test_bad_arguments_and_optimisers_that_could_mix_examples_are_refused():
    with pytest.raises(ArgumentError, match=r"optimizer=.*it could mix examples; choose one of Adam, AdamW"):
        AdamCoordinates(optimizer=torch.optim.LBFGS)
    for change in ({"steps": 0}, {"lr": 0.0}, {"mu": -1.0}):
        with pytest.raises(ArgumentError, match=f"{next(iter(change))}="):
            AdamCoordinates(**change)
