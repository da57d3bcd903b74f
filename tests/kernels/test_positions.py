"""Parts over positions: a norm that is never below the true one, by either way; shares, sums, and rows alone.

The oracle is exact: shares are built from fractions, one number at a time.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from doorway import ask
from dpmac.kernels import positions
from dpmac.kernels.positions import position_part
from dpmac.privacy import (
    BrokenPromiseError,
    BuiltPart,
    Ledger,
    Normalise,
    OuterPart,
    Partition,
    PerLayerClip,
    PositionPart,
    PrivateRows,
    Query,
    release,
)
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise, SystemNoise

each_way = pytest.mark.parametrize("way", ["gram", "built"])


def norms(way, left, right):
    """By the way that is wanted: the shapes choose it, and features that are zero make wider shapes."""
    if way == "gram":
        wide = 2 * left.shape[1] + 1
        left, right = (torch.nn.functional.pad(side, (0, wide - side.shape[2])) for side in (left, right))
    part = PositionPart(left, right)
    assert part.by_gram == (way == "gram")
    return part.norms()


def squared(left, right):
    """The exact square of one share's norm."""
    left, right = ([[Fraction(v) for v in row] for row in side.double().tolist()] for side in (left, right))
    entries = (
        sum(lp[i] * rp[j] for lp, rp in zip(left, right, strict=True))
        for i in range(len(left[0]))
        for j in range(len(right[0]))
    )
    return sum(entry**2 for entry in entries)


def size_of_terms(left, right):
    """sum_p ||left_p|| ||right_p||, a little more: what rounding is measured against."""
    each = (math.hypot(*lp) * math.hypot(*rp) for lp, rp in zip(left, right, strict=True))
    return sum(each) * (1 + 1e-9)


def assert_never_below(way, left, right, loose=1e-6):
    """Not below the true norm, and above it by rounding alone. (Of less than 1e-300 no norm can say much.)"""
    for norm, one, other in zip(norms(way, left, right).tolist(), left, right, strict=True):
        exact, a, b = squared(one, other), float(one.abs().max()), float(other.abs().max())
        room = Fraction(a) * Fraction(b) * Fraction(loose * size_of_terms((one / a).tolist(), (other / b).tolist()))
        if not math.isfinite(norm):
            assert room > 10**290
            continue
        tiny = Fraction(1e-300)
        assert (Fraction(norm) + tiny) ** 2 >= exact
        assert max(Fraction(norm) - room - tiny, Fraction(0)) ** 2 <= exact


def random_pair(seed, rows=4, positions=3, d_out=2, d_in=3, digits=0):
    """Normal draws, their sizes spread over so many digits either way."""
    draw = SeededNoise(seed)
    sides = [draw.normal((rows, positions, d)) for d in (d_out, d_in)]
    return [side * 10 ** (digits * (2 * draw.uniform(side.numel()).reshape(side.shape) - 1)) for side in sides]


# --- norms ----------------------------------------------------------------------------------------------------------


@each_way
@given(
    seed=st.integers(0, 10_000),
    positions=st.integers(2, 5),
    d_out=st.integers(1, 4),
    d_in=st.integers(1, 4),
    digits=st.sampled_from([0, 3, 30]),
    scales=st.tuples(*[st.sampled_from([1e-160, 1e-3, 1.0, 1e150])] * 2),
)
def test_norms_are_never_below_the_true_ones(way, seed, positions, d_out, d_in, digits, scales):
    """Entries of all sizes inside a row, and rows that are tiny or huge on either side, where squares give out."""
    left, right = random_pair(seed, 2, positions, d_out, d_in, digits)
    assert_never_below(way, left * scales[0], right * scales[1])


@each_way
@given(seed=st.integers(0, 10_000), size=st.sampled_from([1e-150, 1.0, 1e12, 1e150]), pairs=st.integers(1, 3))
def test_terms_that_cancel_between_positions_leave_no_norm_below_the_true_one(way, seed, size, pairs):
    """Huge terms in pairs that cancel, exactly or but for a bit, around one of ordinary size."""
    left, right = random_pair(seed, 2, 1 + 2 * pairs)
    right[:, 0] *= 1 / size if size < 1 else 1.0
    for p in range(1, 2 * pairs, 2):
        left[:, p] *= size
        left[:, p + 1], right[:, p + 1] = left[:, p], -right[:, p]
    left[1, -1] *= 1 + 2.0**-52
    assert_never_below(way, left, right)


