"""The closed-form Z-step: dense solves on autograd's Jacobians, one example at a time, say the same."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from oracles import DEEP, output, problems, segments, solve, zeros

from conftest import make_images, make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import FirstOrder, GaussNewton
from dpmac.mac.coordinates import problems_of
from dpmac.mac.zsteps import gauss_newton
from dpmac.mac.zsteps.gauss_newton import rows_at_once
from dpmac.nets.activations import TANH
from dpmac.nets.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError

LOSSES = [
    SquaredError(),
    SquaredError(weight=2.0),
    SquaredError(TANH),
    SigmoidCrossEntropy(),
    SigmoidCrossEntropy(weight=0.3),
    SoftmaxCrossEntropy(),
    SoftmaxCrossEntropy(weight=5.0),
]
NARROW = (5, 7, 6, 3, 4)
BOTTLENECKS = (5, 6, 3, 2, 5, 3, 7, 4)  # narrow layers below narrow layers


def name(loss):
    activation = getattr(loss, "activation", None)
    return f"{loss.name}-{loss.weight}" + (f"-{activation.name}" if activation else "")


def problem_of(loss, sizes=NARROW, hidden="tanh", rows=12):
    """``sizes`` None is the network with convolutions."""
    problem = make_images(hidden, loss.name, rows) if sizes is None else make_problem(sizes, hidden, loss.name, rows)
    problem.loss = loss
    return problem


MUS = (1e-4, 0.1, 1.0, 100.0)


def oracle(problem, n):
    """The errors of example n for each of MUS: the normal equations in all errors at once, (mu I + J^T H J) e =
    -J^T g, by NumPy.

    H is autograd's Hessian of the weighted loss; for squared error its Gauss-Newton part.
    """
    network, loss, x, y = problem.network, problem.loss, problem.x[n : n + 1], problem.y[n : n + 1]
    start, cut = tuple(zeros(network, 1)), segments(network)
    jacobians = torch.func.jacrev(lambda e: output(cut, x, e)[0])(start)
    J = torch.cat([j.flatten(1) for j in jacobians], dim=1).detach()
    u = output(cut, x, start)[0].detach()
    g = torch.func.grad(lambda v: loss.weight * loss.value(v[None], y)[0])(u)
    if isinstance(loss, SquaredError):
        jacobian = torch.func.jacrev(loss.activation.module())(u)
        H = 2 * loss.weight * jacobian.T @ jacobian
    else:
        H = torch.func.hessian(lambda v: loss.weight * loss.value(v[None], y)[0])(u)
    left, right, one = (J.T @ H @ J).numpy(), -(J.T @ g).numpy(), np.eye(J.shape[1])
    sizes = [z.numel() for z in start]
    return {mu: torch.from_numpy(np.linalg.solve(mu * one + left, right)).split(sizes) for mu in MUS}


def errors_of(found):
    """What each hidden layer is to change: target less prediction (inputs are the forward values)."""
    return [target - value for target, value in zip(found.targets, found.inputs[1:], strict=False)]


@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize(
    ("sizes", "hidden"), [(NARROW, "tanh"), (BOTTLENECKS, "relu"), ((5, 7, 4), "softplus"), (None, "tanh")]
)
def test_it_is_the_dense_solve_on_autograds_jacobians(loss, sizes, hidden):
    problem = problem_of(loss, sizes, hidden, rows=3)
    expected = [oracle(problem, n) for n in range(3)]
    for mu in MUS:
        errors = errors_of(solve(problem, GaussNewton(mu)))
        for n in range(3):
            for ours, theirs in zip(errors, expected[n][mu], strict=True):
                assert torch.allclose(ours[n].flatten(), theirs, rtol=1e-9, atol=1e-11 / min(mu, 1.0))


@pytest.mark.parametrize("mu", [0.1, 1.0])
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_small_moves_along_it_lower_every_examples_objective(loss, mu):
    problem = problem_of(loss)
    errors = errors_of(solve(problem, GaussNewton(mu)))

    def objective(t):
        moved = [t * e for e in errors]
        norms = sum(e.square().sum(dim=1) for e in moved)
        u = output(segments(problem.network), problem.x, moved).detach()
        return mu / 2 * norms + loss.weight * loss.value(u, problem.y)

    assert (objective(0.01) < objective(0.0)).all()


def test_a_small_mu_fits_a_squared_output_exactly_where_the_network_is_linear():
    problem = make_problem(DEEP, "identity", "squared")
    errors = errors_of(solve(problem, GaussNewton(1e-8)))
    assert torch.allclose(output(segments(problem.network), problem.x, errors), problem.y, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize(("sizes", "hidden"), [(NARROW, "tanh"), (NARROW, "relu"), (None, "tanh")])
def test_a_large_mu_gives_back_propagations_gradient_in_every_layer(loss, sizes, hidden):
    problem = problem_of(loss, sizes, hidden)
    mu = 1e6
    parts = FirstOrder().parts(problem.network, loss, solve(problem, GaussNewton(mu)))
    plain = problem.network.plain()
    (loss.weight * loss.value(plain(problem.x), problem.y)).sum().backward()
    weights, biases = list(plain.parameters())[::2], list(plain.parameters())[1::2]
    layers = problems_of(problem.network, loss)
    for k, (layer, part, weight, bias) in enumerate(zip(layers, parts, weights, biases, strict=True)):
        gradient = torch.cat([weight.grad.flatten(1), bias.grad[:, None]], dim=1)
        ours = layer.loss.weight * part.total() * (mu if k < len(layers) - 1 else 1.0)
        assert torch.nn.functional.cosine_similarity(ours.flatten(), gradient.flatten(), dim=0) > 0.999
        assert torch.allclose(ours, gradient, rtol=1e-3, atol=1e-4)


def test_a_row_whose_solve_is_not_finite_is_marked_and_does_not_raise():
    for problem in problems():
        problem.x[3] = math.nan
        targets = solve(problem, GaussNewton()).targets[0]
        assert not targets[3].isfinite().any()
        assert targets[[0, 1, 2, *range(4, 12)]].isfinite().all()


def test_a_matrix_that_cannot_be_factored_is_blanked_alone():
    """Even if a library's failed factor holds finite leftovers."""
    good = 4 * torch.eye(3, dtype=torch.float64)
    indefinite = torch.diag(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))
    stack = torch.stack([good, indefinite, good * math.inf, good])
    solved = gauss_newton._cholesky_solved(stack, torch.ones(4, 3, dtype=torch.float64))
    assert torch.equal(solved[[0, 3]], torch.full((2, 3), 0.25, dtype=torch.float64))
    assert solved[1].isnan().all()
    assert solved[2].isnan().all()


