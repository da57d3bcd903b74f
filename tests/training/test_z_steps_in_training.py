"""Plain MAC without privacy is as good as back-propagation, and every Z-step trains with it."""

from __future__ import annotations

import copy

import pytest
import torch

from conftest import make_images, make_problem
from dpmac.mac import Z_STEPS, AdamCoordinates, ErrorCoordinates, GaussNewton, OptimizerStep, cosine
from dpmac.privacy import Normalise, Plan, Unbounded
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer


def mean_loss(problem, network):
    with torch.no_grad():
        return float(problem.loss.weight * problem.loss.value(network(problem.x), problem.y).mean())


def taught(sizes, loss_name, rows):
    """A problem with something to learn: the targets are a smaller network's."""
    problem = make_problem(sizes, "tanh", loss_name, rows=rows)
    with torch.no_grad():
        u = make_problem((sizes[0], 3, sizes[-1]), "tanh", loss_name, seed=9).network(problem.x)
    problem.y = u if loss_name == "squared" else torch.eye(sizes[-1], dtype=torch.float64)[u.argmax(dim=1)]
    return problem


@pytest.mark.long
def test_full_batch_mac_reaches_back_propagations_loss():
    """The same small regression by MAC, its penalty solved well, and by torch's own back-propagation."""
    problem = taught((4, 8, 2), "squared", 60)
    twin = copy.deepcopy(problem.network)
    adam = torch.optim.Adam(twin.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: cosine(step / 400))
    for _ in range(400):
        adam.zero_grad()
        (0.5 * problem.loss.value(twin(problem.x), problem.y).mean()).backward()
        adam.step()
        schedule.step()
    zstep = AdamCoordinates(steps=30, lr=0.008, mu=100.0, optimizer=torch.optim.SGD)
    step = OptimizerStep(0.02, schedule=cosine)
    plan = Plan(60, 60, 400, 0.0, 1e-5)
    trainer = Trainer(problem.network, problem.loss, plan, zstep, Unbounded(), step, SeededNoise(0))
    run = trainer.fit(problem.x, problem.y)
    reached, wanted = mean_loss(problem, run.model), mean_loss(problem, twin)
    assert wanted < 0.01 * mean_loss(problem, problem.network)
    assert reached < 1.05 * wanted
    assert "NOT PRIVATE" in str(run.statement())


@pytest.mark.parametrize("zstep", [ErrorCoordinates(), GaussNewton()])
def test_z_steps_that_reach_every_layer_train_privately(zstep):
    problem = taught((5, 12, 3), "softmax", 300)
    plan = Plan(300, 100, 30, 0.5, 1e-5)
    trainer = Trainer(problem.network, problem.loss, plan, zstep, Normalise(), OptimizerStep(0.03), SeededNoise(0))
    run = trainer.fit(problem.x, problem.y)
    assert mean_loss(problem, run.model) < 0.8 * mean_loss(problem, problem.network)
    assert run.ledger.mechanisms() == plan.mechanisms()


@pytest.mark.parametrize("name", Z_STEPS)
def test_every_z_step_trains_a_convolutional_network(name):
    problem = make_images(rows=30)
    plan = Plan(30, 30, 25, 0.02, 1e-5)
    trainer = Trainer(
        problem.network, problem.loss, plan, Z_STEPS[name], Normalise(), OptimizerStep(0.05), SeededNoise(0)
    )
    run = trainer.fit(problem.x, problem.y)
    assert mean_loss(problem, run.model) < 0.6 * mean_loss(problem, problem.network)
    assert run.ledger.mechanisms() == plan.mechanisms()
