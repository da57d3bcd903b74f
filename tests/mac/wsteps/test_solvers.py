"""W-steps that solve the released polynomial."""

from __future__ import annotations

import pytest
import torch

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import ConjugateGradient, Polynomial, RidgeSolve, cosine
from dpmac.mac.wsteps.solvers import conjugate_gradients
from mac.bowls import bowl


@pytest.mark.parametrize("shared", [False, True])
def test_conjugate_gradients_reach_the_ridge_solution(shared):
    for polynomial in bowl(make_problem(), shared=shared):
        exact = polynomial.minimum(0.5)
        assert torch.allclose(conjugate_gradients(polynomial, 60, 0.5), exact, atol=1e-5)
        few = conjugate_gradients(polynomial, 2, 0.5)
        assert polynomial.change(exact) <= polynomial.change(few) + 1e-9


@pytest.mark.parametrize(
    "wstep", [RidgeSolve(0.1), ConjugateGradient(40, 0.1), ConjugateGradient(40, 0.1, 1.0, cosine)]
)
def test_solvers_move_the_network(wstep):
    problem = make_problem()
    polynomials = bowl(problem)
    updater = wstep.start(problem.network, 1)
    assert (updater.lr, updater.model) == (1.0, problem.network)
    updater.apply(polynomials)
    for layer, polynomial in zip(problem.network.weight_layers, polynomials, strict=True):
        assert torch.allclose(layer.matrix(), polynomial.minimum(0.1), atol=1e-4)
    assert updater.lr == (0.0 if wstep.schedule is cosine else 1.0)


def test_a_rate_goes_part_of_the_way():
    problem = make_problem()
    start = [layer.matrix() for layer in problem.network.weight_layers]
    polynomials = bowl(problem)
    updater = RidgeSolve(0.1, rate=0.5).start(problem.network, 4)
    assert updater.lr == 0.5
    updater.apply(polynomials)
    for layer, old, polynomial in zip(problem.network.weight_layers, start, polynomials, strict=True):
        assert torch.allclose(layer.matrix(), (old + polynomial.minimum(0.1)) / 2)


def test_a_line_search_halves_the_step_until_the_released_objective_has_fallen():
    """At a curvature that is not convex the whole step would climb; with a constant it is seen and cut short."""
    problem = make_problem()
    good = bowl(problem)
    ConjugateGradient(40, 0.1, line_search=True).start(problem.network, 1).apply(good)
    for layer, polynomial in zip(problem.network.weight_layers, good, strict=True):
        assert torch.allclose(layer.matrix(), polynomial.minimum(0.1), atol=1e-4)
    misled = make_problem((3, 2))
    (raw,) = bowl(misled)
    steep = Polynomial(raw.centre, raw.slope, 50 * raw.curvature, raw.constant)
    step = ConjugateGradient(1, 0.0, line_search=True)
    move = 8 * (conjugate_gradients(steep, 3, 0.0) - steep.centre)
    assert steep.value(steep.centre + move) > steep.value(steep.centre)
    found = step._solve(Steps(steep, move))
    assert steep.value(found) <= steep.value(steep.centre)
    assert not torch.equal(found, steep.centre)


class Steps(Polynomial):
    """A polynomial on which one iteration of conjugate gradients goes where it is told."""

    def __init__(self, of, move):
        super().__init__(of.centre, -move, torch.eye(move.shape[1], dtype=torch.float64).expand(1, -1, -1), of.constant)
        object.__setattr__(self, "of", of)

    def value(self, weights):
        return self.of.value(weights)


def test_a_line_search_needs_the_constant():
    problem = make_problem()
    updater = ConjugateGradient(line_search=True).start(problem.network, 1)
    with pytest.raises(ArgumentError, match=r"SecondOrder\(constant=True\)"):
        updater.apply(bowl(problem, constant=False))


def test_solvers_need_a_curvature_and_good_numbers():
    problem = make_problem()
    flat = [Polynomial(p.centre, p.slope) for p in bowl(problem)]
    for wstep in (RidgeSolve(), ConjugateGradient()):
        with pytest.raises(ArgumentError, match="needs a curvature"):
            wstep.start(problem.network, 1).apply(flat)
    for bad, name in (
        (lambda: RidgeSolve(0.0), "ridge"),
        (lambda: RidgeSolve(rate=1.5), "rate"),
        (lambda: ConjugateGradient(0), "iterations"),
        (lambda: ConjugateGradient(ridge=-1.0), "ridge"),
    ):
        with pytest.raises(ArgumentError, match=f"{name}="):
            bad()
