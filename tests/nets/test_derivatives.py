"""Activations and losses against autograd."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, hessian, vmap

from dpmac.checks import ArgumentError
from dpmac.nets import (
    ACTIVATIONS,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
    SquaredError,
    activation,
    loss,
)
from dpmac.nets.activations import TANH
from dpmac.randomness import SeededNoise

POINTS = torch.cat([torch.linspace(-6, 6, 241, dtype=torch.float64) + 0.013, torch.tensor([-40.0, 40.0]).double()])
TASK_LOSSES = ["squared", "sigmoid", "softmax"]


@pytest.mark.parametrize("act", ACTIVATIONS.values(), ids=lambda a: a.name)
def test_activation_derivatives_equal_autograd(act):
    first, second = vmap(grad(act.f)), vmap(grad(grad(act.f)))
    assert torch.allclose(act.df(POINTS), first(POINTS), atol=1e-12)
    assert torch.allclose(act.d2f(POINTS), second(POINTS), atol=1e-10)


@pytest.mark.parametrize("act", ACTIVATIONS.values(), ids=lambda a: a.name)
def test_activation_equals_its_torch_module(act):
    module = act.module()
    assert torch.allclose(act.f(POINTS), module(POINTS), atol=1e-8)  # torch's softplus turns linear at 20
    assert activation(act.name) is act
    assert activation(act) is act


@pytest.mark.parametrize("act", ACTIVATIONS.values(), ids=lambda a: a.name)
def test_the_slopes_sup_is_reached_and_never_passed(act):
    fine = torch.linspace(-30, 30, 600_001, dtype=torch.float64)
    assert 0.999 * act.slope_sup < float(act.df(fine).abs().max()) <= act.slope_sup


def cases():
    for name in TASK_LOSSES:
        yield name, loss(name)
    for act in ACTIVATIONS.values():
        yield f"hidden {act.name}", SquaredError(act)


@pytest.mark.parametrize(("name", "g"), list(cases()))
def test_loss_derivatives_equal_autograd(name, g):
    draw = SeededNoise(3)
    u = 2 * draw.normal((20, 5))
    target = torch.softmax(draw.normal((20, 5)), dim=1)  # soft targets too

    def one(u_row, t_row):
        return g.value(u_row[None], t_row[None])[0]

    assert torch.allclose(g.slope(u, target), vmap(grad(one))(u, target), atol=1e-10)
    full = vmap(hessian(one))(u, target)
    assert torch.allclose(g.hessian(u, target), full, atol=1e-10)
    assert torch.allclose(g.curvature(u, target), torch.diagonal(full, dim1=1, dim2=2), atol=1e-10)


ROOTED = [
    SquaredError(),
    SquaredError(weight=2.0),
    SquaredError(TANH),
    SigmoidCrossEntropy(),
    SigmoidCrossEntropy(weight=0.3),
    SoftmaxCrossEntropy(),
    SoftmaxCrossEntropy(weight=5.0),
]


@pytest.mark.parametrize("g", ROOTED, ids=lambda g: f"{g.name}-{g.weight}")
def test_the_root_of_the_hessian_is_a_root_of_it(g):
    """A A^T is autograd's Hessian of the weighted loss (of squared error its Gauss-Newton part), for targets that are
    no single label too; A w and A^T rows agree with A."""
    draw = SeededNoise(6)
    u, w = 3 * draw.normal((5, 4)), draw.normal((5, 4))
    y = 2 * torch.eye(4, dtype=torch.float64)[(draw.uniform(5) * 4).long()] + 0.25
    root = g.hessian_root(u, y)
    rows_of_transpose = root.transposed(torch.eye(4, dtype=torch.float64).expand(5, -1, -1))
    for n in range(5):
        A = rows_of_transpose[n]
        if isinstance(g, SquaredError):
            jacobian = torch.func.jacrev(g.activation.module())(u[n])
            wanted = 2 * g.weight * jacobian.T @ jacobian
        else:
            wanted = hessian(lambda v, n=n: g.weight * g.value(v[None], y[n : n + 1])[0])(u[n])
        assert torch.allclose(A @ A.T, wanted, atol=1e-12)
        assert torch.allclose(root.times(w)[n], A @ w[n], atol=1e-12)


@pytest.mark.parametrize("g", [*ROOTED, *(SquaredError(act) for act in ACTIVATIONS.values())], ids=repr)
def test_no_curvature_is_above_the_losss_bound(g):
    """Of the Gauss-Newton Hessian, whatever u is, for one-hot targets."""
    u = torch.cat([3 * SeededNoise(7).normal((500, 3)), torch.zeros(1, 3), torch.tensor([[0.0, 0.0, -99.0]])])
    root = g.hessian_root(u, torch.eye(3, dtype=torch.float64)[torch.arange(502) % 3])
    A = root.transposed(torch.eye(3, dtype=torch.float64).expand(502, -1, -1))
    largest = torch.linalg.eigvalsh(A @ A.mT).max() / g.weight
    assert 0.9 * g.curvature_bound < largest <= g.curvature_bound * (1 + 1e-12)


def test_losses_equal_torchs():
    draw = SeededNoise(4)
    u, labels = draw.normal((30, 4)), (draw.uniform(30) * 4).long()
    hot = torch.eye(4, dtype=torch.float64)[labels]
    f = torch.nn.functional
    assert torch.allclose(loss("softmax").value(u, hot), f.cross_entropy(u, labels, reduction="none"))
    binary = f.binary_cross_entropy_with_logits(u, hot, reduction="none").sum(dim=1)
    assert torch.allclose(loss("sigmoid").value(u, hot), binary)
    assert torch.allclose(loss("squared").value(u, hot), f.mse_loss(u, hot, reduction="none").sum(dim=1))


@pytest.mark.parametrize("name", ["softmax", "sigmoid"])
def test_class_probabilities(name):
    u = 30 * SeededNoise(5).normal((50, 6))
    p = loss(name).predict(u)
    assert torch.allclose(p.sum(dim=1), torch.ones(50, dtype=torch.float64))
    assert torch.equal(p.argmax(dim=1), u.argmax(dim=1))


def test_targets_that_a_loss_is_not_made_for_are_named():
    half = torch.full((3, 2), 0.5)
    for name in TASK_LOSSES:
        loss(name).check_targets(half)
    loss("squared").check_targets(100 * half)
    loss("sigmoid").check_targets(0 * half)
    for name in ("softmax", "sigmoid"):
        for bad in (3 * half, -half):
            with pytest.raises(ArgumentError, match=rf"y='entries outside \[0, 1\]': the {name} loss needs .* one-hot"):
                loss(name).check_targets(bad)
    with pytest.raises(ArgumentError, match=r"y='rows that do not sum to 1': .*one-hot"):
        loss("softmax").check_targets(0.9 * half)


def test_unknown_names_are_refused_with_the_choices():
    with pytest.raises(ArgumentError, match=r"activation='swish': choose one of identity, relu"):
        activation("swish")
    with pytest.raises(ArgumentError, match=r"loss='hinge': choose one of squared, sigmoid, softmax"):
        loss("hinge")
