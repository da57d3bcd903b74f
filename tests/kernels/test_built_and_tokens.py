"""Built shares and shares of an embedding: what is summed is what was measured, and no row reaches another."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpmac.kernels import tokens as kernel
from dpmac.kernels.built import BuiltPart, built_norms
from dpmac.kernels.chunks import SINGLE_MARGIN
from dpmac.kernels.tokens import TokenPart, token_part
from dpmac.privacy import JointClip, Normalise
from dpmac.randomness import SeededNoise

SHAPES = st.sampled_from([(), (1,), (7,), (3, 5), (2, 3, 4)])


def exact_norms(shares):
    return [math.sqrt(math.fsum(x * x for x in row)) for row in shares.double().flatten(1).tolist()]


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 9), shape=SHAPES, size=st.sampled_from([1e-30, 1.0, 1e12]))
def test_built_norms_are_never_below_and_hardly_above(seed, rows, shape, size):
    for dtype in (torch.float32, torch.float64):
        values = (size * SeededNoise(seed).normal((rows, *shape))).to(dtype)
        found, true = built_norms(values).tolist(), exact_norms(values.reshape(rows, -1))
        for mine, exact in zip(found, true, strict=True):
            assert mine >= exact * (1 if dtype == torch.float32 else 1 - 2.0**-51)
            assert mine <= exact * (1 + 1e-5) + 1e-18


def test_the_margin_of_a_wide_tensor_grows_with_one_unit_s_numbers_only():
    values = torch.ones(1, 1000, 16)
    assert float(built_norms(values)) <= math.sqrt(16_000) * (1 + 40 * 2.0**-24)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e38])
@pytest.mark.parametrize("rows", [5, 300])
def test_a_built_share_that_cannot_be_summed_is_left_out_and_reaches_no_other(bad, rows):
    clean = SeededNoise(1).normal((rows, 4, 3)).float()
    values = clean.clone()
    values[2, 1, 0] = bad
    keep = (torch.arange(rows) != 2).double()
    part = BuiltPart(values)
    assert not math.isfinite(float(part.norms()[2])) or float(part.norms()[2]) > 1e37
    assert torch.equal(part.scaled(keep).total(), BuiltPart(clean).scaled(keep).total())
    assert float(part.scaled(keep).norms()[2]) == 0.0
    for bound in (JointClip(1.0), Normalise()):
        (bounded,) = bound.apply([part])
        assert torch.isfinite(bounded.total()).all()
        assert float(bounded.norms().max()) <= 1.0


def test_single_precision_norms_carry_the_margin_and_double_ones_do_not():
    values = SeededNoise(1).normal((3, 4)).float()
    single, double = BuiltPart(values), BuiltPart(values).doubled()
    assert (single.single, double.single) == (True, False)
    assert torch.allclose(single.norms(), double.norms() * (1 + SINGLE_MARGIN), rtol=1e-5)
    tokens = token_part(torch.zeros(3, 2).long(), values.reshape(3, 2, 2), 5)
    assert torch.allclose(tokens.norms(), tokens.doubled().norms() * (1 + SINGLE_MARGIN), rtol=1e-5)


@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 6),
    places=st.integers(0, 7),
    kinds=st.integers(1, 5),
    memory=st.sampled_from([1, 200, 1 << 26]),
)
def test_shares_of_tokens_are_those_of_a_table_filled_one_by_one(seed, rows, places, kinds, memory):
    draw = SeededNoise(seed)
    tokens = (draw.uniform(rows * places) * kinds).long().reshape(rows, places)
    vectors, factors = draw.normal((rows, places, 3)), draw.uniform(rows) * 2
    table = torch.zeros(rows, 6, 3, dtype=torch.float64)
    for n in range(rows):
        for p in range(places):
            table[n, tokens[n, p]] += vectors[n, p]
    part = token_part(tokens, vectors, 6)
    assert (part.rows, part.shape) == (rows, (6, 3))
    assert torch.allclose(part.explicit(), table, atol=1e-12)
    assert torch.allclose(part.norms(), table.flatten(1).norm(dim=1), atol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "MEMORY", memory)
        scaled = part.scaled(factors)
        assert torch.allclose(scaled.total(), (table * factors[:, None, None]).sum(dim=0), atol=1e-12)
        assert torch.allclose(scaled.explicit(), table * factors[:, None, None], atol=1e-12)


def test_equal_tokens_that_were_not_combined_have_no_finite_norm():
    """The release goes by this norm: two equal tokens beside each other would count for less than they add up to."""
    vectors = torch.ones(3, 2, 1)
    part = TokenPart(torch.tensor([[1, 1], [2, 1], [0, 1]]), vectors, 3)
    assert torch.isfinite(part.norms()).tolist() == [False, False, True]
    assert part.total().flatten().tolist() == [1.0, 1.0, 0.0]
    later = TokenPart(torch.tensor([[0, 1, 1]]), torch.ones(1, 3, 1), 3)
    half_empty = TokenPart(torch.tensor([[1, 1]]), torch.tensor([[[1.0, 1.0], [0.0, 1.0]]]), 3)
    assert torch.isinf(torch.cat([later.norms(), half_empty.norms()])).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_token_s_vector_that_is_not_finite_reaches_no_other_row(bad):
    vectors = torch.ones(3, 2, 1)
    vectors[1, 0] = bad
    part = token_part(torch.tensor([[1, 1], [1, 1], [0, 1]]), vectors, 3)
    assert torch.isfinite(part.norms()).tolist() == [True, False, True]
    (bounded,) = JointClip(100.0).apply([part])
    assert torch.allclose(bounded.total().flatten(), torch.tensor([1.0, 3.0, 0.0]).double())
