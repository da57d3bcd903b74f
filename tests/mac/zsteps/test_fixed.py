"""The fixed-prediction Z-step: back-propagation's gradients in every layer, in one sweep."""

from __future__ import annotations

import pytest
import torch
from oracles import problems, solve

from dpmac.checks import ArgumentError
from dpmac.mac import FirstOrder, FixedPrediction
from dpmac.mac.coordinates import problems_of


def gradients(problem):
    """Of the summed objective in every layer's weights and bias, by autograd on the plain network."""
    plain = problem.network.plain()
    (problem.loss.weight * problem.loss.value(plain(problem.x), problem.y).sum()).backward()
    weights, biases = list(plain.parameters())[::2], list(plain.parameters())[1::2]
    return [torch.cat([w.grad.flatten(1), b.grad[:, None]], dim=1) for w, b in zip(weights, biases, strict=True)]


@pytest.mark.parametrize("gamma", [1.0, 0.37])
@pytest.mark.parametrize("loss_name", ["softmax", "sigmoid", "squared"])
def test_the_slopes_are_back_propagations_gradients(loss_name, gamma):
    """Times gamma in the hidden layers: exactly its direction in every layer."""
    for problem in problems(loss_name, "softplus"):
        parts = FirstOrder().parts(problem.network, problem.loss, solve(problem, FixedPrediction(gamma)))
        layers = problems_of(problem.network, problem.loss)
        for k, (layer, part, gradient) in enumerate(zip(layers, parts, gradients(problem), strict=True)):
            factor = 1.0 if k == len(layers) - 1 else gamma
            assert torch.allclose(layer.loss.weight * part.total(), factor * gradient, atol=1e-11)
            assert gradient.abs().max() > 1e-3


def test_a_bad_gamma_is_named():
    for gamma in (0.0, -1.0, "one"):
        with pytest.raises(ArgumentError, match="gamma="):
            FixedPrediction(gamma)