@pytest.mark.parametrize("scale", [1e3, 1e8])
def test_a_mu_lost_in_rounding_is_raised_until_the_solve_holds(scale):
    """It is raised by the example's own Jacobians alone: the result stays finite and still fits the target."""
    problem = make_problem(DEEP, "identity", "squared")
    with torch.no_grad():
        problem.network.weight_layers[-1].weight.mul_(scale)
    errors = errors_of(solve(problem, GaussNewton(1e-11)))
    assert all(e.isfinite().all() for e in errors)
    left = (output(segments(problem.network), problem.x, errors) - problem.y).norm(dim=1)
    start = (problem.network(problem.x) - problem.y).norm(dim=1)
    assert (left < 1e-3 * start).all()


def test_the_memory_of_a_slice_is_what_the_docstring_says():
    """Doubles for two Jacobians (d_out x widest) and four matrices of d_out x d_out, for each row."""
    stages = make_problem((5, 9, 30, 20), "tanh", "squared").network.stages
    assert rows_at_once(stages) == 2**26 // (8 * 20 * (2 * 30 + 4 * 20))


def test_slices_change_nothing_and_only_a_single_rows_size_is_refused(monkeypatch):
    for problem in (problem_of(SoftmaxCrossEntropy()), make_images()):
        whole = solve(problem, GaussNewton())
        units = problem.network.sizes[1:]
        each = 8 * units[-1] * (2 * max(units[:-1]) + 4 * units[-1])
        for slices, rows in ((5 * each, 5), (each // 2, 1)):  # 12 rows: 5, 5 and 2; or one by one
            monkeypatch.setattr(gauss_newton, "SLICE", slices)
            assert rows_at_once(problem.network.stages) == rows
            for p, q in zip(whole.targets, solve(problem, GaussNewton()).targets, strict=True):
                assert torch.allclose(p, q, atol=1e-12)
        monkeypatch.setattr(gauss_newton, "LIMIT", each - 1)
        for rows in (1, 12):  # refused for its sizes, however many rows there are: their number is secret
            with pytest.raises(ArgumentError, match=r"sizes=\[.*\]: .*narrower, or use FixedPrediction"):
                solve(problem, GaussNewton(), problem.x[:rows], problem.y[:rows])
        monkeypatch.undo()


@pytest.mark.parametrize("mu", [1e-6, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_keeps_the_networks_precision(dtype, mu):
    """Single-precision rows and weights lose single precision, even where a bottleneck makes S singular."""
    problem = problem_of(SquaredError())
    problem.network.to(dtype)
    problem.x, problem.y = problem.x.to(dtype).double(), problem.y.to(dtype).double()
    exact = GaussNewton(mu).solve(copy.deepcopy(problem.network).double(), problem.loss, problem.x, problem.y)
    found = solve(problem, GaussNewton(mu), x=problem.x.to(dtype), y=problem.y.to(dtype))
    for p, q in zip(exact.targets, found.targets, strict=True):
        assert q.dtype == dtype
        assert torch.allclose(p, q.double(), atol=1e-5)


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf, "one", None, True])
def test_a_bad_mu_is_named(mu):
    with pytest.raises(ArgumentError, match=r"mu=.*give a penalty above 0"):
        GaussNewton(mu)
