"""Order 2 through the trainer: exact where it can be, refused where it takes too much, and paid for like the rest."""

from __future__ import annotations

import pytest
import torch

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import ConjugateGradient, FixedPrediction, OptimizerStep, RidgeSolve, SecondOrder
from dpmac.nets import DenseNetwork, loss
from dpmac.privacy import AdaptiveQuantile, JointClip, LeastEnergy, Ledger, Normalise, PerLayerClip, Plan, Unbounded
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer


def mean_loss(problem, network):
    with torch.no_grad():
        return float(problem.loss.weight * problem.loss.value(network(problem.x), problem.y).mean())


def trainer_for(problem, *, steps=3, sigma=0.0, bound=None, batch=None, **more):
    n = len(problem.x)
    plan = Plan(n, batch or n, steps, sigma, 1e-5)
    bound = bound or (Normalise() if sigma else Unbounded())
    return Trainer(problem.network, problem.loss, plan, FixedPrediction(), bound, source=SeededNoise(0), **more)


def test_a_linear_squared_error_layer_is_solved_by_one_exact_release():
    """Order 2 is exact there: one release and one solve give the least-squares solution, for either curvature."""
    problem = make_problem((5, 3), loss_name="squared", rows=60)
    x = torch.cat([problem.x, torch.ones(60, 1, dtype=torch.float64)], dim=1)
    exact = torch.linalg.lstsq(x, problem.y).solution
    best = float(0.5 * (x @ exact - problem.y).square().sum(dim=1).mean())
    for shared in (False, True):
        for wstep in (RidgeSolve(1e-10), ConjugateGradient(20, 0.0)):
            trainer = trainer_for(problem, steps=1, expansion=SecondOrder(shared=shared), wstep=wstep)
            assert mean_loss(problem, trainer.fit(problem.x, problem.y).model) == pytest.approx(best, rel=1e-6)


def taught(rows):
    """A problem with something to learn: the targets are a smaller network's."""
    problem = make_problem((5, 12, 3), rows=rows)
    with torch.no_grad():
        u = make_problem((5, 3, 3), seed=9).network(problem.x)
    problem.y = torch.eye(3, dtype=torch.float64)[u.argmax(dim=1)]
    return problem


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("wstep", [RidgeSolve(0.1, rate=0.5), ConjugateGradient(15, 0.1, 0.5), OptimizerStep(0.02)])
def test_order_two_trains_a_network_without_noise(shared, wstep):
    problem = taught(80)
    run = trainer_for(problem, steps=60, expansion=SecondOrder(shared=shared), wstep=wstep).fit(problem.x, problem.y)
    assert mean_loss(problem, run.model) < 0.2 * mean_loss(problem, problem.network)


@pytest.mark.parametrize(
    "bound",
    [PerLayerClip(1.0), PerLayerClip((1.0, 2.0, 0.5, 1.0)), JointClip(2.0), Normalise(), AdaptiveQuantile(1.0),
     PerLayerClip(1.0, LeastEnergy())],
)  # fmt: skip
def test_order_two_with_noise_goes_through_the_same_door(bound):
    problem = make_problem((5, 6, 3), rows=200)
    trainer = trainer_for(
        problem, steps=5, sigma=2.0, batch=50, bound=bound, expansion=SecondOrder(), wstep=RidgeSolve(0.5, 0.3)
    )
    run = trainer.fit(problem.x, problem.y)
    assert run.ledger.mechanisms() == trainer.plan.mechanisms()
    names = set(run.ledger.entries[0].scales)
    assert {"layer 1 slope", "layer 1 curvature", "layer 2 slope", "layer 2 curvature"} <= names
    assert all(torch.isfinite(p).all() for p in run.model.parameters())


def test_a_bound_that_learns_is_asked_for_the_next_one_at_every_step():
    problem = make_problem((5, 6, 3), rows=200)
    bound = AdaptiveQuantile(10.0, quantile=0.2)
    run = trainer_for(problem, steps=6, sigma=0.5, batch=100, bound=bound).fit(problem.x, problem.y)
    thresholds = [entry.scales["layer 1"] for entry in run.ledger.entries]
    assert len(set(thresholds)) == 6
    assert thresholds[-1] < thresholds[0]


def test_a_line_search_is_paid_for():
    problem = make_problem((5, 6, 3), rows=50)
    search = ConjugateGradient(10, 0.1, line_search=True)
    with pytest.raises(ArgumentError, match="constant=True"):
        trainer_for(problem, expansion=SecondOrder(), wstep=search).fit(problem.x, problem.y)
    paid = trainer_for(problem, sigma=1.0, expansion=SecondOrder(constant=True), wstep=search)
    assert "layer 2 constant" in paid.fit(problem.x, problem.y).ledger.entries[0].scales


def test_brute_force_neighbours_of_an_order_two_release():
    """Drop each row: the scaled concatenation of slopes and curvatures moves by at most 1."""
    problem = make_problem((4, 5, 3), rows=10)
    expansion = SecondOrder(constant=True)
    asked = expansion.partitions(problem.network, problem.loss)
    coordinates = FixedPrediction().solve(problem.network, problem.loss, 5 * problem.x, problem.y)
    parts = expansion.parts(problem.network, problem.loss, coordinates)
    for bound in (PerLayerClip(0.5), JointClip(0.7), Normalise(), PerLayerClip(0.3, LeastEnergy())):
        scales = [p.scale for p in bound.promise(asked)]
        bounded = bound.apply(parts)

        def total(keep, bounded=bounded, scales=scales):
            sums = [p.scaled(keep.double()).total().flatten() / s for p, s in zip(bounded, scales, strict=True)]
            return torch.cat(sums)

        everyone = torch.ones(10, dtype=torch.bool)
        moves = []
        for row in range(10):
            others = everyone.clone()
            others[row] = False
            moves.append(float((total(everyone) - total(others)).norm()))
        assert max(moves) <= 1.0
        assert max(moves) > 0.3


def test_wide_layers_are_refused_politely_before_anything_is_spent():
    network = DenseNetwork([600, 800, 10], "relu", source=SeededNoise(0))
    x, y = torch.rand(20, 600), torch.eye(10)[torch.arange(20) % 10]
    ledger = Ledger()
    trainer = Trainer(
        network, loss("softmax"), Plan(20, 10, 2, 1.0, 1e-5), FixedPrediction(), Normalise(), expansion=SecondOrder()
    )
    with pytest.raises(ArgumentError, match=r"layer 1='600 -> 800'.*MiB"):
        trainer.fit(x, y, ledger)
    assert len(ledger) == 0
