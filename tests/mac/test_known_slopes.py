"""Slopes that a Z-step hands on are those of its targets, and go back through an activation as slopes f'(u)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from conftest import make_images, make_problem
from dpmac.mac import FixedPrediction
from dpmac.mac.expansions import weighted_slopes
from dpmac.nets import ACTIVATIONS, LOSSES, WideNetwork
from dpmac.randomness import SeededNoise

KINKS = torch.tensor([0.0, -0.0, 5e-324, -5e-324, 1e-45, -1e-45, 1.0, -1.0, 40.0, -40.0, 1e30, -1e30])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("act", ACTIVATIONS.values(), ids=lambda a: a.name)
def test_slopes_are_carried_back_by_the_derivative_at_kinks_as_well(act, dtype):
    draw = SeededNoise(2)
    u = torch.cat([KINKS.to(dtype), 3 * draw.normal((500,)).to(dtype)])
    slopes = draw.normal(u.shape).to(dtype)
    for each in (slopes, -slopes, torch.zeros_like(u)):
        assert torch.equal(act.back(each, u), each * act.df(u))
        assert act.back(each, u).dtype == dtype


def test_a_relu_is_off_at_zero_of_either_sign():
    relu = ACTIVATIONS["relu"]
    assert relu.quick_back is not None
    for dtype in (torch.float32, torch.float64):
        least = torch.finfo(dtype).smallest_normal
        u = torch.tensor([0.0, -0.0, least, -least], dtype=dtype)
        assert relu.back(torch.ones(4, dtype=dtype), u).tolist() == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("gamma", [1.0, 0.37, 20.0])
@pytest.mark.parametrize("loss_name", ["softmax", "sigmoid", "squared"])
@pytest.mark.parametrize("hidden", ACTIVATIONS)
def test_the_slopes_handed_on_are_those_made_from_the_targets(hidden, loss_name, gamma):
    for problem in (make_problem(hidden=hidden, loss_name=loss_name), make_images(hidden, loss_name)):
        found = FixedPrediction(gamma).solve(problem.network, problem.loss, problem.x, problem.y)
        assert found.slopes is not None
        again = weighted_slopes(problem.network, problem.loss, replace(found, slopes=None))
        from_nothing = replace(found, slopes=None, pre_activations=None)
        third = weighted_slopes(problem.network, problem.loss, from_nothing)
        handed = weighted_slopes(problem.network, problem.loss, found)
        for (_, inputs, slope), *others in zip(handed, again, third, strict=True):
            for _, other_inputs, other in others:
                assert torch.equal(inputs, other_inputs)
                assert torch.allclose(slope, other, rtol=1e-9, atol=1e-12 * max(1.0, gamma))
        assert any(bool(slope.abs().max() > 1e-6) for _, _, slope in handed)


@pytest.mark.parametrize("gamma", [1.0, 0.37])
def test_a_wide_networks_slopes_are_those_of_its_units_as_autograd_has_them(gamma):
    """What the sweep leaves out is made when it is asked for; all is what a stack of layers gives, bit for bit."""
    draw, loss = SeededNoise(3), LOSSES["softmax"]
    network = WideNetwork(7, 5, 3, source=draw).double()
    x, y = draw.normal((11, 7)), torch.eye(3).double()[torch.arange(11) % 3]
    found = FixedPrediction(gamma).solve(network, loss, x, y)
    below, above = network.stages
    z = below.pre_activation(x)
    assert all(map(torch.equal, found.layer_inputs, (x, above.inputs(z))))
    assert all(map(torch.equal, found.inputs, (x, z)))
    assert all(map(torch.equal, found.pre_activations, (z, above.pre_activation(z))))
    assert all(map(torch.equal, found.targets, (torch.sub(z, above.back(found.slopes[1], z), alpha=gamma), y)))
    units, outputs = (slope for _, _, slope in weighted_slopes(network, loss, found))
    assert units.shape == (11, 5)
    value = torch.nn.functional.cross_entropy(network(x), y, reduction="sum")
    wanted = torch.autograd.grad(value, [below.layer.weight, above.layer.weight])
    assert torch.allclose(units.T @ x, gamma * wanted[0], atol=1e-12)
    assert torch.allclose(outputs.T @ above.inputs(z), wanted[1], atol=1e-12)
    again = weighted_slopes(network, loss, replace(found, slopes=None, pre_activations=None))
    assert torch.allclose(again[0][2][:, 7:], units, atol=1e-12)
    shares = [below.layer.part(slope, x).explicit() for slope in (units, again[0][2])]
    assert torch.allclose(*shares, atol=1e-12)


def test_a_wide_networks_coordinates_are_not_made_of_weights_that_have_moved():
    draw = SeededNoise(3)
    network = WideNetwork(4, 3, 2, source=draw)
    found = FixedPrediction().solve(
        network, LOSSES["softmax"], draw.normal((5, 4)).float(), torch.eye(2)[[0, 1, 0, 1, 1]]
    )
    with torch.no_grad():
        network.weight_layers[0].weight.add_(1.0)
    with pytest.raises(RuntimeError, match="moved since"):
        found.inputs[1]


def test_carriers_are_computed_once_in_a_sweep():
    problem = make_images("tanh", "softmax")
    (carrier, *_), calls = problem.network.stages[1].carriers, []
    carrier.register_forward_hook(lambda *_: calls.append(1))
    weighted_slopes(
        problem.network, problem.loss, FixedPrediction().solve(problem.network, problem.loss, problem.x, problem.y)
    )
    assert len(calls) == 1


def test_other_coordinates_in_their_place_are_carried_anew():
    problem = make_images("tanh", "softmax")
    found = FixedPrediction().solve(problem.network, problem.loss, problem.x, problem.y)
    moved = replace(found, inputs=tuple(2 * z for z in found.inputs))
    for (one, inputs, _), z in zip(weighted_slopes(problem.network, problem.loss, moved), moved.inputs, strict=True):
        assert torch.equal(inputs, one.stage.inputs(z))
