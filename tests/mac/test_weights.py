"""W-steps: released gradients reach a plain torch optimiser and its schedule."""

from __future__ import annotations

import copy

import pytest
import torch

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import Averaged, ConjugateGradient, OptimizerStep, Polynomial, RidgeSolve, StepDecay, cosine
from dpmac.mac.expansion import weights_of
from dpmac.mac.layers import layers_of
from dpmac.privacy import SeededNoise


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.AdamW])
def test_it_does_what_the_torch_optimiser_does(optimizer):
    problem = make_problem()
    twin = copy.deepcopy(problem.network)
    updater = OptimizerStep(lr=0.1, optimizer=optimizer).start(problem.network, steps=3)
    plain = optimizer(twin.parameters(), lr=0.1)
    draw = SeededNoise(0)
    for _ in range(3):
        gradients = [draw.normal((lin.out_features, lin.in_features + 1)) for lin in twin.linears]
        updater.apply([Polynomial(0 * g, g) for g in gradients])
        for linear, gradient in zip(twin.linears, gradients, strict=True):
            linear.weight.grad, linear.bias.grad = gradient[:, :-1].clone(), gradient[:, -1].clone()
        plain.step()
    for ours, theirs in zip(problem.network.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def rates(schedule, steps):
    problem = make_problem()
    updater = OptimizerStep(lr=0.5, optimizer=torch.optim.SGD, schedule=schedule).start(problem.network, steps)
    zero = [torch.zeros(lin.out_features, lin.in_features + 1) for lin in problem.network.linears]
    seen = []
    for _ in range(steps):
        seen.append(updater.lr)
        updater.apply([Polynomial(z, z) for z in zero])
    return seen


def test_schedules_are_followed():
    assert rates(lambda done: 1.0, 4) == [0.5] * 4
    assert rates(StepDecay(0.5, 3), 6) == pytest.approx([0.5, 0.5, 0.25, 0.25, 0.125, 0.125])
    falling = rates(cosine, 10)
    assert falling == sorted(falling, reverse=True)
    assert falling[5] == pytest.approx(0.25)


def test_options_reach_the_optimiser():
    problem = make_problem()
    step = OptimizerStep(lr=0.1, optimizer=torch.optim.SGD, options={"momentum": 0.9})
    assert step.start(problem.network, 1).optimizer.param_groups[0]["momentum"] == 0.9
    with pytest.raises(ArgumentError, match="lr=0"):
        OptimizerStep(lr=0)


def bowl(problem, seed=0, shared=False, constant=True):
    """A random convex polynomial for every layer, at the network's weights."""
    draw = SeededNoise(seed)
    polynomials = []
    for layer in layers_of(problem.network, problem.loss):
        centre = weights_of(layer)
        units, d = centre.shape
        root = draw.normal((1 if shared else units, d, d))
        a = draw.normal(()) if constant else None
        polynomials.append(Polynomial(centre, draw.normal((units, d)), root @ root.transpose(1, 2), a))
    return polynomials


def test_polynomial_derivatives_equal_autograd():
    for polynomial in bowl(make_problem()):
        weights = (polynomial.centre + 0.3).requires_grad_()
        (gradient,) = torch.autograd.grad(polynomial.value(weights), weights)
        assert torch.allclose(gradient, polynomial.gradient(weights.detach()), atol=1e-10)
        b, C = polynomial.coefficients()
        w, w0 = weights.detach(), polynomial.centre

        def paper(v, b=b, C=C):  # b^T w + w^T C w, without a
            return (b * v).sum() + torch.einsum("hi,hij,hj->", v, C.expand(len(v), -1, -1), v)

        assert torch.allclose(paper(w) - paper(w0), polynomial.change(w), atol=1e-9)


def test_flooring_projects_to_the_nearest_semi_definite_matrix():
    noise = SeededNoise(1).normal((3, 5, 5))
    raw = Polynomial(torch.zeros(3, 5).double(), torch.ones(3, 5).double(), noise + noise.transpose(1, 2))
    for floor in (0.0, 0.7):
        values = torch.linalg.eigvalsh(raw.floored(floor).curvature)
        assert values.min() >= floor - 1e-9
        clipped = torch.linalg.eigvalsh(raw.curvature).clamp(min=floor)
        assert torch.allclose(values, clipped.sort(dim=1).values, atol=1e-9)
    assert raw.floored(0.0).curvature.shape == (3, 5, 5)


@pytest.mark.parametrize("shared", [False, True])
def test_the_ridge_solve_is_the_minimum(shared):
    problem = make_problem()
    for polynomial in bowl(problem, shared=shared):
        found = polynomial.minimum(0.1)
        slope = polynomial.gradient(found) + 0.1 * (found - polynomial.centre)
        assert slope.abs().max() < 1e-7


@pytest.mark.parametrize("shared", [False, True])
def test_conjugate_gradients_reach_the_ridge_solution(shared):
    from dpmac.mac.weights import conjugate_gradients

    for polynomial in bowl(make_problem(), shared=shared):
        exact = polynomial.minimum(0.5)
        assert torch.allclose(conjugate_gradients(polynomial, 60, 0.5), exact, atol=1e-5)
        few = conjugate_gradients(polynomial, 2, 0.5)
        assert polynomial.change(exact) <= polynomial.change(few) + 1e-9


def test_torch_optimisers_descend_the_released_polynomial_as_often_as_wanted():
    """Many inner steps of Adam on one order-2 release come to the closed-form minimum: no further privacy spent."""
    problem = make_problem((3, 2))
    polynomials = [p.floored(0.5) for p in bowl(problem)]
    OptimizerStep(lr=0.05, inner_steps=4000).start(problem.network, 1).apply(polynomials)
    exact = polynomials[0].minimum(1e-9)
    reached = weights_of(layers_of(problem.network, problem.loss)[0])
    assert polynomials[0].change(reached) - polynomials[0].change(exact) < 1e-3 * abs(polynomials[0].change(exact))


SOLVERS = [RidgeSolve(0.1), ConjugateGradient(40, 0.1), ConjugateGradient(40, 0.1, line_search=True)]


@pytest.mark.parametrize("wstep", SOLVERS)
def test_solvers_move_the_network(wstep):
    problem = make_problem()
    polynomials = bowl(problem)
    wstep.start(problem.network, 1).apply(polynomials)
    for layer, polynomial in zip(layers_of(problem.network, problem.loss), polynomials, strict=True):
        assert torch.allclose(weights_of(layer), polynomial.minimum(0.1), atol=1e-4)
    halfway = RidgeSolve(0.1, rate=0.5).start(problem.network, 1)
    assert halfway.lr == 0.5


def test_a_line_search_needs_the_constant():
    problem = make_problem()
    updater = ConjugateGradient(line_search=True).start(problem.network, 1)
    with pytest.raises(ArgumentError, match=r"SecondOrder\(constant=True\)"):
        updater.apply(bowl(problem, constant=False))


def test_solvers_need_a_curvature():
    problem = make_problem()
    flat = [Polynomial(p.centre, p.slope) for p in bowl(problem)]
    for wstep in (RidgeSolve(), ConjugateGradient()):
        with pytest.raises(ArgumentError, match="needs a curvature"):
            wstep.start(problem.network, 1).apply(flat)
    for bad, name in ((lambda: RidgeSolve(0.0), "ridge"), (lambda: ConjugateGradient(0), "iterations")):
        with pytest.raises(ArgumentError, match=name):
            bad()
    with pytest.raises(ArgumentError, match="inner_steps=0"):
        OptimizerStep(inner_steps=0)


def test_the_average_follows_the_weights_and_leaves_training_alone():
    problem, twin = make_problem(), make_problem()
    averaged = Averaged(OptimizerStep(0.1), decay=0.9).start(problem.network, 60)
    plain = OptimizerStep(0.1).start(twin.network, 60)
    draw = SeededNoise(0)
    mean = [p.detach().clone() for p in problem.network.parameters()]
    for step in range(1, 61):
        polynomials = [
            Polynomial(0 * c, draw.normal(c.shape)) for c in map(weights_of, layers_of(twin.network, twin.loss))
        ]
        averaged.apply(polynomials)
        plain.apply(polynomials)
        decay = min(0.9, step / (10 + step))
        mean = [decay * m + (1 - decay) * p.detach() for m, p in zip(mean, twin.network.parameters(), strict=True)]
        assert averaged.lr == plain.lr
    for ours, theirs in zip(problem.network.parameters(), twin.network.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for ours, wanted in zip(averaged.model.parameters(), mean, strict=True):
        assert torch.allclose(ours, wanted)
    with pytest.raises(ArgumentError, match="decay"):
        Averaged(OptimizerStep(), 1.0)
