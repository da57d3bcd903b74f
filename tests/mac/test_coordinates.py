"""Z-steps: they descend, and every example is alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import AdamCoordinates, FixedPrediction, first_order
from dpmac.mac.coordinates import ELEMENTWISE
from dpmac.mac.layers import layers_of
from dpmac.privacy import Normalise

ZSTEPS = [AdamCoordinates(steps=8, lr=0.05, optimizer=o) for o in ELEMENTWISE] + [FixedPrediction()]


def name(zstep):
    return getattr(getattr(zstep, "optimizer", None), "__name__", type(zstep).__name__)


def bounded(problem, zstep, x, y):
    coordinates = zstep.solve(problem.network, problem.loss, x, y)
    return Normalise().apply(first_order(problem.network, problem.loss, coordinates))


def mac_objective(problem, coordinates, mu):
    """mu/2 sum_k ||z_k - f_k(z_{k-1})||^2 + output loss, per example, as the paper writes it."""
    total = torch.zeros(len(coordinates.inputs[0]), dtype=torch.float64)
    layers = layers_of(problem.network, problem.loss)
    for k, layer in enumerate(layers):
        weight = layer.loss.weight * (mu if k < len(layers) - 1 else 1.0)
        total = total + weight * layer.loss.value(layer.pre_activation(coordinates.inputs[k]), coordinates.targets[k])
    return total


@pytest.mark.parametrize("mu", [0.3, 1.0, 5.0])
def test_the_closed_form_gradient_is_autograds(mu):
    problem = make_problem((5, 7, 6, 6, 4))
    zstep = AdamCoordinates(steps=3, lr=0.1, mu=mu)
    zs = [
        z.clone().requires_grad_() for z in zstep.solve(problem.network, problem.loss, problem.x, problem.y).inputs[1:]
    ]
    from dpmac.mac import Coordinates

    mac_objective(problem, Coordinates((problem.x, *zs), (*zs, problem.y)), mu).sum().backward()
    layers = layers_of(problem.network, problem.loss)
    first = problem.network.activations[0].f(layers[0].pre_activation(problem.x))
    with torch.no_grad():
        closed = zstep._gradients(problem.network, layers, first, zs, problem.y)
    for z, gradient in zip(zs, closed, strict=True):
        assert torch.allclose(z.grad, gradient, atol=1e-12)


def test_the_papers_z_step_lowers_every_examples_objective():
    problem = make_problem()
    start = AdamCoordinates(steps=1, lr=1e-12).solve(problem.network, problem.loss, problem.x, problem.y)
    end = AdamCoordinates(steps=30, lr=0.01).solve(problem.network, problem.loss, problem.x, problem.y)
    assert (mac_objective(problem, end, 1.0) < mac_objective(problem, start, 1.0)).all()


def test_it_equals_torchs_adam_on_autograd_one_example_at_a_time():
    problem = make_problem()
    zstep = AdamCoordinates(steps=30, lr=0.003)
    batched = zstep.solve(problem.network, problem.loss, problem.x, problem.y)
    from dpmac.mac import Coordinates
    from dpmac.mac.layers import forward_values

    for n in range(3):
        x, y = problem.x[n : n + 1], problem.y[n : n + 1]
        zs = [z.clone().requires_grad_() for z in forward_values(problem.network, x)[1]]
        adam = torch.optim.Adam(zs, lr=0.003)
        for _ in range(30):
            adam.zero_grad()
            mac_objective(problem, Coordinates((x, *zs), (*zs, y)), 1.0).sum().backward()
            adam.step()
        for ours, theirs in zip(batched.inputs[1:], zs, strict=True):
            assert torch.allclose(ours[n], theirs[0], atol=1e-9)


@pytest.mark.parametrize("zstep", ZSTEPS, ids=name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_changing_one_row_changes_only_that_rows_part(zstep, dtype):
    """Bit for bit, through the whole Z-step, with optimisers that have an epsilon, and with an outrageous row."""
    problem = make_problem(rows=20)
    problem.network.to(dtype)
    x, y = problem.x.to(dtype), problem.y.to(dtype)
    before = bounded(problem, zstep, x, y)
    others = [n for n in range(20) if n != 7]
    for change in (1.0, 1e6, 1e30):
        changed = x.clone()
        changed[7] = x[7] * change + 1
        labels = y.clone()
        labels[7] = y[7].roll(1)
        after = bounded(problem, zstep, changed, labels)
        for p, q in zip(before, after, strict=True):
            assert torch.equal(p.left[others], q.left[others])
            assert torch.equal(p.right[others], q.right[others])
        assert not torch.equal(before[-1].left[7], after[-1].left[7])


@pytest.mark.parametrize("zstep", ZSTEPS, ids=name)
@given(rows=st.integers(1, 20))
def test_the_rest_of_the_batch_is_not_felt(zstep, rows):
    """The same rows in a smaller batch get the same coordinates, to rounding: no batch size in any loss."""
    problem = make_problem(rows=20)
    whole = zstep.solve(problem.network, problem.loss, problem.x, problem.y)
    few = zstep.solve(problem.network, problem.loss, problem.x[:rows], problem.y[:rows])
    for p, q in zip(whole.targets, few.targets, strict=True):
        assert torch.allclose(p[:rows], q, atol=1e-10)


def test_optimisers_that_could_mix_examples_are_refused():
    with pytest.raises(ArgumentError, match="it could mix examples"):
        AdamCoordinates(optimizer=torch.optim.LBFGS)
    for change in ({"steps": 0}, {"lr": 0.0}, {"mu": -1.0}):
        with pytest.raises(ArgumentError, match=next(iter(change))):
            AdamCoordinates(**change)
    with pytest.raises(ArgumentError, match="gamma"):
        FixedPrediction(0.0)


def test_a_linear_model_has_no_coordinates():
    problem = make_problem((5, 4))
    for zstep in ZSTEPS[:1] + ZSTEPS[-1:]:
        found = zstep.solve(problem.network, problem.loss, problem.x, problem.y)
        assert len(found.inputs) == len(found.targets) == 1
