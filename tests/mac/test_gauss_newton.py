"""The closed-form Z-step: dense solves on autograd's Jacobians, one example at a time, say the same; rows are alone."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import gauss_newton
from dpmac.mac.gauss_newton import GaussNewton, hessian_root, rows_at_once
from dpmac.mac.layers import layers_of
from dpmac.nets.activations import SIGMOID, TANH
from dpmac.nets.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from dpmac.privacy import Normalise
from dpmac.privacy.parts import OuterPart

LOSSES = [
    SquaredError(),
    SquaredError(weight=2.0),
    SquaredError(TANH),
    SigmoidCrossEntropy(),
    SigmoidCrossEntropy(weight=0.3),
    SoftmaxCrossEntropy(),
    SoftmaxCrossEntropy(weight=5.0),
]
DEEP = (5, 7, 6, 3, 4)
BOTTLENECKS = (5, 6, 3, 2, 5, 3, 7, 4)  # narrow layers below narrow layers


def name(loss):
    activation = getattr(loss, "activation", None)
    return f"{loss.name}-{loss.weight}" + (f"-{activation.name}" if activation else "")


def problem_of(loss, sizes=DEEP, hidden="tanh", rows=12):
    problem = make_problem(sizes, hidden, loss.name, rows)
    problem.loss = loss
    return problem


def output(network, x, errors):
    """The output's pre-activation with ``errors`` added to the hidden layers, in plain torch operations."""
    s = x
    for linear, act, error in zip(network.linears, network.activations, errors, strict=False):
        s = act.module()(s @ linear.weight.T + linear.bias) + error
    last = network.linears[-1]
    return s @ last.weight.T + last.bias


def oracle_hessian(loss, u, y):
    """Autograd's Hessian of the weighted loss; for squared error its Gauss-Newton part."""
    if isinstance(loss, SquaredError):
        jacobian = torch.func.jacrev(loss.activation.module())(u)
        return 2 * loss.weight * jacobian.T @ jacobian
    return torch.func.hessian(lambda v: loss.weight * loss.value(v[None], y[None])[0])(u)


def oracle(problem, mu, n):
    """The errors of example n: the normal equations in all errors at once, (mu I + J^T H J) e = -J^T g, by NumPy."""
    network, loss, x, y = problem.network, problem.loss, problem.x[n], problem.y[n]
    zeros = tuple(torch.zeros(width, dtype=torch.float64) for width in network.sizes[1:-1])
    J = torch.cat(torch.func.jacrev(lambda e: output(network, x, e))(zeros), dim=1).detach()
    u = output(network, x, zeros).detach()
    g = torch.func.grad(lambda v: loss.weight * loss.value(v[None], y[None])[0])(u)
    H = oracle_hessian(loss, u, y)
    e = np.linalg.solve((mu * torch.eye(J.shape[1], dtype=J.dtype) + J.T @ H @ J).numpy(), -(J.T @ g).numpy())
    return torch.from_numpy(e).split([len(z) for z in zeros])


def errors_of(found):
    """What each hidden layer is to change: target less prediction (inputs are the forward values)."""
    return [target - value for target, value in zip(found.targets, found.inputs[1:], strict=False)]


def slopes_of(problem, found):
    """Slope part of every layer, as the expansion takes it."""
    parts = []
    for layer, inputs, target in zip(
        layers_of(problem.network, problem.loss), found.inputs, found.targets, strict=True
    ):
        ones = torch.ones_like(inputs[:, :1])
        parts.append(
            OuterPart(layer.loss.slope(layer.pre_activation(inputs), target), torch.cat([inputs, ones], dim=1))
        )
    return parts


def solve(problem, mu=1.0, x=None, y=None):
    return GaussNewton(mu).solve(
        problem.network, problem.loss, problem.x if x is None else x, problem.y if y is None else y
    )


