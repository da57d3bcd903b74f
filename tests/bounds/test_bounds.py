"""Bounds against matrices built one example at a time: whatever the rows, nobody contributes more than promised."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpmac.bounds.clipping import joint_norms
from dpmac.checks import ArgumentError
from dpmac.kernels.chunks import SINGLE_MARGIN
from dpmac.privacy import JointClip, Normalise, OuterPart, Partition, PerLayerClip, Unbounded
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise

BOUNDS = [PerLayerClip(0.5), PerLayerClip((0.2, 3.0)), Normalise(0.01), JointClip(0.7), JointClip((0.1, 2.0))]
each_bound = pytest.mark.parametrize("bound", BOUNDS, ids=repr)
TWO = [Partition("a", (3, 4)), Partition("b", (2, 5))]


def two_layers(seed=0, rows=9, spread=1.0):
    draw = SeededNoise(seed)
    scale = torch.exp(spread * draw.normal((rows, 1)))
    return [
        OuterPart(draw.normal((rows, 3)) * scale, draw.normal((rows, 4))),
        OuterPart(draw.normal((rows, 2)), draw.normal((rows, 5)) * scale),
    ]


def matrices(part):
    """Every example's matrix, built in a loop: what the package never does."""
    return [torch.outer(left, right) for left, right in zip(part.left, part.right, strict=True)]


@each_bound
@given(seed=st.integers(0, 10_000), spread=st.floats(0, 30))
def test_every_bound_keeps_its_promise(bound, seed, spread):
    bounded = bound.apply(two_layers(seed, spread=spread))
    assert joint_norms(bounded, [p.scale for p in bound.promise(TWO)]).max() <= 1 - SLACK / 2


@each_bound
def test_neighbouring_tables_differ_by_at_most_one(bound):
    """Brute force: drop each row in turn; the scaled, concatenated sum moves by no more than 1."""
    parts = two_layers(3, rows=12, spread=2.0)
    partitions = bound.promise(TWO)

    def scaled_sum(keep):
        kept = [OuterPart(p.left[keep], p.right[keep]) for p in parts]
        sums = [p.total().flatten() / q.scale for p, q in zip(bound.apply(kept), partitions, strict=True)]
        return torch.cat(sums)

    everyone = torch.arange(12)
    moves = [(scaled_sum(everyone) - scaled_sum(everyone[everyone != row])).norm() for row in range(12)]
    assert max(moves) <= 1
    assert max(moves) > 0.5  # the bound is used, not vacuous


@pytest.mark.parametrize(
    ("bound", "factor"),
    [
        (PerLayerClip(0.8), lambda norm: min(1.0, (1 - SLACK) * 0.8 / norm)),
        (Normalise(0.1), lambda norm: (1 - SLACK) / (norm + 0.1)),
    ],
    ids=["clip", "normalise"],
)
def test_clipping_and_normalising_equal_the_one_at_a_time_oracle(bound, factor):
    parts = two_layers(5)
    for part, clipped in zip(parts, bound.apply(parts), strict=True):
        oracle = sum(m * factor(float(m.norm())) for m in matrices(part))
        assert torch.allclose(clipped.total(), oracle, rtol=1e-12, atol=1e-12)


def test_joint_clipping_never_clips_more_than_per_layer_at_the_same_noise():
    parts = two_layers(8, rows=50)
    each = PerLayerClip((0.4, 0.9))
    joint = JointClip(tuple(math.sqrt(2) * t for t in (0.4, 0.9)))
    assert [p.scale for p in each.promise(TWO)] == pytest.approx([p.scale for p in joint.promise(TWO)])
    kept_each = torch.stack([p.norms() for p in each.apply(parts)])
    kept_joint = torch.stack([p.norms() for p in joint.apply(parts)])
    inside = (torch.stack([p.norms() for p in parts]) <= torch.tensor([[0.4], [0.9]])).all(dim=0)
    assert bool(inside.any())
    assert torch.allclose(kept_joint[:, inside], kept_each[:, inside], rtol=1e-4)


@each_bound
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_share_that_is_not_finite_becomes_zero(bound, bad):
    clean = bound.apply(two_layers(2))[0].norms()
    others = torch.arange(9) != 4
    for side in ("left", "right"):
        for dtype in (torch.float32, torch.float64):
            parts = [OuterPart(p.left.to(dtype), p.right.to(dtype)) for p in two_layers(2)]
            getattr(parts[0], side)[4, 1] = bad
            bounded = bound.apply(parts)
            assert all(torch.isfinite(p.total()).all() for p in bounded)
            assert bounded[0].norms()[4] == 0
            room = SINGLE_MARGIN if dtype == torch.float32 else 0.0  # in the norm of a share of single precision
            assert torch.allclose(bounded[0].norms()[others], clean[others], rtol=1e-5 + room)


def test_huge_and_tiny_single_precision_shares_stay_inside():
    left = torch.tensor([[3e38, 3e38], [1e-45, 0.0], [3e38, 1e-45]])
    right = torch.tensor([[3e38, 1.0], [1e-45, 1e-45], [1e-38, 3e38]])
    for bound in BOUNDS[:1] + BOUNDS[2:4]:
        (bounded,) = bound.apply([OuterPart(left, right)])
        (partition,) = bound.promise([Partition("a", (2, 2))])
        assert (bounded.norms() <= partition.scale).all()
        assert torch.isfinite(bounded.total()).all()


def test_unbounded_changes_nothing():
    parts = two_layers()
    assert Unbounded().apply(parts) == parts
    assert all(math.isinf(p.scale) for p in Unbounded().promise(TWO))


@each_bound
def test_a_promise_keeps_everything_of_a_partition_but_its_scale(bound):
    asked = [Partition("a", (2, 3, 3), symmetric=True), Partition("b", (4,), sensitivity=3.0)]
    for before, after in zip(asked, bound.promise(asked), strict=True):
        assert before.scale is None
        assert after == Partition(before.name, before.shape, after.scale, before.symmetric, before.sensitivity)
        assert after.scale > 0


def test_a_partitions_scale_is_a_plain_number():
    """One number is checked, written to the ledger and multiplied with the noise."""
    for made in (Partition("a", (1,), np.float16(0.3)), Partition("a", (1,)).promised(np.float16(0.3))):
        assert type(made.scale) is float


def test_bad_thresholds_are_named():
    for make in (PerLayerClip, JointClip):
        for value in (0.0, -1.0, math.inf, math.nan, (1.0, 0.0)):
            with pytest.raises(ArgumentError, match=r"threshold=|kappa="):
                make(value)
        with pytest.raises(ArgumentError, match="one for each of the 3 layers"):
            make((1.0, 2.0)).promise([*TWO, Partition("c", (1,))])
    with pytest.raises(ArgumentError, match="gamma="):
        Normalise(0.0)
