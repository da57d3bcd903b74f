"""The paper's analytic route through the trainer: no clipping, projected coordinates, proven sensitivities."""

from __future__ import annotations

import pytest
import torch

from conftest import make_problem
from dpmac.analytic import Projected
from dpmac.checks import ArgumentError
from dpmac.mac import AdamCoordinates, ConjugateGradient, FixedPrediction, SecondOrder
from dpmac.privacy import Analytic, Plan
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer


def trainer_for(problem, steps, **more):
    plan = Plan(len(problem.x), len(problem.x) // 2, steps, 3.0, 1e-5)
    return Trainer(problem.network, problem.loss, plan, FixedPrediction(), Analytic(), source=SeededNoise(0), **more)


@pytest.mark.parametrize("hidden", ["softplus", "tanh", "relu", "gelu"])
@pytest.mark.parametrize("loss_name", ["squared", "sigmoid", "softmax"])
def test_it_keeps_its_promise_through_training(hidden, loss_name):
    """No clipping at all: were a proven sensitivity too small, the release would refuse. Outrageous rows included."""
    problem = make_problem((4, 5, 3), hidden, loss_name, rows=60)
    problem.x[0] *= 1e6
    problem.x[1] = 0.0
    search = ConjugateGradient(5, 1.0, 0.3, line_search=True)
    trainer = trainer_for(problem, 3, expansion=Projected(1.0, constant=True), wstep=search)
    run = trainer.fit(problem.x, problem.y)
    assert run.ledger.mechanisms() == trainer.plan.mechanisms()
    first, last = run.ledger.entries[0].scales, run.ledger.entries[-1].scales
    assert {"layer 1 a", "layer 1 b", "layer 1 C", "layer 2 b"} <= set(first)
    assert (first != last) or (hidden == "relu" and loss_name == "squared")  # only there do they not follow the weights


def test_projected_coefficients_equal_the_unprojected_ones_inside_the_ball():
    problem = make_problem((4, 5, 3), "softplus", "squared", rows=9)
    coordinates = FixedPrediction().solve(problem.network, problem.loss, problem.x, problem.y)

    def polynomials(expansion):
        asked = expansion.partitions(problem.network, problem.loss)
        parts = expansion.parts(problem.network, problem.loss, coordinates)
        answer = {p.name: part.total() for p, part in zip(asked, parts, strict=True)}
        return expansion.polynomials(problem.network, problem.loss, answer)

    wide, raw = polynomials(Projected(1e6, constant=True)), polynomials(SecondOrder(constant=True))
    for p, q in zip(wide, raw, strict=True):
        assert torch.allclose(p.slope, q.slope, atol=1e-9)
        assert torch.allclose(p.curvature, q.curvature, atol=1e-9)
        assert torch.allclose(p.constant, q.constant, atol=1e-9)
    norms = Projected(0.5).project(torch.cat([problem.x, 1e200 * problem.x])).norm(dim=1)
    assert norms.max() <= 0.5 + 1e-12


def test_brute_force_neighbours_of_an_analytic_release():
    problem = make_problem((3, 4, 2), "tanh", "squared", rows=8)
    expansion = Projected(0.8, constant=True)
    coordinates = AdamCoordinates(steps=5, lr=0.1).solve(problem.network, problem.loss, 9 * problem.x, 9 * problem.y)
    parts = expansion.parts(problem.network, problem.loss, coordinates)
    scales = [p.scale for p in Analytic().promise(expansion.partitions(problem.network, problem.loss))]
    for row in range(8):
        only = torch.zeros(8, dtype=torch.float64)
        only[row] = 1.0
        share = [p.scaled(only).total().flatten() / s for p, s in zip(parts, scales, strict=True)]
        assert torch.cat(share).norm() <= 1.0


def test_it_needs_an_expansion_that_states_sensitivities():
    problem = make_problem(rows=40)
    with pytest.raises(ArgumentError, match=r"use Projected\(radius\)"):
        trainer_for(problem, 3).fit(problem.x, problem.y)
    with pytest.raises(ArgumentError, match="radius"):
        Projected(0.0)
