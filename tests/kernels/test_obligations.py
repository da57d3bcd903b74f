"""What every kind of part owes, against its shares built one by one: K1, norms are not below; K2, sums are near."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpmac.kernels.built import BuiltPart
from dpmac.kernels.chunks import SINGLE_MARGIN
from dpmac.kernels.dense import DensePart
from dpmac.kernels.gram import GramPart
from dpmac.kernels.outer import OuterPart
from dpmac.kernels.positions import PositionPart
from dpmac.kernels.tokens import TokenPart, token_part
from dpmac.privacy.gaussian_release import PART_TYPES
from dpmac.randomness import SeededNoise

SIZES = st.sampled_from([1e-12, 1e-3, 1.0, 30.0, 1e6])


def numbers(draw, *shape, dtype=torch.float64, size=1.0):
    return (size * draw.normal(shape)).to(dtype)


def part_of(kind, draw, rows, size, dtype):
    a, b = 3, 4
    if kind is DensePart:
        return DensePart(numbers(draw, rows, a, b, dtype=dtype, size=size))
    if kind is GramPart:
        return GramPart(numbers(draw, rows, a, dtype=dtype, size=size), numbers(draw, rows, b, dtype=dtype))
    if kind is PositionPart:
        wide, narrow = numbers(draw, rows, 5, a, dtype=dtype, size=size), numbers(draw, rows, 5, b, dtype=dtype)
        return PositionPart(wide, narrow)
    if kind is BuiltPart:
        return BuiltPart(numbers(draw, rows, a, b, dtype=dtype, size=size))
    if kind is TokenPart:
        tokens = (draw.uniform(rows * 5) * a).long().reshape(rows, 5)  # five of three kinds: some come up again
        return token_part(tokens, numbers(draw, rows, 5, b, dtype=dtype, size=size), a)
    one = bool(rows % 2)
    return OuterPart(numbers(draw, rows, a, dtype=dtype, size=size), numbers(draw, rows, b, dtype=dtype), one)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", PART_TYPES)
@given(st.integers(0, 10_000), st.integers(1, 40), SIZES, st.booleans())
def test_norms_are_not_below_and_sums_are_near_those_of_shares_built_one_by_one(kind, dtype, seed, rows, size, scaled):
    draw = SeededNoise(seed)
    part = part_of(kind, draw, rows, size, dtype)
    if scaled:
        part = part.scaled(draw.uniform(rows))
    shares = part.explicit().reshape(rows, -1)
    assert part.explicit().shape == (rows, *part.shape)
    lengths = torch.tensor([math.sqrt(math.fsum(x * x for x in row)) for row in shares.tolist()], dtype=torch.float64)
    assert (part.norms() >= lengths * (1 - 2.0**-50)).all()  # K1, but for the rounding of the shares built here
    slack = SINGLE_MARGIN if part.single else 1e-6
    assert (part.norms() <= lengths * (1 + slack + 1e-5) + 1e-300).all()  # and not by more than is said
    off = (part.total().double().flatten() - shares.sum(dim=0)).norm()
    assert float(off) <= (SINGLE_MARGIN if part.single else 1e-12) * float(lengths.max()) + 1e-300  # K2


def exact_squares(part):
    """The squares of the shares' norms in double precision, without any rounding."""
    if isinstance(part, GramPart):
        pairs = zip(part.weights.tolist(), part.inputs.tolist(), strict=True)
        return [sum(Fraction(a) ** 2 for a in w) * sum(Fraction(b) ** 2 for b in x) ** 2 for w, x in pairs]
    if isinstance(part, OuterPart):
        pairs = zip(part.left.tolist(), part.right.tolist(), strict=True)
        return [sum(Fraction(a) ** 2 for a in x) * (sum(Fraction(b) ** 2 for b in y) + part.one) for x, y in pairs]
    return [sum(Fraction(x) ** 2 for x in row) for row in part.values.reshape(part.rows, -1).tolist()]


@pytest.mark.parametrize("kind", [DensePart, GramPart, BuiltPart, OuterPart])
@pytest.mark.parametrize("size", [1e-150, 1e-3, 1.0, 1e9])
def test_a_norm_in_double_precision_is_below_the_true_one_by_no_more_than_k1_says(kind, size):
    """A relative (d + 32) 2^-53 for d numbers that are measured. Rounding goes either way, so some are below."""
    part = part_of(kind, SeededNoise(3), 301, size, torch.float64)
    allowed = 1 + Fraction(12 + 32, 2**53)
    pairs = list(zip(part.norms().tolist(), exact_squares(part), strict=True))
    assert all((Fraction(norm) * allowed) ** 2 >= square for norm, square in pairs)
    assert any(Fraction(norm) ** 2 < square for norm, square in pairs)


@pytest.mark.parametrize("kind", PART_TYPES)
@given(st.integers(0, 1000), st.integers(2, 12))
def test_a_row_s_norm_and_share_do_not_depend_on_other_rows(kind, seed, rows):
    """K3, of the parts themselves: all rows but the first change, outrageously, and no bit of the first does."""
    first, other = part_of(kind, SeededNoise(seed), rows, 1.0, torch.float64), []
    for name in ("values", "left", "right", "weights", "inputs", "vectors"):
        if hasattr(first, name):
            moved = getattr(first, name).clone()
            moved[1:] *= 1e100
            other.append(moved)
    if kind is OuterPart:
        second = OuterPart(*other, first.one)
    elif kind is TokenPart:
        second = TokenPart(first.tokens.clone(), *other, first.length)
    else:
        second = kind(*other)
    assert torch.equal(first.norms()[0], second.norms()[0])
    assert torch.equal(first.explicit()[0], second.explicit()[0])
