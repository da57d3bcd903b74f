"""Per-example slopes against autograd, one example at a time."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call

from conftest import make_images, make_problem
from dpmac.mac import AdamCoordinates, FirstOrder
from dpmac.mac.coordinates import problems_of
from dpmac.nets import ACTIVATIONS
from dpmac.nets.layers import with_one
from dpmac.privacy import OuterPart, PerLayerClip
from dpmac.privacy.parts import SLACK

CASES = [(act, "softmax") for act in ACTIVATIONS] + [("tanh", "squared"), ("softplus", "sigmoid")]


def share(part, n):
    """Example n's matrix, built."""
    left, right = part.left[n], part.right[n]
    if isinstance(part, OuterPart):
        return torch.outer(left, with_one(right) if part.one else right)
    return left.T @ right


def autograd_slopes(problem, coordinates, n):
    """d T_n / d [W_k, b_k] for every layer of example n, by autograd on torch's own layer and that example alone."""
    slopes = []
    for layer, inputs, targets in zip(
        problems_of(problem.network, problem.loss), coordinates.inputs, coordinates.targets, strict=True
    ):
        stage = layer.stage
        weight, bias = stage.layer.weight, stage.layer.bias
        u = functional_call(
            stage.layer.plain(), {"weight": weight, "bias": bias}, (stage.inputs(inputs[n : n + 1]).detach(),)
        )
        value = layer.loss.value(u, targets[n : n + 1])
        by_weight, by_bias = torch.autograd.grad(value.squeeze(0), (weight, bias))
        slopes.append(torch.cat([by_weight.flatten(1), by_bias[:, None]], dim=1))
    return slopes


@pytest.mark.parametrize("make", [make_problem, make_images])
@pytest.mark.parametrize(("hidden", "loss_name"), CASES)
def test_closed_form_equals_autograd_example_by_example(make, hidden, loss_name):
    problem = make(hidden=hidden, loss_name=loss_name)
    coordinates = AdamCoordinates(steps=5, lr=0.1).solve(problem.network, problem.loss, problem.x, problem.y)
    parts = FirstOrder().parts(problem.network, problem.loss, coordinates)
    asked = FirstOrder().partitions(problem.network, problem.loss)
    assert [p.shape for p in parts] == [p.shape for p in asked]
    assert [p.name for p in asked] == problem.network.layer_names
    sums = [torch.zeros(p.shape, dtype=torch.float64) for p in parts]
    clipped_sums = [torch.zeros(p.shape, dtype=torch.float64) for p in parts]
    for n in range(len(problem.x)):
        for k, slope in enumerate(autograd_slopes(problem, coordinates, n)):
            assert torch.allclose(share(parts[k], n), slope, atol=1e-12)
            assert float(parts[k].norms()[n]) == pytest.approx(float(slope.norm()), rel=1e-10, abs=1e-12)
            sums[k] += slope
            clipped_sums[k] += slope * min(1.0, (1 - SLACK) * 0.3 / max(float(slope.norm()), 1e-300))
    clipped = PerLayerClip(0.3).apply(parts)
    for k in range(len(parts)):
        assert torch.allclose(parts[k].total(), sums[k], atol=1e-11)
        assert torch.allclose(clipped[k].total(), clipped_sums[k], atol=1e-11)


def test_the_polynomial_is_the_weighted_slope_at_the_weights():
    problem = make_problem(loss_name="squared")
    answer = {f"layer {k}": torch.full(shape, float(k)) for k, shape in ((1, (7, 6)), (2, (6, 8)), (3, (4, 7)))}
    found = FirstOrder().polynomials(problem.network, problem.loss, answer)
    for k, (polynomial, layer) in enumerate(zip(found, problem.network.weight_layers, strict=True), start=1):
        assert torch.equal(polynomial.slope, 0.5 * answer[f"layer {k}"])
        assert torch.equal(polynomial.centre, layer.matrix())
        assert polynomial.curvature is None


def test_the_centre_is_made_when_it_is_asked_for_and_never_after_the_weights_moved():
    problem = make_problem(loss_name="squared")
    answer = {stage.name: torch.zeros(stage.layer.matrix_shape) for stage in problem.network.stages}
    first, *_ = FirstOrder().polynomials(problem.network, problem.loss, answer)
    layer = problem.network.weight_layers[0]
    assert torch.equal(first.centre, layer.matrix())
    layer.write(layer.matrix() + 1)
    with pytest.raises(RuntimeError, match="the weights have moved since"):
        _ = first.centre
