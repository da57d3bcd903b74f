"""The Z-step in error coordinates: autograd's gradient, descent for every example, signal in all layers, rows alone."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac.coordinates import ELEMENTWISE, AdamCoordinates
from dpmac.mac.error_coordinates import ErrorCoordinates
from dpmac.mac.layers import layers_of

DEEP = (5, 7, 6, 6, 4)
SGD = torch.optim.SGD
ZSTEPS = [ErrorCoordinates()] + [ErrorCoordinates(steps=6, lr=0.02, optimizer=o) for o in ELEMENTWISE]


def name(zstep):
    return f"{zstep.optimizer.__name__}-{zstep.lr}"


def predictions(problem, found):
    """f_k(W_k s_{k-1}) of every hidden layer, in plain torch."""
    linears = problem.network.linears[:-1]
    return [
        act.module()(linear(s))
        for linear, act, s in zip(linears, problem.network.activations, found.inputs, strict=False)
    ]


def errors_of(problem, found):
    return [s - f.detach() for s, f in zip(found.inputs[1:], predictions(problem, found), strict=True)]


def objective(problem, errors, mu, x=None, y=None):
    """mu/2 sum_k ||e_k||^2 + output loss, per example, by a forward pass in plain torch."""
    s = problem.x if x is None else x
    total = 0.0
    for linear, act, error in zip(problem.network.linears, problem.network.activations, errors, strict=False):
        s = act.module()(linear(s)) + error
        total = total + mu / 2 * error.square().sum(dim=1)
    u = problem.network.linears[-1](s)
    return total + problem.loss.weight * problem.loss.value(u, problem.y if y is None else y)


def solve(problem, zstep, x=None, y=None):
    return zstep.solve(problem.network, problem.loss, problem.x if x is None else x, problem.y if y is None else y)


@pytest.mark.parametrize("mu", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("loss", ["squared", "sigmoid", "softmax"])
def test_the_closed_form_gradient_is_autograds(mu, loss):
    problem = make_problem(DEEP, "tanh", loss)
    zstep = ErrorCoordinates(steps=3, lr=0.1, mu=mu, optimizer=SGD)
    errors = [e.requires_grad_() for e in errors_of(problem, solve(problem, zstep))]
    assert all((e != 0).any() for e in errors)
    objective(problem, errors, mu).sum().backward()
    with torch.no_grad():
        closed = zstep._gradients(
            problem.network, layers_of(problem.network, problem.loss), errors, problem.x, problem.y
        )
    for error, gradient in zip(errors, closed, strict=True):
        assert torch.allclose(error.grad, gradient, atol=1e-12)


@pytest.mark.parametrize("optimizer", [SGD, torch.optim.Adam])
def test_it_equals_torchs_optimiser_on_autograd_one_example_at_a_time(optimizer):
    problem = make_problem(DEEP)
    batched = errors_of(problem, solve(problem, ErrorCoordinates(steps=10, lr=0.03, mu=0.7, optimizer=optimizer)))
    for n in range(3):
        x, y = problem.x[n : n + 1], problem.y[n : n + 1]
        errors = [torch.zeros(1, width, dtype=torch.float64, requires_grad=True) for width in DEEP[1:-1]]
        descent = optimizer(errors, lr=0.03)
        for _ in range(10):
            descent.zero_grad()
            objective(problem, errors, 0.7, x, y).sum().backward()
            descent.step()
        for ours, theirs in zip(batched, errors, strict=True):
            assert torch.allclose(ours[n], theirs[0], atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "sigmoid", "softmax"])
@pytest.mark.parametrize("hidden", ["tanh", "relu"])
def test_every_examples_objective_falls_step_by_step(loss, hidden):
    problem = make_problem(DEEP, hidden, loss)
    values = [objective(problem, [torch.zeros(1, w, dtype=torch.float64) for w in DEEP[1:-1]], 1.0)]
    values += [
        objective(problem, errors_of(problem, solve(problem, ErrorCoordinates(steps, 0.05, optimizer=SGD))), 1.0)
        for steps in range(1, 6)
    ]
    for before, after in itertools.pairwise(values):
        assert (after < before).all()


def test_the_default_lowers_every_examples_objective_whatever_the_weights_size():
    """Where plain descent of the same rate per step would diverge, Adam's bounded moves do not."""
    for scale in (1.0, 50.0):
        problem = make_problem(DEEP, "tanh", "squared")
        with torch.no_grad():
            problem.network.linears[-1].weight.mul_(scale)
        start = objective(problem, [torch.zeros(1, w, dtype=torch.float64) for w in DEEP[1:-1]], 1.0)
        end = objective(problem, errors_of(problem, solve(problem, ErrorCoordinates())), 1.0)
        assert (end < start).all()


