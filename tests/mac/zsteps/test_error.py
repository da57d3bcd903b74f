"""The Z-step in error coordinates: autograd's gradient, descent for every example, signal in all layers."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from oracles import DEEP, error_objective, errors_of, problems, solve, zeros

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import AdamCoordinates, ErrorCoordinates
from dpmac.mac.coordinates import problems_of
from dpmac.mac.zsteps.error import Sweeps

SGD = torch.optim.SGD


@pytest.mark.parametrize("mu", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("loss", ["squared", "sigmoid", "softmax"])
def test_the_closed_form_gradient_is_autograds(mu, loss):
    for problem in problems(loss):
        zstep = ErrorCoordinates(steps=3, lr=0.1, mu=mu, optimizer=SGD)
        errors = [e.requires_grad_() for e in errors_of(problem, solve(problem, zstep))]
        assert all((e != 0).any() for e in errors)
        error_objective(problem, errors, mu).sum().backward()
        with torch.no_grad():
            sweeps = Sweeps(problems_of(problem.network, problem.loss), problem.x, problem.y, mu)
            for ours, error in zip(sweeps.errors, errors, strict=True):
                ours.copy_(error)
            sweeps.descend()
        for error, gradient in zip(errors, sweeps.gradients, strict=True):
            assert torch.allclose(error.grad, gradient, atol=1e-12)


@pytest.mark.parametrize("optimizer", [SGD, torch.optim.Adam])
def test_it_equals_torchs_optimiser_on_autograd_one_example_at_a_time(optimizer):
    for problem in problems():
        found = solve(problem, ErrorCoordinates(steps=10, lr=0.03, mu=0.7, optimizer=optimizer))
        batched = errors_of(problem, found)
        for n in range(2):
            x, y = problem.x[n : n + 1], problem.y[n : n + 1]
            errors = [e.requires_grad_() for e in zeros(problem.network, 1)]
            descent = optimizer(errors, lr=0.03)
            for _ in range(10):
                descent.zero_grad()
                error_objective(problem, errors, 0.7, x, y).sum().backward()
                descent.step()
            for ours, theirs in zip(batched, errors, strict=True):
                assert torch.allclose(ours[n], theirs[0], atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "sigmoid", "softmax"])
@pytest.mark.parametrize("hidden", ["tanh", "relu"])
def test_every_examples_objective_falls_step_by_step(loss, hidden):
    problem = make_problem(DEEP, hidden, loss)
    values = [error_objective(problem, zeros(problem.network, 12), 1.0)]
    for steps in range(1, 6):
        found = solve(problem, ErrorCoordinates(steps, 0.05, optimizer=SGD))
        values.append(error_objective(problem, errors_of(problem, found), 1.0))
    for before, after in itertools.pairwise(values):
        assert (after < before).all()


def test_the_default_lowers_every_examples_objective_whatever_the_weights_size():
    """Where plain descent of the same rate per step would diverge, Adam's bounded moves do not."""
    for scale in (1.0, 50.0):
        for problem in problems("squared"):
            with torch.no_grad():
                problem.network.weight_layers[-1].weight.mul_(scale)
            start = error_objective(problem, zeros(problem.network, 12), 1.0)
            end = error_objective(problem, errors_of(problem, solve(problem, ErrorCoordinates())), 1.0)
            assert (end < start).all()


def test_one_plain_step_is_back_propagation_in_every_layer():
    """e_k = -lr dloss/df_k: no layer waits for the one above."""
    for problem in problems():
        errors = errors_of(problem, solve(problem, ErrorCoordinates(steps=1, lr=0.25, optimizer=SGD)))
        start = [e.requires_grad_() for e in zeros(problem.network, 12)]
        error_objective(problem, start, 1.0).sum().backward()
        for error, zero in zip(errors, start, strict=True):
            assert torch.allclose(error, -0.25 * zero.grad, atol=1e-12)


def test_it_ends_where_the_papers_z_step_ends():
    """The same objective in other coordinates, so the same minimum."""
    problem = make_problem((5, 7, 6, 4), "tanh", "squared", rows=4)
    ours = solve(problem, ErrorCoordinates(steps=1500, lr=0.1, optimizer=SGD))
    theirs = solve(problem, AdamCoordinates(steps=3000, lr=0.05, optimizer=SGD))
    for p, q in zip(ours.inputs, theirs.inputs, strict=True):
        assert torch.allclose(p, q, atol=1e-6)


def test_bad_arguments_are_named():
    with pytest.raises(ArgumentError, match=r"optimizer=.*it could mix examples"):
        ErrorCoordinates(optimizer=torch.optim.LBFGS)
    for change in ({"steps": 0}, {"steps": 2.5}, {"lr": 0.0}, {"lr": math.nan}, {"mu": -1.0}, {"mu": "one"}):
        with pytest.raises(ArgumentError, match=f"{next(iter(change))}="):
            ErrorCoordinates(**change)
