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
    """Of the first layer's slopes only the units' are made; carriers are computed once, and targets when asked for."""
    draw = SeededNoise(3)
    network = WideNetwork(7, 5, 3, source=draw).double()
    x, y = draw.normal((11, 7)), torch.eye(3).double()[torch.arange(11) % 3]
    calls = []
    network.stages[1].carriers[0].register_forward_hook(lambda *_: calls.append(1))
    found = FixedPrediction(gamma).solve(network, LOSSES["softmax"], x, y)
    handed = weighted_slopes(network, LOSSES["softmax"], found)
    assert len(calls) == 1
    units, outputs = (slope for _, _, slope in handed)
    assert units.shape == (11, 5)
    loss = torch.nn.functional.cross_entropy(network(x), y, reduction="sum")
    for problem, slope, inputs, times in zip(
        (one for one, _, _ in handed), (units, outputs), (x, handed[1][1]), (gamma, 1.0), strict=True
    ):
        (wanted,) = torch.autograd.grad(loss, [problem.stage.layer.weight], retain_graph=True)
        assert torch.allclose(slope.T @ inputs, times * wanted, atol=1e-12)
    again = weighted_slopes(network, LOSSES["softmax"], replace(found, slopes=None, layer_inputs=None))
    assert torch.allclose(again[0][2][:, 7:], units, atol=1e-12)
    assert len(found.targets) == 2
    assert found.targets[0].shape == found.inputs[1].shape
