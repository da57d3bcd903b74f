"""Sums of single-precision outer products: what rounding may do, counted out by exact arithmetic and searched for."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from doorway import go
from dpmac.bounds.clipping import clip_factors, joint_norms
from dpmac.kernels.chunks import CHUNK, GROUP, SINGLE_MARGIN, in_chunks
from dpmac.kernels.norms import single_norms
from dpmac.kernels.outer import LARGEST
from dpmac.privacy import (
    DensePart,
    GramPart,
    JointClip,
    Ledger,
    Normalise,
    OuterPart,
    Partition,
    PerLayerClip,
    PrivateRows,
    Query,
    release,
)
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise

U = 2.0**-24  # unit roundoff of single precision
ROWS = 2 * CHUNK * GROUP  # as many as a block has at most: two groups


def signs(period):
    return torch.where(torch.arange(ROWS) // period % 2 == 0, 1.0, -1.0).unsqueeze(1)


def table(kind, d_out=3, d_in=4, seed=0):
    """Left and right sides whose partial sums grow as far as they can, cancel, or lose what is small."""
    draw = SeededNoise(seed)
    jitter, other = draw.normal((ROWS, d_out)).float(), draw.normal((ROWS, d_in)).float()
    ones, more, third = torch.ones(ROWS, d_out), torch.ones(ROWS, d_in), torch.full((ROWS, 1), 1 / 3)
    return {
        "aligned": lambda: (third * ones, more),
        "nearly aligned": lambda: (ones + 1e-3 * jitter, more),
        "half a digit": lambda: (ones * (1 + 2.0 ** -(6 + seed % 15)), more * (1 + 2.0**-12)),
        "huge and small": lambda: (torch.where(signs(1) > 0, 1.0, 1e-7) * ones, third * more),
        "cancelling": lambda: (signs(1) * third * ones, more + 1e-2 * other),
        "waves": lambda: (signs(2 ** (3 + seed % 6)) * third * ones, more),
        "random": lambda: (jitter, other),
    }[kind]()


KINDS = ["aligned", "nearly aligned", "half a digit", "huge and small", "cancelling", "waves", "random"]


def exact(left, right, one):
    """left^T [right; 1] in rational numbers."""
    columns = [[Fraction(x) for x in column] for column in right.double().T.tolist()] + [
        [Fraction(1)] * len(left)
    ] * one
    rows = [[Fraction(x) for x in column] for column in left.double().T.tolist()]
    return [[sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in columns] for row in rows]


def without(part, place):
    factors = torch.ones(part.rows, dtype=torch.float64)
    factors[place] = 0.0
    return part.scaled(factors)


# --- sums -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [CHUNK * GROUP + CHUNK + 7, 64])
def test_a_sum_is_off_by_no_more_than_the_rounding_that_is_counted(kind, rows):
    """Entry by entry: a product of 256 rows, then up to eight additions; what adds up groups is in double precision."""
    left, right = (side[:rows, :2] for side in table(kind))
    found = in_chunks(left, right, one=True)
    sizes = left.abs().double().T @ torch.cat([right.abs().double(), torch.ones(rows, 1)], dim=1)
    allowed = (CHUNK + GROUP) * U / (1 - (CHUNK + GROUP) * U) * sizes * (1 + 1e-12)
    for i, row in enumerate(exact(left, right, one=True)):
        for j, true in enumerate(row):
            assert abs(Fraction(float(found[i, j])) - true) <= Fraction(float(allowed[i, j]))


def search(tries=150):
    """The largest move by one row, in promises, and the largest that rounding alone made of it."""
    choose, worst, rounding = random.Random(5), 0.0, 0.0
    for seed in range(tries):
        d_out, d_in = choose.choice([(1, 1), (1, 3), (7, 5), (16, 2)])
        left, right = table(choose.choice(KINDS), d_out, d_in, seed)
        bound = choose.uniform(1, 2)
        (part,) = PerLayerClip(bound).apply([OuterPart(10 * left, right, one=choose.random() < 0.3)])
        whole = part.total()
        for place in (0, 1, CHUNK - 1, CHUNK * GROUP, ROWS - 1, choose.randrange(ROWS)):
            change = float((whole - without(part, place).total()).norm()) / bound
            own = float(part.norms()[place]) / (1 + SINGLE_MARGIN) / bound
            worst, rounding = max(worst, change), max(rounding, change - own)
    return worst, rounding


def test_no_row_at_its_bound_moves_a_sum_by_more_than_the_promise():
    """Of 200,000 tries the worst was 0.99144 of a promise; rounding made 0.0003 of it, a thirtieth of its room."""
    worst, rounding = search()
    assert 0.99 < worst <= 1.0
    assert rounding < SINGLE_MARGIN / 10


def test_chunks_without_the_row_are_the_same_bit_for_bit():
    left, right = table("random", 9, 5)
    for place in (3, CHUNK, ROWS - 1):
        blank, wild = left.clone(), left.clone()
        blank[place], wild[place] = 0.0, 1e14
        for k in range(ROWS // CHUNK):
            rows = slice(k * CHUNK, (k + 1) * CHUNK)
            same = torch.equal(in_chunks(blank[rows], right[rows], True), in_chunks(wild[rows], right[rows], True))
            assert same == (k != place // CHUNK)
        others = (torch.arange(ROWS) // CHUNK != place // CHUNK).double()
        assert torch.equal(*(OuterPart(side, right).scaled(others).total() for side in (blank, wild)))


@pytest.mark.parametrize("one", [False, True])
def test_the_factor_is_in_the_shorter_vector_and_the_sum_is_that_of_the_shares(one):
    """Fewer inputs than units: the factor and the 1 of the bias are one vector with the inputs."""
    for d_out, d_in in ((2, 9), (9, 2)):
        left, right = (side[:70] for side in table("random", d_out, d_in))
        part = OuterPart(left, right, one=one).scaled(SeededNoise(3).uniform(70))
        assert torch.allclose(part.total().double(), part.explicit().sum(dim=0), atol=1e-4)
        assert part.total().is_contiguous()


# --- norms, at any magnitude ----------------------------------------------------------------------------------------

MAGNITUDES = st.integers(-149, 127).map(lambda power: 2.0**power)
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
VECTORS = st.lists(st.one_of(NUMBERS, MAGNITUDES, st.floats(-2, 2, width=32)), min_size=1, max_size=40)


@given(VECTORS, VECTORS, st.booleans())
@example([1e-23] * 40, [1e38], True)
@settings(max_examples=150)
def test_norms_of_single_precision_are_never_below_the_true_ones(left, right, one):
    """By rational arithmetic. Squares that underflow are made up for, those that overflow give infinity."""
    a, b = torch.tensor([left]), torch.tensor([right])
    lengths = [exact(rows.T, rows.T, one=False)[0][0] for rows in (a, b)]  # squared
    for rows, length in zip((a, b), lengths, strict=True):
        norm = float(single_norms(rows)[0])
        assert math.isinf(norm) or Fraction(norm) ** 2 >= length
    whole = float(OuterPart(a, b, one).norms())
    room = Fraction(1 + SINGLE_MARGIN) * (1 - Fraction(1, 10**12))
    assert math.isinf(whole) or Fraction(whole) ** 2 >= lengths[0] * (lengths[1] + one) * room**2


POWERS = st.tuples(st.floats(-45, 38), st.floats(-45, 38), st.floats(-29.9, 29.9))


@given(POWERS, st.integers(1, 5), st.integers(1, 5), st.booleans())
@example((31.1, 14.0, 0.0), 1, 1, False)
@example((18.774, 14.954, -11.301), 1, 1, False)
@example((-15.0, 14.954, -29.9), 4, 1, False)
@settings(max_examples=300)
def test_a_row_of_any_magnitude_adds_no_more_than_its_bound(powers, d_out, d_in, one):
    """Found in review: clipping factors below 1e-38 lost their digits in single precision, and so did what they left
    of a slope; a single row could add 1.96 times its bound."""
    left, right, bound = (10.0**power for power in powers)
    part = OuterPart(torch.full((1, d_out), left), torch.full((1, d_in), right), one)
    (clipped,) = PerLayerClip(bound).apply([part])
    assert float(clipped.total().double().norm()) <= bound
    (normal,) = Normalise(bound).apply([part])
    assert float(normal.total().norm()) <= 1.0


OUTRAGES = [math.inf, -math.inf, math.nan, 3e38, 2 * LARGEST, -2 * LARGEST]


@pytest.mark.parametrize("outrage", OUTRAGES)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("shorter", ["left", "right"])  # the vector that the factor is multiplied into
def test_rows_that_are_not_fit_add_exactly_nothing_and_change_no_other(shorter, side, outrage):
    sizes = {"left": (5, 9), "right": (9, 5)}[shorter]
    rows = dict(zip(("left", "right"), table("random", *sizes), strict=True))
    for place in (0, CHUNK + 1):
        blank, wild = ({name: value.clone() for name, value in rows.items()} for _ in range(2))
        blank["left"][place], blank["right"][place] = 0.0, 0.0
        wild[side][place] = outrage
        for bound in (PerLayerClip(0.3), JointClip(1e30), Normalise()):
            if side == shorter and math.isfinite(outrage) and not isinstance(bound, JointClip):
                continue  # clipped as any long vector with a factor is: see below
            found, expected = (bound.apply([OuterPart(**sides, one=True)])[0] for sides in (wild, blank))
            assert torch.equal(found.total(), expected.total())


@pytest.mark.parametrize("shorter", ["left", "right"])
def test_long_vectors_with_a_factor_are_clipped_and_change_no_other_chunk(shorter):
    left, right = table("random", 5, 9)
    wild = left.clone()
    wild[3] = 2 * LARGEST
    sides = [(side, right) if shorter == "left" else (right, side) for side in (left, wild)]
    (plain,), (found,) = (PerLayerClip(0.3).apply([OuterPart(*both)]) for both in sides)
    assert torch.equal(without(plain, 3).total(), without(found, 3).total())
    assert float((found.total() - without(found, 3).total()).norm()) <= 0.3


# --- settings of torch ----------------------------------------------------------------------------------------------


def answer(inside=lambda: None):
    """One release of single precision: what comes out of a small layer."""
    left, right = table("random", 3, 4)
    bound = PerLayerClip(0.3)

    def parts(x):
        inside()
        return bound.apply([OuterPart(x[:, :3] @ torch.eye(3), x[:, 3:], one=True)])

    asked = bound.promise([Partition("a", (3, 5))])
    return go(asked, parts, rows=torch.cat([left, right], dim=1), source=SeededNoise(4))[0]


def is_exact():
    assert torch.get_float32_matmul_precision() == "highest"
    assert not any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda"))


def test_lower_precisions_around_a_release_change_no_bit_and_are_restored():
    expected = answer()
    torch.set_float32_matmul_precision("medium")
    try:
        assert torch.equal(answer(is_exact), expected)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(answer(is_exact), expected)
        assert torch.is_autocast_enabled("cpu")


def test_a_default_dtype_of_the_users_changes_no_bit():
    left, right = table("random")
    expected = OuterPart(left, right, one=True).total()
    for dtype in (torch.float64, torch.bfloat16):
        torch.set_default_dtype(dtype)
        try:
            assert torch.equal(OuterPart(left, right, one=True).total(), expected)
        finally:
            torch.set_default_dtype(torch.float32)


# --- beside double precision ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtypes", [(torch.float64, torch.float64), (torch.float32, torch.float64)])
def test_double_precision_needs_no_room_but_the_slack(dtypes):
    left, right = (side.to(dtype) for side, dtype in zip(table("random"), dtypes, strict=True))
    (part,) = PerLayerClip(0.3).apply([OuterPart(left, right, one=True)])
    true = torch.einsum("ni,nj->nij", left.double(), torch.cat([right.double(), torch.ones(ROWS, 1)], dim=1))
    norms = true.flatten(1).norm(dim=1)
    assert torch.allclose(OuterPart(left, right, one=True).norms(), norms, rtol=1e-14)
    expected = (true * (0.3 * (1 - SLACK) / norms).clamp(max=1.0).reshape(-1, 1, 1)).sum(dim=0)
    assert torch.allclose(part.total(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("beside", "scale"),
    [
        (lambda x: GramPart(x.double(), x.double()), 1.0),
        (DensePart, 1.0),
        (lambda x: OuterPart(x.double(), x), 1.0),
        (lambda x: OuterPart(x, x), 1e-25),
    ],
    ids=["products", "values", "one side of double precision", "a scale at which single precision underflows"],
)
def test_beside_parts_of_double_precision_single_ones_are_summed_in_double_precision_too(beside, scale):
    """Rounding in a single-precision sum is as large as *other* rows' shares there, whatever this row's share is, and
    only norms that all carry it leave room for that."""
    table, seen = PrivateRows(torch.ones(64, 1)), []
    other = beside(torch.ones(1, 1))
    promised = (Partition("s", (2, 2), 1.0), Partition("d", other.shape, scale, symmetric=isinstance(other, GramPart)))

    def parts(x):
        raw = [OuterPart(x.repeat(1, 2), torch.ones(len(x), 2)), beside(x)]
        return [part.scaled(clip_factors(joint_norms(raw, [1.0, scale]), 1.0)) for part in raw]

    with pytest.MonkeyPatch.context() as patch:
        total = OuterPart.total
        patch.setattr(OuterPart, "total", lambda self, together=1: seen.append(self.single) or total(self, together))
        asked = {"noise_multiplier": 1.0, "source": SeededNoise(0), "ledger": Ledger()}
        release(table.everything(), Query("q", promised, parts), **asked)
        release(table.everything(), Query("q", promised[:1], lambda x: parts(x)[:1]), **asked)
    assert seen[0] is False
    assert seen[-1] is True
