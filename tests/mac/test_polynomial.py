"""What a release becomes: its value, slope, shape and minimum, in public numbers only."""

from __future__ import annotations

import pytest
import torch

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import Polynomial
from dpmac.randomness import SeededNoise
from mac.bowls import bowl


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


def test_at_order_one_it_is_a_plane():
    flat = Polynomial(torch.ones(2, 3).double(), torch.full((2, 3), 2.0).double())
    assert float(flat.change(flat.centre + 1)) == 12.0
    assert torch.equal(flat.gradient(flat.centre + 1), flat.slope)
    b, C = flat.coefficients()
    assert torch.equal(b, flat.slope)
    assert not C.any()
    assert C.shape == (1, 3, 3)
    assert flat.floored(1.0) is flat
    assert torch.equal(flat.minimum(4.0), flat.centre - 0.5)


def test_no_value_is_given_that_was_not_released():
    with pytest.raises(ArgumentError, match=r"line search='no constant': .*SecondOrder\(constant=True\)"):
        bowl(make_problem(), constant=False)[0].value(torch.zeros(7, 6))


def test_flooring_projects_to_the_nearest_semi_definite_matrix():
    noise = SeededNoise(1).normal((3, 5, 5))
    raw = Polynomial(torch.zeros(3, 5).double(), torch.ones(3, 5).double(), noise + noise.transpose(1, 2))
    for floor in (0.0, 0.7):
        values = torch.linalg.eigvalsh(raw.floored(floor).curvature)
        assert values.min() >= floor - 1e-9
        clipped = torch.linalg.eigvalsh(raw.curvature).clamp(min=floor)
        assert torch.allclose(values, clipped.sort(dim=1).values, atol=1e-9)
    assert raw.floored(0.0).curvature.shape == (3, 5, 5)
    with pytest.raises(ArgumentError, match="floor=-1"):
        raw.floored(-1.0)


@pytest.mark.parametrize("shared", [False, True])
def test_the_ridge_solve_is_the_minimum(shared):
    for polynomial in bowl(make_problem(), shared=shared):
        found = polynomial.minimum(0.1)
        slope = polynomial.gradient(found) + 0.1 * (found - polynomial.centre)
        assert slope.abs().max() < 1e-7