@each_way
@pytest.mark.parametrize(("small", "large"), [(1e-160, 1e150), (1e-170, 1e300)])
def test_a_position_cannot_hide_behind_the_entries_of_another(way, small, large):
    """Its factors are tiny and huge beside the others', its product is not: squares of the tiny one underflow."""
    left, right = torch.zeros(1, 2, 3, dtype=torch.float64), torch.zeros(1, 2, 3, dtype=torch.float64)
    left[0, 0], left[0, 1], right[0, 1] = 1.0, small, large
    assert_never_below(way, left, right)


def test_the_norm_of_one_position_is_not_below_the_true_one_by_a_last_bit():
    assert_never_below("built", *random_pair(0, 200, positions=1, d_out=1))


def test_scaling_keeps_what_cancels_inside_the_promise():
    """A row whose terms cancel exactly; a row must not be able to stop a run, whatever it holds."""
    for size in (1e18, 3.3e21):
        left = torch.tensor([[[3.0], [1.0]]], dtype=torch.float64)
        right = torch.tensor([[[size], [-3 * size]]], dtype=torch.float64)
        for threshold in (1.0, 0.9, 0.7, 0.3, 0.123):
            (clipped,) = PerLayerClip(threshold).apply([PositionPart(left, right)])
            assert float(clipped.norms()) <= threshold * (1 - SLACK / 2)


@given(seed=st.integers(0, 10_000), count=st.integers(2, 6), d_out=st.integers(1, 4), d_in=st.integers(1, 4))
def test_gram_and_building_agree(seed, count, d_out, d_in):
    left, right = random_pair(seed, 5, count, d_out, d_in)
    gram, built = (norms(way, left, right) for way in ("gram", "built"))
    terms = torch.tensor([size_of_terms(*pair) for pair in zip(left.tolist(), right.tolist(), strict=True)])
    assert bool(((gram - built).abs() <= 1e-6 * terms).all())
    shares = torch.einsum("npo,npi->noi", left, right).flatten(1).norm(dim=1)
    assert torch.allclose(built, shares, rtol=1e-9, atol=1e-12)


def test_the_way_follows_from_shapes_alone_and_is_the_cheaper_one(monkeypatch):
    taken = []
    for name in ("gram", "built"):
        way = getattr(positions, f"_{name}")
        monkeypatch.setattr(
            positions, f"_{name}", lambda left, right, name=name, way=way: taken.append(name) or way(left, right)
        )
    for count, d_out, d_in in [(1, 1, 1), (2, 8, 8), (4, 8, 8), (5, 8, 8), (3, 5, 40), (49, 16, 145), (2, 64, 3)]:
        gram = count * count * (d_in + d_out) < count * d_in * d_out
        left, right = random_pair(0, 3, count, d_out, d_in)
        for factor in (1.0, 0.0, 1e100, 1e-100, math.nan, math.inf):
            taken.clear()
            part = PositionPart(left * factor, right)
            part.norms()
            assert taken == ["gram" if gram else "built"]
            assert part.by_gram == gram


@each_way
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_has_no_finite_norm_and_times_zero_is_exactly_zero(way, bad):
    d = 8 if way == "gram" else 2
    for side in (0, 1):
        pair = random_pair(1, 5, 2, d, d)
        clean = PositionPart(*pair)
        pair[side] = pair[side].clone()
        pair[side][2, 1, 0] = bad
        part = PositionPart(*pair)
        assert part.by_gram == (way == "gram")
        assert torch.isfinite(part.norms()).tolist() == [True, True, False, True, True]
        keep = (torch.arange(5) != 2).double()
        assert float(part.scaled(keep).norms()[2]) == 0.0
        assert torch.equal(part.scaled(keep).total(), clean.scaled(keep).total())
        assert torch.equal(part.scaled(1 - keep).norms()[keep.bool()], torch.zeros(4, dtype=torch.float64))
        for bound in (PerLayerClip(0.5), Normalise()):
            (bounded,) = bound.apply([part])
            assert torch.isfinite(bounded.total()).all()
            assert float(bounded.norms().max()) <= 1.0


