"""No row can stop a run or exceed its bound, whatever numbers it has: every kind of part under every bound."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmac.bounds.clipping import joint_norms
from dpmac.kernels.padding import MAX_BLOCK
from dpmac.privacy import (
    AdaptiveQuantile,
    DensePart,
    GramPart,
    JointClip,
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
from dpmac.privacy.parts import KEPT, SLACK
from dpmac.randomness import SeededNoise

BOUNDS = [
    Normalise(),
    Normalise(1e-30),
    *(PerLayerClip(t) for t in (1.0, 1e-12, 1e12)),
    *(JointClip(t) for t in (1.0, 1e-29, 1e29)),
    *(AdaptiveQuantile(t) for t in (1.0, 1e-12, 1e12)),
]
EDGES = [0.0, 5e-324, 1e-320, 1e-310, 2.3e-308, 1e-290, 1e-200, 1e-160, 1e-155, 1e-150, 1e-100, 1e-45, 1e-38, 1e-20]
EDGES += [1.0, 1e15, 1e30, 3e38, 1e100, 1e150, 1e154, 1e160, 1e200, 1e300, 1.7e308, math.inf, math.nan]
KINDS = {
    "dense": lambda draw: DensePart(draw(3)),
    "outer": lambda draw: OuterPart(draw(2), draw(3)),
    "outer with one": lambda draw: OuterPart(draw(2), draw(3), one=True),
    "gram": lambda draw: GramPart(draw(2), draw(3)),
    "by gram": lambda draw: PositionPart(draw(1, 3), draw(1, 4)),
    "built": lambda draw: PositionPart(draw(4, 2), draw(4, 2)),
}
ROWS = 3


@st.composite
def tensors(draw, *shape, dtype):
    """Numbers of a few sizes, signs and last digits."""
    sizes = torch.tensor(draw(st.lists(st.sampled_from(EDGES), min_size=1, max_size=3)), dtype=torch.float64)
    signs = torch.tensor([1.0, -1.0, 0.7, 1.3], dtype=torch.float64)
    places = SeededNoise(draw(st.integers(0, 2**32))).uniform(2 * ROWS * math.prod(shape)).reshape(2, ROWS, *shape)
    size, sign = ((place * len(some)).long() for place, some in zip(places, (sizes, signs), strict=True))
    return (sizes[size] * signs[sign]).to(dtype)


@st.composite
def parts(draw):
    dtype = draw(st.sampled_from([torch.float64, torch.float64, torch.float32]))
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2))
    return [KINDS[kind](lambda *shape: draw(tensors(*shape, dtype=dtype))) for kind in kinds]


def check(some, bound):
    """That a release takes them, that they keep the promise, and that what is summed of every row does, too."""
    promised = bound.promise([Partition(f"p{i}", part.shape) for i, part in enumerate(some)])
    scales = [p.scale for p in promised]
    bounded = bound.apply(some)
    norms = joint_norms(bounded, scales)
    assert bool(((norms >= 0) & (norms <= KEPT)).all())
    for row in range(ROWS):
        shares = [part.scaled((torch.arange(ROWS) == row).double()).total() for part in bounded]
        assert all(bool(torch.isfinite(share).all()) for share in shares)
        whole = math.hypot(*(float((share / scale).norm()) for share, scale in zip(shares, scales, strict=True)))
        assert whole <= KEPT
        assert whole <= float(norms[row]) * (1 + 1e-9) + 1e-150


@given(parts(), st.sampled_from(BOUNDS))
@settings(max_examples=150, deadline=None)
def test_any_row_keeps_the_promise_and_gives_finite_shares(some, bound):
    check(some, bound)


def double(*rows):
    return torch.tensor(rows, dtype=torch.float64).expand(ROWS, *torch.tensor(rows).shape)


@pytest.mark.parametrize(
    "part",
    [
        GramPart(double(1e-20), double(1e160, 1.0)),  # a weight that was scaled below all digits, and rounded up
        GramPart(double(1e-310), double(1e160)),
        GramPart(double(0.0), double(1e307)),  # 0 * inf
        OuterPart(double(1e-160, 1e-160), double(1.7e308)),  # more was summed than was measured
        OuterPart(double(1.7e308), double(1e-320)),  # a factor of 100 on what was long already
        PositionPart(double([1.3e15], [1e100], [1.7e308]), double([1.3], [0.7], [0.0])),  # nothing beside much
        PositionPart(double(*[[1.5e308]] * 4), double([0.9], [0.9], [-0.9], [-0.9])),  # overflows before it cancels
    ],
    ids=lambda p: type(p).__name__,
)
@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
def test_what_was_found(part, bound):
    check([part], bound)


@pytest.mark.parametrize("bound", [Normalise(), JointClip(1.0), AdaptiveQuantile()], ids=lambda b: type(b).__name__)
def test_a_release_of_extreme_rows_goes_through(bound):
    rows = torch.tensor([[s, t, 1.0] for s in EDGES for t in EDGES], dtype=torch.float64)

    def asked(x):
        found = [
            DensePart(x),
            OuterPart(x[:, :1], x[:, 1:]),
            GramPart(x[:, :1], x[:, 1:]),
            PositionPart(x.unsqueeze(1), x.flip(1).unsqueeze(1)),
        ]
        return bound.apply(found)

    shapes = [(3,), (1, 2), (1, 2, 2), (3, 3)]
    query = Query("rows", bound.promise([Partition(f"p{i}", shape) for i, shape in enumerate(shapes)]), asked)
    answer = release(
        PrivateRows(rows).everything(), query, noise_multiplier=1.0, source=SeededNoise(0), ledger=Ledger()
    )
    assert all(bool(torch.isfinite(found).all()) for found in answer.values())


def test_the_slack_that_is_checked_holds_the_rounding_of_the_largest_sum():
    """Twice u m (m + 2) scales for the rows of a block, the only one that differs; and room for the bounds' own."""
    needed = 2 * 2.0**-53 * MAX_BLOCK * (MAX_BLOCK + 2)
    assert 1.4e-8 < needed < (1.0 - KEPT) / 600
    assert KEPT - (1.0 - SLACK) > 9e-7
