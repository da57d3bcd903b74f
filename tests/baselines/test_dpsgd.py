"""DP-SGD in our engine against Opacus, on the same batch and weights."""

from __future__ import annotations

import warnings

import pytest
import torch

from conftest import make_problem
from dpmac.baselines import Gradients, dp_sgd
from dpmac.mac import FixedPrediction, OptimizerStep
from dpmac.privacy import JointClip, Normalise, PerLayerClip, Plan, SeededNoise

LOSSES = ["softmax", "sigmoid", "squared"]


def our_sums(problem, bound):
    coordinates = FixedPrediction().solve(problem.network, problem.loss, problem.x, problem.y)
    return [p.total() for p in bound.apply(Gradients().parts(problem.network, problem.loss, coordinates))]


def opacus_sums(problem, threshold, per_layer):
    """Opacus's clipped sums: its own hooks, its own per-sample gradients, its own clipping."""
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


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("threshold", [0.05, 0.5, 50.0])
def test_flat_clipped_sums_equal_opacus(loss_name, threshold):
    problem = make_problem((5, 7, 6, 4), "tanh", loss_name, rows=25)
    theirs, per_sample = opacus_sums(problem, threshold, per_layer=False)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample]).norm(dim=0)
    assert threshold == 50.0 or (norms > threshold).any()
    for k, ours in enumerate(our_sums(problem, JointClip(threshold))):
        assert torch.allclose(ours[:, :-1], theirs[2 * k], rtol=1e-4, atol=1e-5)
        assert torch.allclose(ours[:, -1], theirs[2 * k + 1], rtol=1e-4, atol=1e-5)


def test_our_layers_clip_weight_and_bias_together():
    """Opacus's per-layer optimiser clips every parameter by itself; ours clips a layer. Built from its gradients."""
    problem = make_problem((5, 7, 4), "relu", "softmax", rows=25)
    _, per_sample = opacus_sums(problem, 0.2, per_layer=True)
    for k, ours in enumerate(our_sums(problem, PerLayerClip(0.2))):
        layer = torch.cat([per_sample[2 * k], per_sample[2 * k + 1].unsqueeze(2)], dim=2)
        factors = (0.2 / layer.flatten(1).norm(dim=1)).clamp(max=1.0).reshape(-1, 1, 1)
        assert torch.allclose(ours, (factors * layer).sum(dim=0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_without_noise_or_clipping_it_is_plain_training(optimizer):
    problem = make_problem((5, 7, 4), "tanh", "softmax", rows=30)
    plan = Plan(30, 30, 20, 0.0, 1e-5)
    trainer = dp_sgd(
        problem.network, problem.loss, plan, JointClip(1e6), wstep=OptimizerStep(0.05, optimizer), source=SeededNoise(0)
    )
    ours = trainer.fit(problem.x, problem.y).model
    theirs = problem.network.plain()
    plain = optimizer(theirs.parameters(), lr=0.05)
    for _ in range(20):
        plain.zero_grad()
        problem.loss.value(theirs(problem.x), problem.y).mean().backward()
        plain.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-4)


def test_it_goes_through_the_same_door():
    problem = make_problem(rows=40)
    plan = Plan(40, 10, 5, 1.3, 1e-5)
    run = dp_sgd(problem.network, problem.loss, plan, JointClip(0.5), source=SeededNoise(0)).fit(problem.x, problem.y)
    assert run.ledger.mechanisms() == plan.mechanisms()
    assert set(run.ledger.entries[0].scales.values()) == {0.5}
    dp_sgd(problem.network, problem.loss, plan, Normalise(), source=SeededNoise(0)).fit(problem.x, problem.y)
