"""Parts against matrices built one example at a time. (Parts over positions: test_positions.py.)"""

from __future__ import annotations

import math

import pytest
import torch

from dpmac.nets.layers import with_one
from dpmac.privacy import DensePart, GramPart, OuterPart, PerLayerClip
from dpmac.randomness import SeededNoise

PARTS = {
    "outer": lambda d: OuterPart(d.normal((7, 3)), d.normal((7, 4))),
    "bias": lambda d: OuterPart(d.normal((7, 3)), d.normal((7, 4)), one=True),
    "dense": lambda d: DensePart(d.normal((7, 2, 3))),
    "gram": lambda d: GramPart(d.normal((7, 3)), d.normal((7, 5))),
}


FIELDS = {"outer": ("left", "right"), "bias": ("left", "right"), "dense": ("values",), "gram": ("weights", "inputs")}


def shares(part):
    """Every example's share, built: what the package never does."""
    if isinstance(part, OuterPart):
        return torch.einsum("ni,nj->nij", part.left, with_one(part.right) if part.one else part.right)
    if isinstance(part, GramPart):
        return torch.einsum("nj,ni,nk->njik", part.weights, part.inputs, part.inputs)
    return part.values


@pytest.mark.parametrize("kind", PARTS)
def test_shapes_norms_scaling_and_sums_are_those_of_the_shares(kind):
    part = PARTS[kind](SeededNoise(4))
    each = shares(part)
    assert (part.rows, part.shape) == (7, tuple(each.shape[1:]))
    assert torch.allclose(part.norms(), each.flatten(1).norm(dim=1), rtol=1e-12)
    assert torch.allclose(part.total(), each.sum(dim=0), atol=1e-12)
    factors = torch.linspace(0, 2, 7, dtype=torch.float64)
    scaled = factors.reshape(-1, *[1] * (each.dim() - 1)) * each
    assert torch.allclose(part.scaled(factors).total(), scaled.sum(dim=0), atol=1e-12)
    assert torch.allclose(part.scaled(factors).norms(), scaled.flatten(1).norm(dim=1), rtol=1e-12)


@pytest.mark.parametrize("kind", PARTS)
def test_norms_are_the_callers_own_and_can_be_written_into(kind):
    """Bounds do: neither what the part says afterwards nor its sum may change."""
    part = PARTS[kind](SeededNoise(4))
    norms, total = part.norms().clone(), part.total()
    for made in (part, part.scaled(torch.ones(7, dtype=torch.float64))):
        made.norms().zero_()
        assert torch.equal(made.norms(), norms)
        assert torch.equal(made.total(), total)


def test_a_gram_sum_is_exactly_symmetric():
    total = PARTS["gram"](SeededNoise(4)).total()
    assert torch.equal(total, total.transpose(1, 2))


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_factor_of_zero_gives_exactly_zero_even_for_a_share_that_is_not_finite(kind, bad):
    for field in FIELDS[kind]:
        part = PARTS[kind](SeededNoise(4))
        getattr(part, field)[2, 1] = bad
        assert not bool(torch.isfinite(part.norms()[2]))
        blanked = part.scaled((torch.arange(7) != 2).double())
        assert float(blanked.norms()[2]) == 0.0
        clean = PARTS[kind](SeededNoise(4)).scaled((torch.arange(7) != 2).double())
        assert torch.equal(blanked.total(), clean.total())
        (bounded,) = PerLayerClip(1.0).apply([part])
        assert torch.isfinite(bounded.total()).all()


def test_squares_that_underflow_or_overflow_do_not_fool_the_norm():
    """Found in review: ten times the bound got through when the squares of one factor underflowed."""
    tiny = torch.full((1, 10_000), 1e-162, dtype=torch.float64)
    huge = torch.full((1, 1), 1e153, dtype=torch.float64)
    for part in (OuterPart(tiny, huge), OuterPart(huge, tiny)):
        assert float(part.norms()) == pytest.approx(1e-160 * 1e153, rel=1e-9)
    (bounded,) = PerLayerClip(1e-8).apply([OuterPart(tiny, huge)])
    assert float(bounded.total().norm()) <= 1e-8
    assert float(DensePart(torch.full((1, 3), 1e200, dtype=torch.float64)).norms()) == pytest.approx(3**0.5 * 1e200)
    assert float(DensePart(torch.tensor([[3, 4]])).norms()) == 5.0  # whole numbers too


def test_norms_and_sums_of_single_precision_factors_are_made_in_double():
    """A sum in single precision would lose the small rows beside the large one. (Outer products: test_single_sums.)"""
    left, right = torch.full((1001, 1), 1e-4), torch.full((1001, 2), 1e-4)
    left[0], right[0] = 1.0, 1.0
    for part in (GramPart(left, right), DensePart(left * right)):
        assert not part.single
        assert part.norms().dtype == part.total().dtype == torch.float64
        exact = shares(type(part)(*(value.double() for value in vars(part).values())))
        assert torch.allclose(part.total(), exact.sum(dim=0), rtol=1e-12)
        assert torch.allclose(part.norms(), exact.flatten(1).norm(dim=1), rtol=1e-12)


def test_a_product_of_norms_does_not_underflow_on_the_way():
    """Found in review: one factor's norm, or its square, was lost below 1e-308 while the other's was huge."""
    one = torch.ones(1, 1, dtype=torch.float64)
    tiny, huge = torch.full((1, 2), 5e-324, dtype=torch.float64), 1.7e308 * one
    assert float(GramPart(huge, 1.5e-162 * one).norms()) == pytest.approx(1.7e308 * 1.5e-162 * 1.5e-162, rel=1e-9)
    assert float(OuterPart(tiny, huge).norms()) == pytest.approx(5e-324 * 1.7e308 * 2**0.5, rel=1e-9)
