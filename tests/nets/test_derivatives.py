"""Activations and losses against autograd."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, hessian, vmap

from dpmac.checks import ArgumentError
from dpmac.nets import ACTIVATIONS, SquaredError, activation, loss
from dpmac.privacy import SeededNoise

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


def test_unknown_names_are_refused_with_the_choices():
    with pytest.raises(ArgumentError, match=r"activation='swish': choose one of identity, relu"):
        activation("swish")
    with pytest.raises(ArgumentError, match=r"loss='hinge': choose one of squared, sigmoid, softmax"):
        loss("hinge")