# --- shares and sums ------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10_000), rows=st.integers(0, 6), count=st.integers(1, 5), memory=st.sampled_from([1, 100]))
def test_the_sum_is_that_of_the_shares_in_slices_of_any_size(seed, rows, count, memory):
    left, right = random_pair(seed, rows, count, 4, 3)
    part = PositionPart(left, right)
    assert (part.rows, part.shape) == (rows, (4, 3))
    shares = [sum(torch.outer(a, b) for a, b in zip(*pair, strict=True)) for pair in zip(left, right, strict=True)]
    factors = SeededNoise(seed, "/factors").uniform(rows) * 2
    lengths, total = part.norms(), part.total()
    assert lengths.dtype == total.dtype == torch.float64
    zero = torch.zeros(4, 3, dtype=torch.float64)
    assert torch.allclose(total, sum(shares, zero), atol=1e-12)
    scaled = sum((f * share for f, share in zip(factors, shares, strict=True)), zero)
    assert torch.allclose(part.scaled(factors).total(), scaled, atol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "MEMORY", memory)  # one row at a time, or about one
        assert torch.allclose(part.norms(), lengths, rtol=1e-12)
        assert torch.allclose(part.total(), total, atol=1e-12)


def test_what_cancels_inside_a_share_cancels_before_it_meets_the_others():
    left, right = torch.ones(64, 2, 2, dtype=torch.float64), torch.zeros(64, 2, 3, dtype=torch.float64)
    right[:, 0] = 0.1
    right[::2, 0], right[::2, 1] = 1e17, -1e17
    assert torch.allclose(PositionPart(left, right).total(), torch.full((2, 3), 3.2, dtype=torch.float64), rtol=1e-12)


def test_single_precision_is_built_measured_and_summed_in_single_precision():
    left, right = (side.float() for side in random_pair(3, 4, 3))
    single, double = PositionPart(left, right), PositionPart(left.double(), right.double())
    assert single.single
    assert not double.single
    assert not single.doubled().single
    assert torch.equal(single.doubled().total(), double.total())
    shares = torch.bmm(left.transpose(1, 2), right)
    assert torch.equal(single.explicit(), shares.double())
    assert torch.allclose(single.total().double(), double.total(), atol=1e-5)


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 9), count=st.integers(2, 30), memory=st.sampled_from([1, 100]))
def test_norms_before_the_sum_are_not_below_those_of_what_is_summed(seed, rows, count, memory):
    """Positions that cancel but for rounding: the bound goes by norms that another build cannot exceed."""
    left, right = (side.float() for side in random_pair(seed, rows, count, 4, 3))
    left[:, 1::2] = left[:, 0 : count - count % 2 : 2] * (1 + 1e-6)
    right[:, 1::2] = -right[:, 0 : count - count % 2 : 2]
    factors = SeededNoise(seed, "/factors").uniform(rows) * 2
    with pytest.MonkeyPatch.context() as patch:
        part = PositionPart(left, right).scaled(factors)
        before = part.norms()
        patch.setattr(positions, "MEMORY", memory)
        for other in (part.scaled(torch.ones(rows)), part.doubled()):
            total = other.total()
            assert bool((other.norms() <= before * (1 + 1e-12)).all())
            exact = torch.einsum("n,npo,npi->oi", factors, left.double(), right.double())
            terms = float((left.norm(dim=2) * right.norm(dim=2)).sum())
            assert float((total - exact).norm()) <= 4 * (count + rows + 4) * 2.0**-24 * terms * float(factors.max())


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 9), memory=st.sampled_from([1, 100, 1 << 26]))
def test_what_was_measured_is_what_was_summed(seed, rows, memory):
    """After the sum, norms are those of the single-precision shares in it, margin and all, in slices of any size."""
    left, right = (side.float() for side in random_pair(seed, rows, 6, 4, 3))
    part = PositionPart(left, right)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "MEMORY", memory)
        for together in (1, 4):
            part = part.scaled(torch.ones(rows))
            part.total(together)
            shares = BuiltPart(torch.bmm(left.transpose(1, 2), right))
            assert torch.allclose(part.norms(), shares.norms(), rtol=1e-6)
            lengths = shares.explicit().flatten(1).norm(dim=1)
            assert bool((part.norms() >= lengths).all())


