"""The W-step by an optimiser: released gradients reach a plain torch optimiser and its schedule."""

from __future__ import annotations

import pytest
import torch

from conftest import make_images, make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import OptimizerStep, Polynomial, StepDecay, constant, cosine
from dpmac.mac.optimizers import PlainAdam, optimizer_for
from dpmac.randomness import SeededNoise
from mac.bowls import bowl


def flat(problem, draw):
    """Order-1 polynomials with random slopes."""
    return [Polynomial(p.centre, draw.normal(p.slope.shape)) for p in bowl(problem)]


@pytest.mark.parametrize("make", [make_problem, make_images])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.AdamW])
def test_it_does_what_the_torch_optimiser_does(optimizer, make):
    """On torch's own layers, filters among them: a row of the matrix is a unit's weights, flat, and its bias."""
    problem = make()
    twin = problem.network.plain()
    updater = OptimizerStep(lr=0.1, optimizer=optimizer).start(problem.network, steps=3)
    plain = optimizer(twin.parameters(), lr=0.1)
    draw = SeededNoise(0)
    for _ in range(3):
        polynomials = flat(problem, draw)
        updater.apply(polynomials)
        layers = [module for module in twin if hasattr(module, "weight")]
        for layer, polynomial in zip(layers, polynomials, strict=True):
            layer.weight.grad = polynomial.slope[:, :-1].reshape(layer.weight.shape).clone()
            layer.bias.grad = polynomial.slope[:, -1].clone()
        plain.step()
    for ours, theirs in zip(problem.network.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-12)  # torch's one-pass kernel rounds otherwise
        assert ours.grad is None


def rates(schedule, steps):
    problem = make_problem()
    updater = OptimizerStep(lr=0.5, optimizer=torch.optim.SGD, schedule=schedule).start(problem.network, steps)
    seen = []
    for _ in range(steps):
        seen.append(updater.lr)
        updater.apply(flat(problem, SeededNoise(0)))
    return seen


def test_schedules_are_followed():
    assert rates(constant, 4) == [0.5] * 4
    assert rates(StepDecay(0.5, 3), 6) == pytest.approx([0.5, 0.5, 0.25, 0.25, 0.125, 0.125])
    falling = rates(cosine, 10)
    assert falling == sorted(falling, reverse=True)
    assert falling[5] == pytest.approx(0.25)


def test_options_reach_the_optimiser_and_bad_ones_are_named():
    step = OptimizerStep(lr=0.1, optimizer=torch.optim.SGD, options={"momentum": 0.9})
    assert step.start(make_problem().network, 1).optimizer.param_groups[0]["momentum"] == 0.9
    with pytest.raises(ArgumentError, match="lr=0"):
        OptimizerStep(lr=0)
    with pytest.raises(ArgumentError, match="inner_steps=0"):
        OptimizerStep(inner_steps=0)
    with pytest.raises(ArgumentError, match=r"penalty=-1"):
        OptimizerStep(penalty=-1)


def test_it_descends_the_released_polynomial_as_often_as_wanted():
    """Many inner steps of Adam on one order-2 release come to the closed-form minimum: no further privacy spent."""
    problem = make_problem((3, 2))
    polynomials = [p.floored(0.5) for p in bowl(problem)]
    OptimizerStep(lr=0.05, inner_steps=2000).start(problem.network, 1).apply(polynomials)
    exact = polynomials[0].minimum(1e-9)
    reached = problem.network.weight_layers[0].matrix()
    assert polynomials[0].change(reached) - polynomials[0].change(exact) < 1e-3 * abs(polynomials[0].change(exact))


@pytest.mark.parametrize("make", [make_problem, make_images])
def test_the_penalty_is_on_squared_weights_times_their_inputs_and_on_no_offset(make):
    """By autograd: the same steps of plain gradient descent on polynomial + penalty / 2 * inputs * squares."""
    problem = make()
    twin = problem.network.plain()
    updater = OptimizerStep(lr=0.1, optimizer=torch.optim.SGD, penalty=0.03).start(problem.network, steps=3)
    draw = SeededNoise(0)
    for _ in range(3):
        polynomials = flat(problem, draw)
        updater.apply(polynomials)
        layers = [module for module in twin if hasattr(module, "weight")]
        penalised = sum(0.015 * layer.weight[0].numel() * layer.weight.square().sum() for layer in layers)
        slopes = torch.autograd.grad(penalised, [layer.weight for layer in layers])
        for layer, polynomial, slope in zip(layers, polynomials, slopes, strict=True):
            layer.weight.data -= 0.1 * (polynomial.slope[:, :-1].reshape(layer.weight.shape) + slope)
            layer.bias.data -= 0.1 * polynomial.slope[:, -1]
    for ours, theirs in zip(problem.network.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_adams_state_goes_both_ways():
    """A checkpoint of torch's own Adam goes on with ours, and ours with torch's."""
    torch.manual_seed(0)
    ours, theirs = ([torch.ones(3, dtype=torch.float64).requires_grad_()] for _ in range(2))
    plain, own = PlainAdam(ours, lr=0.1, weight_decay=0.01), torch.optim.Adam(theirs, lr=0.1, weight_decay=0.01)
    for turn in range(6):
        gradient = torch.randn(3, dtype=torch.float64)
        ours[0].grad, theirs[0].grad = gradient.clone(), gradient.clone()
        plain.step()
        own.step()
        assert torch.allclose(ours[0], theirs[0], rtol=1e-12, atol=1e-12)
        if turn == 2:
            before = plain.state_dict()
            plain = PlainAdam(ours, lr=9.0)
            plain.load_state_dict(own.state_dict())
            own.load_state_dict({**own.state_dict(), "state": before["state"]})
    assert plain.state_dict()["param_groups"][0]["lr"] == 0.1
    with pytest.raises(ValueError, match="another number"):
        PlainAdam([*ours, *theirs]).load_state_dict(before)


def test_options_that_the_plain_adam_lacks_are_torchs_own():
    kinds = [type(optimizer_for(torch.optim.Adam, [torch.ones(1)], **more)) for more in ({}, {"amsgrad": True})]
    assert kinds == [PlainAdam, torch.optim.Adam]
    assert isinstance(optimizer_for(torch.optim.Adam, [torch.ones(1), torch.ones(1).double()]), torch.optim.Adam)


def test_a_parameter_without_a_gradient_stays():
    moved, still = torch.ones(1), torch.ones(1)
    adam = PlainAdam([still, moved], lr=0.1)
    moved.grad = torch.ones(1)
    adam.step()
    assert (float(still), float(moved)) == (1.0, pytest.approx(0.9))
    adam.zero_grad(set_to_none=False)
    assert (still.grad, float(moved.grad)) == (None, 0.0)
    PlainAdam([still]).step()
    assert float(still) == 1.0