@pytest.mark.parametrize("mu", [1e-4, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize(("sizes", "hidden"), [(DEEP, "tanh"), (BOTTLENECKS, "relu"), ((5, 7, 4), "softplus")])
def test_it_is_the_dense_solve_on_autograds_jacobians(loss, mu, sizes, hidden):
    problem = problem_of(loss, sizes, hidden, rows=4)
    errors = errors_of(solve(problem, mu))
    for n in range(4):
        for ours, theirs in zip(errors, oracle(problem, mu, n), strict=True):
            assert torch.allclose(ours[n], theirs, rtol=1e-9, atol=1e-11 / min(mu, 1.0))


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_the_root_of_the_hessian(loss):
    """A A^T is autograd's Hessian, for targets that are no single label too; A w and A^T rows agree with A."""
    problem = problem_of(loss, rows=5)
    u, y = 3 * problem.x[:, :4], problem.y * 2 + 0.25
    root = hessian_root(loss, u, y)
    for n in range(5):
        A_T = root.transposed(torch.eye(4, dtype=torch.float64).expand(5, -1, -1))[n].T
        assert torch.allclose(A_T.T @ A_T, oracle_hessian(loss, u[n], y[n]), atol=1e-12)
        assert torch.allclose(root.times(problem.x[:, 1:5])[n], A_T.T @ problem.x[n, 1:5], atol=1e-12)


@pytest.mark.parametrize("mu", [0.1, 1.0])
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_small_moves_along_it_lower_every_examples_objective(loss, mu):
    problem = problem_of(loss)
    errors = errors_of(solve(problem, mu))

    def objective(t):
        moved = [t * e for e in errors]
        norms = sum(e.square().sum(dim=1) for e in moved)
        u = output(problem.network, problem.x, moved).detach()
        return mu / 2 * norms + loss.weight * loss.value(u, problem.y)

    assert (objective(0.01) < objective(0.0)).all()


def test_a_small_mu_fits_a_squared_output_exactly_where_the_network_is_linear():
    problem = make_problem((5, 7, 6, 6, 4), "identity", "squared")
    errors = errors_of(solve(problem, 1e-8))
    assert torch.allclose(output(problem.network, problem.x, errors), problem.y, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize("hidden", ["tanh", "relu"])
def test_a_large_mu_gives_back_propagations_gradient_in_every_layer(loss, hidden):
    problem = problem_of(loss, hidden=hidden)
    mu = 1e6
    parts = slopes_of(problem, solve(problem, mu))
    problem.network.zero_grad()
    (loss.weight * loss.value(problem.network(problem.x), problem.y)).sum().backward()
    layers = layers_of(problem.network, loss)
    for k, (layer, part) in enumerate(zip(layers, parts, strict=True)):
        gradient = torch.cat([layer.linear.weight.grad, layer.linear.bias.grad[:, None]], dim=1)
        ours = layer.loss.weight * part.total() * (mu if k < len(layers) - 1 else 1.0)
        assert torch.nn.functional.cosine_similarity(ours.flatten(), gradient.flatten(), dim=0) > 0.999
        assert torch.allclose(ours, gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mu", [1e-3, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("hidden", ["tanh", "relu", "softplus", "gelu"])
@pytest.mark.parametrize("loss", [LOSSES[0], SquaredError(SIGMOID), LOSSES[3], LOSSES[5]], ids=name)
def test_changing_one_row_changes_only_that_rows_coordinates(loss, hidden, dtype, mu):
    """Bit for bit, with outrageous rows and rows that overflow to inf or NaN; a bound makes the latter zero."""
    problem = problem_of(loss, hidden=hidden, rows=20)
    problem.network.to(dtype)
    x, y = problem.x.to(dtype), problem.y.to(dtype)
    before = solve(problem, mu, x, y)
    others = [n for n in range(20) if n != 7]
    for value in (1.0, 1e6, 1e30, torch.finfo(dtype).max, math.inf, math.nan):
        changed, targets = x.clone(), y.clone()
        changed[7] = x[7].sign() * value
        targets[7] = y[7].roll(1)
        after = solve(problem, mu, changed, targets)
        for p, q in zip(before.inputs + before.targets, after.inputs + after.targets, strict=True):
            assert torch.equal(p[others], q[others])
        assert not torch.equal(before.targets[0][7], after.targets[0][7])
        for part in Normalise().apply(slopes_of(problem, after)):
            assert part.norms().isfinite().all()


def test_a_row_whose_solve_is_not_finite_is_marked_and_does_not_raise():
    problem = problem_of(SoftmaxCrossEntropy())
    problem.x[3] = math.nan
    targets = solve(problem).targets[0]
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
    problem = make_problem((5, 7, 6, 6, 4), "identity", "squared")
    with torch.no_grad():
        problem.network.linears[-1].weight.mul_(scale)
    errors = errors_of(solve(problem, 1e-11))
    assert all(e.isfinite().all() for e in errors)
    left = (output(problem.network, problem.x, errors) - problem.y).norm(dim=1)
    start = (problem.network(problem.x) - problem.y).norm(dim=1)
    assert (left < 1e-3 * start).all()


@pytest.mark.parametrize("loss", [LOSSES[0], LOSSES[5]], ids=name)
@given(rows=st.integers(0, 20))
def test_the_rest_of_the_batch_is_not_felt(loss, rows):
    problem = problem_of(loss, rows=20)
    whole = solve(problem)
    few = solve(problem, x=problem.x[:rows], y=problem.y[:rows])
    for p, q in zip(whole.targets, few.targets, strict=True):
        assert torch.allclose(p[:rows], q, atol=1e-10)


def test_the_memory_of_a_slice_is_what_the_docstring_says():
    """Doubles for two Jacobians (d_out x widest) and four matrices of d_out x d_out, for each row."""
    network = make_problem((5, 9, 30, 20), "tanh", "squared").network
    assert rows_at_once(network) == 2**26 // (8 * 20 * (2 * 30 + 4 * 20))


def test_slices_change_nothing_and_only_a_single_rows_size_is_refused(monkeypatch):
    problem = problem_of(SoftmaxCrossEntropy())
    whole = solve(problem)
    each = 8 * 4 * (2 * 7 + 4 * 4)
    for slices, rows in ((5 * each, 5), (each // 2, 1)):  # 12 rows: 5, 5 and 2; or one by one
        monkeypatch.setattr(gauss_newton, "SLICE", slices)
        assert rows_at_once(problem.network) == rows
        for p, q in zip(whole.targets, solve(problem).targets, strict=True):
            assert torch.allclose(p, q, atol=1e-12)
    monkeypatch.setattr(gauss_newton, "LIMIT", each - 1)
    for rows in (1, 12):  # refused for its sizes, however many rows there are: their number is secret
        with pytest.raises(ArgumentError, match=r"sizes=\(5, 7, 6, 3, 4\): .*narrower, or use FixedPrediction"):
            solve(problem, x=problem.x[:rows], y=problem.y[:rows])


def test_layers_inputs_are_the_forward_values_and_weights_stay():
    problem = problem_of(SquaredError())
    before = [p.clone() for p in problem.network.parameters()]
    found = solve(problem)
    value = problem.x
    for k, act in enumerate(problem.network.activations):
        assert torch.equal(found.inputs[k], value)
        value = act.f(problem.network.linears[k](value)).detach()
    assert torch.equal(found.targets[-1], problem.y)
    assert all(torch.equal(p, q) for p, q in zip(before, problem.network.parameters(), strict=True))


@pytest.mark.parametrize("mu", [1e-6, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_keeps_the_networks_precision(dtype, mu):
    """Single-precision rows and weights lose single precision, even where a bottleneck makes S singular."""
    problem = problem_of(SquaredError())
    problem.network.to(dtype)
    problem.x, problem.y = problem.x.to(dtype).double(), problem.y.to(dtype).double()
    exact = GaussNewton(mu).solve(copy.deepcopy(problem.network).double(), problem.loss, problem.x, problem.y)
    found = solve(problem, mu, x=problem.x.to(dtype), y=problem.y.to(dtype))
    for p, q in zip(exact.targets, found.targets, strict=True):
        assert q.dtype == dtype
        assert torch.allclose(p, q.double(), atol=1e-5)


def test_a_linear_model_has_no_coordinates():
    problem = make_problem((5, 4))
    found = solve(problem)
    assert len(found.inputs) == len(found.targets) == 1
    assert found.inputs[0] is problem.x
    assert found.targets[0] is problem.y


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf, "one", None, True])
def test_a_bad_mu_is_named(mu):
    with pytest.raises(ArgumentError, match=r"mu=.*give a penalty above 0"):
        GaussNewton(mu)


def test_a_loss_whose_hessian_is_not_known_is_named():
    class Odd:
        name, weight = "odd", 1.0

        def slope(self, u, target):
            return u - target

    problem = make_problem()
    problem.loss = Odd()
    with pytest.raises(ArgumentError, match=r"loss=.*SoftmaxCrossEntropy"):
        solve(problem)
