"""Parts and bounds against matrices built one example at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpmac.checks import ArgumentError
from dpmac.privacy import DensePart, GramPart, JointClip, Normalise, OuterPart, PerLayerClip, SeededNoise, Unbounded
from dpmac.privacy.bound import SLACK, Partition, blocks_of, joint_norms

BOUNDS = [PerLayerClip(0.5), PerLayerClip((0.2, 3.0)), Normalise(0.01), JointClip(0.7), JointClip((0.1, 2.0))]


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


def test_outer_norms_and_sums_equal_the_matrices():
    for part in two_layers():
        each = matrices(part)
        assert torch.allclose(part.norms(), torch.stack([m.norm() for m in each]), rtol=1e-12)
        assert torch.allclose(part.total(), torch.stack(each).sum(dim=0), rtol=1e-12)
        factors = torch.linspace(0, 2, part.rows, dtype=torch.float64)
        scaled = part.scaled(factors)
        assert torch.allclose(scaled.total(), sum(f * m for f, m in zip(factors, each, strict=True)), rtol=1e-12)


def test_dense_norms_and_sums():
    values = SeededNoise(1).normal((6, 2, 3))
    part = DensePart(values)
    assert part.shape == (2, 3)
    assert torch.allclose(part.norms(), values.flatten(1).norm(dim=1))
    assert torch.allclose(part.total(), values.sum(dim=0))


@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
@given(seed=st.integers(0, 10_000), spread=st.floats(0, 30))
def test_every_bound_keeps_its_promise(bound, seed, spread):
    parts = two_layers(seed, spread=spread)
    partitions = bound.promise(blocks_of(["a", "b"], [p.shape for p in parts]))
    bounded = bound.apply(parts)
    assert joint_norms(bounded, [p.scale for p in partitions]).max() <= 1 - SLACK / 2


@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
def test_neighbouring_tables_differ_by_at_most_one(bound):
    """Brute force: drop each row in turn; the scaled, concatenated sum moves by no more than 1."""
    parts = two_layers(3, rows=12, spread=2.0)
    partitions = bound.promise(blocks_of(["a", "b"], [p.shape for p in parts]))

    def scaled_sum(keep):
        kept = [OuterPart(p.left[keep], p.right[keep]) for p in parts]
        sums = [p.total().flatten() / q.scale for p, q in zip(bound.apply(kept), partitions, strict=True)]
        return torch.cat(sums)

    everyone = torch.arange(12)
    moves = [(scaled_sum(everyone) - scaled_sum(everyone[everyone != row])).norm() for row in range(12)]
    assert max(moves) <= 1
    assert max(moves) > 0.5  # the bound is used, not vacuous


def test_clipping_equals_the_one_at_a_time_oracle():
    parts = two_layers(5)
    for part, clipped in zip(parts, PerLayerClip(0.8).apply(parts), strict=True):
        oracle = sum(m * min(1.0, (1 - SLACK) * 0.8 / float(m.norm())) for m in matrices(part))
        assert torch.allclose(clipped.total(), oracle, rtol=1e-12, atol=1e-12)


def test_normalising_equals_the_one_at_a_time_oracle():
    parts = two_layers(5)
    for part, clipped in zip(parts, Normalise(0.1).apply(parts), strict=True):
        oracle = sum((1 - SLACK) * m / (float(m.norm()) + 0.1) for m in matrices(part))
        assert torch.allclose(clipped.total(), oracle, rtol=1e-12, atol=1e-12)


def test_joint_clipping_never_clips_more_than_per_layer_at_the_same_noise():
    parts = two_layers(8, rows=50)
    each = PerLayerClip((0.4, 0.9))
    joint = JointClip(tuple(math.sqrt(2) * t for t in (0.4, 0.9)))
    names, shapes = ["a", "b"], [p.shape for p in parts]
    assert [p.scale for p in each.promise(blocks_of(names, shapes))] == pytest.approx(
        [p.scale for p in joint.promise(blocks_of(names, shapes))]
    )
    kept_each = torch.stack([p.norms() for p in each.apply(parts)])
    kept_joint = torch.stack([p.norms() for p in joint.apply(parts)])
    inside = (torch.stack([p.norms() for p in parts]) <= torch.tensor([[0.4], [0.9]])).all(dim=0)
    assert torch.allclose(kept_joint[:, inside], kept_each[:, inside], rtol=1e-4)


@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_share_that_is_not_finite_becomes_zero(bound, bad, side):
    for dtype in (torch.float32, torch.float64):
        parts = [OuterPart(p.left.to(dtype), p.right.to(dtype)) for p in two_layers(2)]
        getattr(parts[0], side)[4, 1] = bad
        bounded = bound.apply(parts)
        assert all(torch.isfinite(p.total()).all() for p in bounded)
        assert bounded[0].norms()[4] == 0
        others = [i for i in range(9) if i != 4]
        clean = bound.apply(two_layers(2))
        assert torch.allclose(bounded[0].norms()[others], clean[0].norms()[others], rtol=1e-5)


def test_huge_and_tiny_single_precision_shares_stay_inside():
    left = torch.tensor([[3e38, 3e38], [1e-45, 0.0], [3e38, 1e-45]])
    right = torch.tensor([[3e38, 1.0], [1e-45, 1e-45], [1e-38, 3e38]])
    for bound in BOUNDS[:1] + BOUNDS[2:4]:
        (bounded,) = bound.apply([OuterPart(left, right)])
        (partition,) = bound.promise(blocks_of(["a"], [(2, 2)]))
        assert (bounded.norms() <= partition.scale).all()
        assert torch.isfinite(bounded.total()).all()


def test_bad_thresholds_are_named():
    for make in (lambda v: PerLayerClip(v), lambda v: JointClip(v)):
        for value in (0.0, -1.0, math.inf, math.nan, (1.0, 0.0)):
            with pytest.raises(ArgumentError, match=r"threshold=|kappa="):
                make(value)
    with pytest.raises(ArgumentError, match="gamma="):
        Normalise(0.0)
    with pytest.raises(ArgumentError, match="one for each of the 3 layers"):
        PerLayerClip((1.0, 2.0)).promise(blocks_of(["a", "b", "c"], [(1,)] * 3))


def test_unbounded_changes_nothing():
    parts = two_layers()
    assert Unbounded().apply(parts) == parts
    assert all(math.isinf(p.scale) for p in Unbounded().promise(blocks_of(["a", "b"], [p.shape for p in parts])))


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


def test_gram_norms_and_sums_equal_the_matrices():
    draw = SeededNoise(4)
    part = GramPart(draw.normal((7, 3)), draw.normal((7, 5)))
    each = torch.einsum("nj,ni,nk->njik", part.weights, part.inputs, part.inputs)
    assert part.shape == (3, 5, 5)
    assert torch.allclose(part.norms(), each.flatten(1).norm(dim=1), rtol=1e-12)
    assert torch.allclose(part.total(), each.sum(dim=0), atol=1e-12)
    assert torch.equal(part.total(), part.total().transpose(1, 2))
    factors = torch.linspace(0, 1, 7, dtype=torch.float64)
    assert torch.allclose(part.scaled(factors).total(), (factors.reshape(-1, 1, 1, 1) * each).sum(dim=0), atol=1e-12)
    part.inputs[2, 1] = math.nan
    (bounded,) = PerLayerClip(1.0).apply([part])
    assert torch.isfinite(bounded.total()).all()


def test_a_partitions_scale_is_a_plain_number():
    """One number is checked, written to the ledger and multiplied with the noise."""
    assert type(Partition("a", (1,), np.float16(0.3)).scale) is float
