"""Shapes of parts: one vector for each example and nothing else, and parts of no rows or no numbers."""

from __future__ import annotations

import math

import pytest
import torch

from doorway import ask
from dpmac.checks import ArgumentError
from dpmac.kernels.chunks import in_chunks
from dpmac.kernels.norms import largest_entries, row_norms
from dpmac.kernels.tokens import TokenPart
from dpmac.privacy import DensePart, GramPart, OuterPart, Partition, PositionPart
from dpmac.privacy.parts import joint_norms
from dpmac.randomness import SeededNoise

both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def ones(*shape, dtype=torch.float64):
    return torch.ones(*shape, dtype=dtype)


# --- what a part refuses --------------------------------------------------------------------------------------------

REFUSED = {
    "left": lambda n: OuterPart(ones(n, n, 1), ones(n, 1)),
    "right": lambda n: OuterPart(ones(n, 1), ones(n, n, 1)),
    "factors": lambda n: OuterPart(ones(n, n), ones(n, 1), factors=ones(n, n)),
    "weights": lambda n: GramPart(ones(n, n, 1), ones(n, 1)),
    "inputs": lambda n: GramPart(ones(n, 1), ones(n, n, 1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_tensor_of_more_dimensions_is_refused_by_name(name):
    """Found while looking at mutants: of n vectors of n numbers (n, n, 1) every number was measured by itself."""
    with pytest.raises(ArgumentError, match=rf"^{name}=\(4, 4"):
        REFUSED[name](4)


@pytest.mark.parametrize("name", ["left", "right", "factors"])
def test_a_part_over_positions_refuses_them_too(name):
    shapes = {"left": (4, 2, 3), "right": (4, 2, 5), "factors": (4,)}
    shapes[name] = (*shapes[name], 1)
    with pytest.raises(ArgumentError, match=rf"^{name}="):
        PositionPart(**{each: ones(*shape) for each, shape in shapes.items()})


@pytest.mark.parametrize("name", ["tokens", "vectors", "factors"])
def test_a_part_of_tokens_refuses_them_too(name):
    shapes = {"tokens": (4, 2), "vectors": (4, 2, 3), "factors": (4,)}
    shapes[name] = (*shapes[name], 1)
    given = {each: ones(*shape) for each, shape in shapes.items()}
    with pytest.raises(ArgumentError, match=rf"^{name}="):
        TokenPart(given["tokens"].long(), given["vectors"], 5, given["factors"])


def test_both_sides_have_as_many_rows():
    for make in (OuterPart, GramPart):
        with pytest.raises(ArgumentError, match=r"=\(5, 2\): give a tensor of 2 dimensions, the first of them the 4"):
            make(ones(4, 2), ones(5, 2))
    with pytest.raises(ArgumentError, match="right="):
        PositionPart(ones(4, 2, 1), ones(1, 2, 1))


@both_precisions
def test_no_query_gets_more_than_its_promise_in_a_release_by_one_dimension_more(dtype):
    """Rows of length 2 * sqrt(2) where 1 is promised, as a tensor whose last dimension has one number."""

    def parts(x):
        return [OuterPart(torch.full((len(x), len(x), 1), 0.5, dtype=dtype), ones(len(x), 1, dtype=dtype))]

    with pytest.raises(ArgumentError, match="left="):
        ask((Partition("p", (32, 1), 1.0),), parts, rows=torch.ones(32, 1))


# --- nothing to measure, nothing to sum -----------------------------------------------------------------------------


@pytest.mark.parametrize("one", [False, True])
@both_precisions
def test_no_rows_sum_to_zeros_of_the_right_shape(dtype, one):
    part = OuterPart(ones(0, 3, dtype=dtype), ones(0, 4, dtype=dtype), one)
    assert torch.equal(part.total(), torch.zeros(3, 4 + one, dtype=torch.float64))
    assert part.norms().shape == (0,)


def test_no_rows_have_no_norms():
    assert PositionPart(ones(0, 2, 3), ones(0, 2, 4)).norms().shape == (0,)
    assert GramPart(ones(0, 2), ones(0, 3)).norms().shape == (0,)
    assert DensePart(ones(0, 2)).norms().shape == (0,)


@both_precisions
def test_vectors_of_no_numbers_have_length_0(dtype):
    empty, some = ones(3, 0, dtype=dtype), ones(3, 4, dtype=dtype)
    for part in (OuterPart(empty, some), OuterPart(some, empty), GramPart(empty, some), DensePart(empty)):
        assert torch.equal(part.norms(), torch.zeros(3, dtype=torch.float64))
    assert torch.allclose(OuterPart(some, empty, one=True).norms(), torch.full((3,), 2.0, dtype=torch.float64), 0.01)


def test_a_largest_entry_is_kept_as_a_dimension_and_is_1_where_there_is_none_to_divide_by():
    rows = torch.tensor([[-3.0, 2.0], [0.0, 0.0], [math.inf, 1.0], [1.0, math.nan]], dtype=torch.float64)
    assert largest_entries(rows).tolist() == [[3.0], [1.0], [1.0], [1.0]]
    for shape in [(2, 0), (2, 3, 0), (4, 0, 3)]:
        found = largest_entries(ones(*shape))
        assert torch.equal(found, ones(*shape[:-1], 1))


# --- several at a time ----------------------------------------------------------------------------------------------


@both_precisions
def test_norms_are_along_the_last_dimension_of_any_stack(dtype):
    rows = SeededNoise(3).normal((2, 3, 4)).to(dtype)
    expected = [[math.hypot(*row) for row in block] for block in rows.tolist()]
    for norms in (row_norms(rows), torch.stack([row_norms(block) for block in rows])):
        torch.testing.assert_close(norms, torch.tensor(expected, dtype=torch.float64), rtol=1e-14, atol=0.0)
    assert float(row_norms(rows[0, 0])) == pytest.approx(expected[0][0], rel=1e-14)


def test_the_lengths_of_a_part_are_those_of_its_share_and_of_its_two_vectors():
    left, right = (SeededNoise(d).normal((5, d)) for d in (2, 3))
    expected = left.norm(dim=1), torch.hypot(right.norm(dim=1), torch.ones(5, dtype=torch.float64))
    found = OuterPart(left, right, one=True)._lengths, OuterPart(left, right)._lengths
    for (whole, *sides), length in zip(found, (expected[1], right.norm(dim=1)), strict=True):
        for ours, theirs in zip((whole, *sides), (expected[0] * length, expected[0], length), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=0.0)


def test_a_unit_of_weight_0_takes_no_other_with_it():
    """Of a layer's units some have no curvature at a row; a factor must reach the others."""
    weights = torch.tensor([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    part = GramPart(weights, ones(3, 2)).scaled(torch.tensor([0.5, 0.25, 0.5], dtype=torch.float64))
    assert torch.allclose(part.norms(), torch.tensor([2.0, 1.5, 0.0], dtype=torch.float64))
    assert torch.allclose(part.total(), torch.tensor([0.75, 1.0], dtype=torch.float64).reshape(2, 1, 1).expand(2, 2, 2))


def test_every_part_has_a_scale():
    mixed = [DensePart(ones(3, 2)), DensePart(ones(3, 2))]
    with pytest.raises(ValueError, match="shorter"):
        joint_norms(mixed, [1.0])


def test_rows_of_nobody_in_particular_belong_to_themselves_alone():
    """657 rows are three chunks of 219, unless rows belong together in pairs."""
    left, right = (SeededNoise(d).normal((657, d)).float() for d in (2, 3))
    for part in (OuterPart(left, right), OuterPart(right, left)):
        assert torch.equal(part.total(), part.total(1))
        assert not torch.equal(part.total(1), part.total(2))
    assert torch.equal(in_chunks(left, right, one=False), OuterPart(left, right).total(1))


def test_whole_numbers_beyond_single_precision_are_measured_exactly():
    assert float(row_norms(torch.tensor([[2**24 + 1]]))) == 2.0**24 + 1
