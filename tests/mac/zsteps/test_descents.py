"""Z-steps that descend in reused buffers: torch's own optimiser on autograd of the whole block says the same.

Whatever the sizes, activations, losses and precision; and the slopes and pre-activations that they hand on are those
that the expansion would make of their coordinates.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import error_objective, mac_objective, solve, zeros

from conftest import make_images, make_problem
from dpmac.mac import AdamCoordinates, Coordinates, ErrorCoordinates
from dpmac.mac.coordinates import forward_values
from dpmac.mac.expansions import weighted_slopes
from dpmac.nets import ACTIVATIONS
from dpmac.nets.losses import MultiLabelCrossEntropy, SoftmaxCrossEntropy, SquaredError

LOSSES = {
    "softmax": "softmax",
    "sigmoid": "sigmoid",
    "squared": "squared",
    "softmax, weight 3": SoftmaxCrossEntropy(weight=3.0),
    "squared, weight 2": SquaredError(weight=2.0),
    "squared of a tanh": SquaredError(ACTIVATIONS["tanh"]),
    "multilabel": MultiLabelCrossEntropy(),
}


def problem_of(sizes, hidden, loss_name, rows):
    """A dense network of these sizes, or with ``sizes`` None one of convolutions and pooling."""
    kind = LOSSES[loss_name]
    name = kind if isinstance(kind, str) else "sigmoid"
    made = make_images(hidden, name, rows) if sizes is None else make_problem(sizes, hidden, name, rows)
    if not isinstance(kind, str):
        made.loss = kind
    return made


def descended(numbers, objective, kind, lr, steps):
    """``numbers`` after ``steps`` steps of torch's optimiser on autograd of ``objective`` of all rows."""
    numbers = [n.clone().requires_grad_() for n in numbers]
    optimizer = kind(numbers, lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        objective(numbers).sum().backward()
        optimizer.step()
    return [n.detach() for n in numbers]


cases = given(
    sizes=st.none() | st.lists(st.integers(1, 9), min_size=3, max_size=6),
    hidden=st.sampled_from(sorted(ACTIVATIONS)),
    loss_name=st.sampled_from(sorted(LOSSES)),
    kind=st.sampled_from([torch.optim.Adam, torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop]),
    mu=st.sampled_from([1.0, 0.2, 7.0]),
    steps=st.integers(1, 40),
    rows=st.integers(1, 70),
)


@settings(max_examples=25, deadline=None)
@cases
def test_the_papers_descent_is_torchs_optimiser_on_autograd(sizes, hidden, loss_name, kind, mu, steps, rows):
    problem = problem_of(sizes, hidden, loss_name, rows)
    found = solve(problem, AdamCoordinates(steps, 0.003, mu, kind))

    def objective(zs):
        return mac_objective(problem, Coordinates((problem.x, *zs), (*zs, problem.y)), mu)

    expected = descended(forward_values(problem.network, problem.x)[1], objective, kind, 0.003, steps)
    for ours, theirs in zip(found.targets, expected, strict=False):
        assert torch.allclose(ours, theirs, rtol=1e-7, atol=1e-6)  # RMSprop and Adam divide by gradients near 0


@settings(max_examples=25, deadline=None)
@cases
def test_the_descent_on_errors_is_torchs_optimiser_on_autograd(sizes, hidden, loss_name, kind, mu, steps, rows):
    problem = problem_of(sizes, hidden, loss_name, rows)
    found = solve(problem, ErrorCoordinates(steps, 0.003, mu, kind))
    start = zeros(problem.network, rows)
    expected = descended(start, lambda errors: error_objective(problem, errors, mu), kind, 0.003, steps)
    below = problem.x
    for stage, ours, error in zip(problem.network.stages, found.targets, expected, strict=False):
        below = stage.activation.f(stage.pre_activation(below)).detach() + error
        assert torch.allclose(ours, below, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("zstep", [AdamCoordinates(steps=6), ErrorCoordinates(steps=6)], ids=lambda z: type(z).__name__)
def test_what_they_hand_on_is_what_the_expansion_would_make(zstep, loss_name, dtype):
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    for hidden in ACTIVATIONS:
        for sizes in ((5, 7, 6, 4), (5, 4), None):
            problem = problem_of(sizes, hidden, loss_name, rows=9)
            problem.network.to(dtype)
            found = solve(problem, zstep, problem.x.to(dtype), 0.7 * problem.y.to(dtype))  # targets of any sum
            us = [s.pre_activation(z).detach() for s, z in zip(problem.network.stages, found.inputs, strict=True)]
            again = replace(found, slopes=None, pre_activations=None)
            expected = [slope for _, _, slope in weighted_slopes(problem.network, problem.loss, again)]
            assert found.pre_activations is not None
            assert found.slopes is not None
            for handed, made in ((found.pre_activations, us), (found.slopes, expected)):
                for ours, theirs in zip(handed, made, strict=True):
                    assert ours.dtype == dtype
                    assert ours.dim() > 2 or ours.is_contiguous()  # images as torch's convolution leaves them
                    assert torch.allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("zstep", [AdamCoordinates(steps=6), ErrorCoordinates(steps=6)], ids=lambda z: type(z).__name__)
def test_a_later_solve_leaves_an_earlier_ones_answer_alone(zstep):
    """Buffers are reused within a solve, never between two."""
    for problem in (make_problem(), make_images()):
        first = solve(problem, zstep)
        kept = copy.deepcopy([*first.inputs, *first.targets, *first.pre_activations, *first.slopes])
        solve(problem, zstep, -3 * problem.x, problem.y)
        for before, now in zip(
            kept, [*first.inputs, *first.targets, *first.pre_activations, *first.slopes], strict=True
        ):
            assert torch.equal(before, now)
