"""DP-SGD in our engine against Opacus and autograd, on the same batch and weights."""

from __future__ import annotations

import warnings

import pytest
import torch

from conftest import make_images, make_problem
from dpmac.mac import FixedPrediction, OptimizerStep
from dpmac.methods import Gradients
from dpmac.nets import ACTIVATIONS
from dpmac.nets.layers import with_one
from dpmac.privacy import JointClip, Ledger, Normalise, OuterPart, PerLayerClip, Plan, PrivateRows, Unbounded, release
from dpmac.randomness import SeededNoise
from dpmac.training import Step, Trainer

LOSSES = ["softmax", "sigmoid", "squared"]
MAKERS = {"dense": make_problem, "convolutional": make_images}
each_network = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def our_sums(problem, bound):
    """One training step's answer without noise: through the Z-step, the expansion, the bound and the door."""
    step = Step(problem.network, problem.loss, FixedPrediction(), Gradients(), bound)
    answer = release(
        PrivateRows(problem.x, problem.y).everything(), step.query(),
        noise_multiplier=0.0, source=SeededNoise(0), ledger=Ledger(),
    )  # fmt: skip
    return [answer[name] for name in problem.network.layer_names]


def opacus_sums(problem, threshold, per_layer=False):
    """Opacus's clipped sums and per-sample gradients: its own hooks, its own gradients, its own clipping."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus.grad_sample import GradSampleModule
        from opacus.optimizers import DPOptimizer, DPPerLayerOptimizer

        module = GradSampleModule(problem.network.plain(), loss_reduction="sum")
        parameters = list(module.parameters())
        sgd = torch.optim.SGD(parameters, lr=1.0)
        common = {"noise_multiplier": 0.0, "expected_batch_size": 1}
        if per_layer:  # Opacus's layers are parameters: weight and bias apart
            optimizer = DPPerLayerOptimizer(sgd, max_grad_norm=[threshold] * len(parameters), **common)
        else:
            optimizer = DPOptimizer(sgd, max_grad_norm=threshold, **common)
        (problem.loss.weight * problem.loss.value(module(problem.x), problem.y).sum()).backward()
        per_sample = [p.grad_sample.clone() for p in parameters]
        optimizer.clip_and_accumulate()
    return [p.summed_grad for p in parameters], per_sample


@each_network
@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("clipped", ["all", "some", "none"])
def test_flat_clipped_sums_equal_opacus(make, loss_name, clipped):
    """Filters with stride and padding, overlapping windows, both poolings among them."""
    problem = make(loss_name=loss_name, rows=25)
    _, per_sample = opacus_sums(problem, 1.0)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample]).norm(dim=0)
    threshold = float({"all": norms.min() / 9, "some": norms.median(), "none": 2 * norms.max()}[clipped])
    theirs, _ = opacus_sums(problem, threshold)
    rounding = 25 * 2e-5 * threshold if clipped != "none" else 1e-9  # we keep SLACK from the threshold, they 1e-6
    for k, ours in enumerate(our_sums(problem, JointClip(threshold))):
        wanted = torch.cat([theirs[2 * k].flatten(1), theirs[2 * k + 1][:, None]], dim=1)
        assert (ours - wanted).norm() < rounding
        assert wanted.norm() > 50 * rounding


@each_network
def test_our_layers_clip_weight_and_bias_together(make):
    """Opacus's per-layer optimiser clips every parameter by itself; ours clips a layer. Built from its gradients."""
    problem = make(hidden="relu", rows=25)
    _, per_sample = opacus_sums(problem, 0.2, per_layer=True)
    for k, ours in enumerate(our_sums(problem, PerLayerClip(0.2))):
        layer = torch.cat([per_sample[2 * k].flatten(2), per_sample[2 * k + 1].unsqueeze(2)], dim=2)
        factors = (0.2 / layer.flatten(1).norm(dim=1)).clamp(max=1.0).reshape(-1, 1, 1)
        assert torch.allclose(ours, (factors * layer).sum(dim=0), rtol=1e-4, atol=1e-5)


@each_network
@pytest.mark.parametrize("hidden", ACTIVATIONS)
@pytest.mark.parametrize("loss_name", LOSSES)
def test_every_examples_parts_are_its_gradient_by_autograd_alone(make, hidden, loss_name):
    problem = make(hidden=hidden, loss_name=loss_name, rows=6)
    step = Step(problem.network, problem.loss, FixedPrediction(), Gradients(), Unbounded())
    parts = step.unbounded(problem.x, problem.y)
    plain = problem.network.plain()
    parameters = list(plain.parameters())
    for n in range(6):
        u = plain(problem.x[n : n + 1])
        value = problem.loss.weight * problem.loss.value(u, problem.y[n : n + 1])[0]
        gradients = torch.autograd.grad(value, parameters)
        for k, part in enumerate(parts):
            left, right = part.left[n], part.right[n]
            ours = torch.outer(left, with_one(right)) if isinstance(part, OuterPart) else left.T @ right
            theirs = torch.cat([gradients[2 * k].flatten(1), gradients[2 * k + 1][:, None]], dim=1)
            assert torch.allclose(ours, theirs, rtol=1e-7, atol=1e-10)
            assert float(part.norms()[n]) == pytest.approx(float(theirs.norm()), rel=1e-7, abs=1e-10)


@each_network
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_without_noise_or_clipping_it_is_plain_training(make, optimizer):
    problem = make(rows=30)
    plan = Plan(30, 30, 20, 0.0, 1e-5)
    more = {"wstep": OptimizerStep(0.02, optimizer), "source": SeededNoise(0)}
    ours = Trainer.dp_sgd(problem.network, problem.loss, plan, JointClip(1e6), **more).fit(problem.x, problem.y).model
    theirs = problem.network.plain()
    plain = optimizer(theirs.parameters(), lr=0.02)
    for _ in range(20):
        plain.zero_grad()
        problem.loss.value(theirs(problem.x), problem.y).mean().backward()
        plain.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-4)


@each_network
def test_a_step_of_the_trainer_moves_by_the_clipped_mean(make):
    problem = make(rows=30)
    plan, wstep = Plan(30, 30, 1, 0.0, 1e-5), OptimizerStep(1.0, torch.optim.SGD)
    trainer = Trainer.dp_sgd(problem.network, problem.loss, plan, JointClip(2.0), wstep=wstep, source=SeededNoise(0))
    after = trainer.fit(problem.x, problem.y).model
    theirs, _ = opacus_sums(problem, 2.0)
    for old, new, clipped in zip(problem.network.parameters(), after.parameters(), theirs, strict=True):
        assert torch.allclose(old - new, clipped / 30, atol=1e-4)


@each_network
def test_it_goes_through_the_same_door(make):
    problem = make(rows=40)
    plan = Plan(40, 10, 5, 1.3, 1e-5)
    trainer = Trainer.dp_sgd(problem.network, problem.loss, plan, JointClip(0.5), source=SeededNoise(0))
    run = trainer.fit(problem.x, problem.y)
    assert run.ledger.mechanisms() == plan.mechanisms()
    assert set(run.ledger.entries[0].scales.values()) == {0.5}
    again = Trainer.dp_sgd(problem.network, problem.loss, plan, Normalise(), source=SeededNoise(0))
    assert again.fit(problem.x, problem.y).ledger.mechanisms() == plan.mechanisms()