def test_the_cheapest_kind_of_part_follows_from_shapes_and_precision():
    left, right = (side.float() for side in random_pair(3, 4, 3))
    assert type(position_part(left, right)) is BuiltPart
    bytes_built = 4 * 4 * left.shape[2] * right.shape[2]  # four rows of so many numbers, of four bytes each
    assert type(position_part(left, right, memory=bytes_built)) is BuiltPart
    assert type(position_part(left, right, memory=bytes_built - 1)) is PositionPart
    assert type(position_part(left.double(), right)) is PositionPart
    assert type(position_part(left[:, :1], right[:, :1])) is OuterPart
    expected = torch.einsum("npo,npi->noi", left.double(), right.double())
    for part in (position_part(left, right), PositionPart(left, right), PositionPart(left.double(), right)):
        assert torch.allclose(part.explicit(), expected, atol=1e-5)
        assert torch.allclose(part.total().double(), expected.sum(dim=0), atol=1e-5)
    one = position_part(left[:, :1], right[:, :1])
    assert torch.allclose(one.explicit(), torch.einsum("npo,npi->noi", left[:, :1], right[:, :1]).double(), atol=1e-6)


def test_no_rows_have_no_norms_before_the_sum_and_after_it():
    part = PositionPart(torch.zeros(0, 2, 4), torch.zeros(0, 2, 3))
    before, total = part.norms(), part.total()
    assert before.shape == part.norms().shape == (0,)
    assert torch.equal(total, torch.zeros(4, 3, dtype=torch.float64))


def test_nobody_can_say_what_was_measured():
    """The release would believe it: norms of what was summed come from the sum alone."""
    ones = torch.ones(1, 2, 1)
    assert float(PositionPart(ones, ones, None).norms()) >= 2.0
    with pytest.raises(TypeError):
        PositionPart(ones, ones, None, [torch.zeros(1)])


@each_way
def test_rows_are_alone_bit_for_bit(way):
    d = 8 if way == "gram" else 2
    pair = random_pair(5, 7, 2, d, d)
    part = PositionPart(*pair)
    assert part.by_gram == (way == "gram")
    others = torch.arange(7) != 3
    for outrage in (0.0, 1e300, 1e-300, -1.0, math.nan, math.inf):
        changed = [side.clone() for side in pair]
        changed[0][3], changed[1][3] = outrage, outrage
        other = PositionPart(*changed)
        assert torch.equal(other.norms()[others], part.norms()[others])
        assert torch.equal(other.scaled(others.double()).total(), part.scaled(others.double()).total())


def test_it_goes_through_the_door_within_its_promise():
    x = random_pair(7, 30, 4, 2, 3)
    rows = torch.cat([side.flatten(1) for side in x], dim=1)
    bound = PerLayerClip(0.5)

    def parts(block):
        return bound.apply([PositionPart(block[:, :8].reshape(-1, 4, 2), block[:, 8:].reshape(-1, 4, 3))])

    shares = torch.einsum("npo,npi->noi", *x)
    lengths = shares.flatten(1).norm(dim=1)
    assert bool((lengths > 0.5).any())
    clipped = (shares * ((1 - SLACK) * 0.5 / lengths).clamp(max=1.0)[:, None, None]).sum(dim=0)
    exact = ask(bound.promise([Partition("a", (2, 3))]), parts, rows=rows, sigma=0.0)["a"]
    assert torch.allclose(exact, clipped, atol=1e-9)


def test_negative_factors_do_not_hide_a_share_from_the_door():
    """Found in review: a norm below 0 passed the check."""
    ones = torch.ones(8, 1, 1, dtype=torch.float64)
    part = PositionPart(ones, ones, torch.full((8,), -1e6, dtype=torch.float64))
    assert (part.norms() >= 1e6).all()

    def parts(x):
        here = torch.ones(len(x), 1, 1, dtype=torch.float64)
        return [PositionPart(here, here, -1e6 * x.flatten().double())]

    query = Query("q", (Partition("w", (1, 1), 1.0),), parts)
    with pytest.raises(BrokenPromiseError, match="exceeds the bound"):
        release(
            PrivateRows(torch.ones(8, 1)).everything(),
            query,
            noise_multiplier=1.0,
            source=SystemNoise(),
            ledger=Ledger(),
        )
