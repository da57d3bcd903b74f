"""Per-example slopes against autograd, one example at a time."""

from __future__ import annotations

import pytest
import torch

from conftest import make_problem
from dpmac.mac import AdamCoordinates, FixedPrediction, first_order, shapes_of
from dpmac.mac.layers import layers_of
from dpmac.nets import ACTIVATIONS
from dpmac.privacy import PerLayerClip
from dpmac.privacy.bound import SLACK

CASES = [(act, "softmax") for act in ACTIVATIONS] + [("tanh", "squared"), ("softplus", "sigmoid")]


def autograd_slopes(problem, coordinates, n):
    """d T_n / d [W_k, b_k] for every layer of example n, by autograd on that example alone."""
    slopes = []
    for layer, inputs, targets in zip(
        layers_of(problem.network, problem.loss), coordinates.inputs, coordinates.targets, strict=True
    ):
        weight, bias = layer.linear.weight, layer.linear.bias
        value = layer.loss.value(torch.nn.functional.linear(inputs[n : n + 1], weight, bias), targets[n : n + 1])
        by_weight, by_bias = torch.autograd.grad(value.squeeze(0), (weight, bias))
        slopes.append(torch.cat([by_weight, by_bias[:, None]], dim=1))
    return slopes


@pytest.mark.parametrize(("hidden", "loss_name"), CASES)
def test_closed_form_equals_autograd_example_by_example(hidden, loss_name):
    problem = make_problem(hidden=hidden, loss_name=loss_name)
    coordinates = AdamCoordinates(steps=5, lr=0.1).solve(problem.network, problem.loss, problem.x, problem.y)
    parts = first_order(problem.network, problem.loss, coordinates)
    assert [p.shape for p in parts] == shapes_of(problem.network)
    sums = [torch.zeros(p.shape, dtype=torch.float64) for p in parts]
    clipped_sums = [torch.zeros(p.shape, dtype=torch.float64) for p in parts]
    for n in range(len(problem.x)):
        for k, slope in enumerate(autograd_slopes(problem, coordinates, n)):
            assert torch.allclose(torch.outer(parts[k].left[n], parts[k].right[n]), slope, atol=1e-12)
            assert float(parts[k].norms()[n]) == pytest.approx(float(slope.norm()), rel=1e-10, abs=1e-14)
            sums[k] += slope
            clipped_sums[k] += slope * min(1.0, (1 - SLACK) * 0.3 / max(float(slope.norm()), 1e-300))
    clipped = PerLayerClip(0.3).apply(parts)
    for k in range(len(parts)):
        assert torch.allclose(parts[k].total(), sums[k], atol=1e-11)
        assert torch.allclose(clipped[k].total(), clipped_sums[k], atol=1e-11)


@pytest.mark.parametrize("loss_name", ["softmax", "sigmoid", "squared"])
def test_at_fixed_prediction_the_slopes_are_back_propagations_gradients(loss_name):
    problem = make_problem((5, 7, 6, 6, 4), "softplus", loss_name)
    coordinates = FixedPrediction().solve(problem.network, problem.loss, problem.x, problem.y)
    parts = first_order(problem.network, problem.loss, coordinates)
    objective = problem.loss.weight * problem.loss.value(problem.network(problem.x), problem.y).sum()
    objective.backward()
    for layer, part in zip(layers_of(problem.network, problem.loss), parts, strict=True):
        expected = torch.cat([layer.linear.weight.grad, layer.linear.bias.grad[:, None]], dim=1)
        assert torch.allclose(layer.loss.weight * part.total(), expected, atol=1e-12)