def test_one_plain_step_is_back_propagation_in_every_layer():
    """e_k = -lr dloss/df_k: no layer waits for the one above."""
    problem = make_problem(DEEP)
    errors = errors_of(problem, solve(problem, ErrorCoordinates(steps=1, lr=0.25, optimizer=SGD)))
    zeros = [torch.zeros(12, width, dtype=torch.float64, requires_grad=True) for width in DEEP[1:-1]]
    objective(problem, zeros, 1.0).sum().backward()
    for error, zero in zip(errors, zeros, strict=True):
        assert torch.allclose(error, -0.25 * zero.grad, atol=1e-12)


def test_it_ends_where_the_papers_z_step_ends():
    """The same objective in other coordinates, so the same minimum."""
    problem = make_problem((5, 7, 6, 4), "tanh", "squared", rows=4)
    ours = solve(problem, ErrorCoordinates(steps=3000, lr=0.1, optimizer=SGD))
    theirs = solve(problem, AdamCoordinates(steps=6000, lr=0.05, optimizer=SGD))
    for p, q in zip(ours.inputs, theirs.inputs, strict=True):
        assert torch.allclose(p, q, atol=1e-6)


@pytest.mark.parametrize("zstep", ZSTEPS, ids=name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("hidden", ["tanh", "relu"])
def test_changing_one_row_changes_only_that_rows_coordinates(zstep, dtype, hidden):
    """Bit for bit, with optimisers that have an epsilon, with outrageous rows and with rows that overflow."""
    problem = make_problem(DEEP, hidden, rows=20)
    problem.network.to(dtype)
    x, y = problem.x.to(dtype), problem.y.to(dtype)
    before = solve(problem, zstep, x, y)
    others = [n for n in range(20) if n != 7]
    for value in (1.0, 1e6, 1e30, torch.finfo(dtype).max, math.nan):
        changed, labels = x.clone(), y.clone()
        changed[7] = x[7].sign() * value
        labels[7] = y[7].roll(1)
        after = solve(problem, zstep, changed, labels)
        for p, q in zip(before.inputs + before.targets, after.inputs + after.targets, strict=True):
            assert torch.equal(p[others], q[others])
        assert not torch.equal(before.targets[0][7], after.targets[0][7])


@pytest.mark.parametrize("zstep", ZSTEPS, ids=name)
@given(rows=st.integers(0, 20))
def test_the_rest_of_the_batch_is_not_felt(zstep, rows):
    problem = make_problem(DEEP, rows=20)
    whole = solve(problem, zstep)
    few = solve(problem, zstep, problem.x[:rows], problem.y[:rows])
    for p, q in zip(whole.targets, few.targets, strict=True):
        assert torch.allclose(p[:rows], q, atol=1e-10)


def test_a_second_batch_starts_afresh():
    problem, zstep = make_problem(DEEP), ErrorCoordinates()
    first, second = solve(problem, zstep), solve(problem, zstep)
    for p, q in zip(first.targets, second.targets, strict=True):
        assert torch.equal(p, q)
        assert p.grad is None


def test_a_linear_model_has_no_coordinates():
    problem = make_problem((5, 4))
    found = solve(problem, ErrorCoordinates())
    assert len(found.inputs) == len(found.targets) == 1
    assert found.targets[0] is problem.y


def test_bad_arguments_are_named():
    with pytest.raises(ArgumentError, match=r"optimizer=.*it could mix examples"):
        ErrorCoordinates(optimizer=torch.optim.LBFGS)
    for change in ({"steps": 0}, {"steps": 2.5}, {"lr": 0.0}, {"lr": math.nan}, {"mu": -1.0}, {"mu": "one"}):
        with pytest.raises(ArgumentError, match=f"{next(iter(change))}="):
            ErrorCoordinates(**change)
