"""All layers asked at once: the answers are those of each by itself, and so are the sums."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpmac.privacy import (
    DensePart,
    JointClip,
    Ledger,
    OuterPart,
    Partition,
    PerLayerClip,
    PrivateRows,
    Query,
    release,
)
from dpmac.privacy import parts as parts_room
from dpmac.privacy.alike import joint_norms, measure, scaled, totals
from dpmac.privacy.chunks import joined
from dpmac.privacy.door import BrokenPromiseError
from dpmac.privacy.parts import LARGEST
from dpmac.randomness import SeededNoise

ROWS = 70


def parts(seed=0, count=3, huge=None, dtype=torch.float32):
    draw = SeededNoise(seed)
    found = []
    for k in range(count):
        left, right = (draw.normal((ROWS, d)).to(dtype) for d in (2 + k, 5 - k))
        if huge is not None and k == 1:
            left[3] = huge
        found.append(OuterPart(left, right, one=k != 1))
    return found


def one_by_one(found, scales):
    return functools.reduce(torch.hypot, [part.norms() / scale for part, scale in zip(found, scales, strict=True)])


@given(st.integers(0, 50), st.sampled_from([(1.0, 1.0, 1.0), (0.3, 7.0, 1e-3)]), st.sampled_from([None, "one", "each"]))
def test_joint_norms_are_those_of_parts_asked_one_by_one(seed, scales, factors):
    found, alone = parts(seed), parts(seed)
    draw = SeededNoise(seed).spawn("factors")
    if factors == "one":
        common = draw.uniform(ROWS).masked_fill_(torch.arange(ROWS) % 5 == 0, 0.0)
        found, alone = ([p.scaled(common) for p in these] for these in (found, alone))
    elif factors == "each":
        several = [-draw.uniform(ROWS) for _ in found]
        found, alone = ([p.scaled(f) for p, f in zip(these, several, strict=True)] for these in (found, alone))
    torch.testing.assert_close(joint_norms(found, scales), one_by_one(alone, scales), rtol=1e-13, atol=0.0)


def test_what_is_not_finite_shows_and_a_factor_of_0_hides_it():
    for huge in (float("inf"), float("nan"), 3e38):
        found = parts(huge=huge)
        norms = joint_norms(found, (1.0, 1.0, 1.0))
        assert not 0 <= float(norms[3]) <= 1e30
        assert torch.isfinite(norms[torch.arange(ROWS) != 3]).all()
        hidden = scaled(found, (torch.arange(ROWS) != 3).double())
        assert float(joint_norms(hidden, (1.0, 1.0, 1.0))[3]) == 0.0
        assert all(torch.isfinite(total).all() for total in totals(hidden, 1))


def test_lengths_are_the_same_and_never_below_the_true_ones():
    found, alone = parts(4), parts(4)
    measure(found)
    assert all(part.measured for part in found)
    for one, other in zip(found, alone, strict=True):
        for ours, theirs in zip(one.lengths(), other.lengths(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=2e-15, atol=0.0)
        left = torch.linalg.vector_norm(one.left.double(), dim=1)
        right = torch.linalg.vector_norm(torch.cat([one.right.double(), torch.ones(ROWS, int(one.one))], 1), dim=1)
        assert bool((one.lengths()[1] >= left).all())
        assert bool((one.lengths()[2] >= right).all())


def test_vectors_that_were_written_to_are_measured_anew():
    found = parts()
    measure(found)
    found[1].left.mul_(100.0)
    assert not found[1].measured
    torch.testing.assert_close(joint_norms(found, (1.0,) * 3), one_by_one(found, (1.0,) * 3), rtol=1e-13, atol=0.0)


def test_what_a_bound_does_to_norms_reaches_no_length():
    found = parts()
    before = joint_norms(found, (1.0,) * 3)
    for part in found:
        part.norms().zero_()
    joint_norms(found, (1.0,) * 3).zero_()
    assert torch.equal(joint_norms(found, (1.0,) * 3), before)


@pytest.mark.parametrize("bound", [JointClip(0.5), PerLayerClip(0.2)])
@pytest.mark.parametrize("spent", [False, True])
@pytest.mark.parametrize("huge", [None, 2 * LARGEST])
def test_sums_are_those_of_parts_summed_one_by_one(bound, spent, huge):
    kept = (torch.arange(ROWS) % 7 > 0).double()
    expected = [part.scaled(kept).total() for part in bound.apply(parts(2, huge=huge))]
    ours = bound.apply([part.given_up() if spent else part for part in parts(2, huge=huge)])
    found = totals(scaled(ours, kept), 1)
    for one, other, part in zip(found, expected, ours, strict=True):
        torch.testing.assert_close(joined(one, part.shape), other, rtol=1e-6, atol=1e-7)
        assert torch.isfinite(one).all()


def test_a_share_that_is_not_given_up_is_not_overwritten():
    for spent in (False, True):
        found = parts(1)
        copies = [part.left.clone() for part in found]
        totals(scaled([p.given_up() if spent else p for p in found], torch.full((ROWS,), 0.5)), 1)
        assert all(torch.equal(p.left, copy) for p, copy in zip(found, copies, strict=True)) != spent


def test_parts_of_other_kinds_are_asked_one_by_one():
    for mixed in (
        [*parts(), DensePart(torch.ones(ROWS, 2))],
        [*parts(), *parts(dtype=torch.float64)],
        parts(count=1),
    ):
        scales = [2.0] * len(mixed)
        assert torch.equal(joint_norms(mixed, scales), one_by_one(mixed, scales))
        for total, part in zip(totals(mixed, 1), mixed, strict=True):
            assert torch.equal(joined(total, part.shape), part.total())


def test_shares_written_to_after_they_were_measured_are_not_summed():
    """As when two parts, given up by whoever made them, share their vectors: the second would be scaled twice."""
    left, right = (SeededNoise(1).normal((ROWS, 3)).float() for _ in range(2))
    shared = [OuterPart(left, right).given_up(), OuterPart(left, right).given_up()]
    bounded = JointClip(0.5).apply(shared)
    with pytest.raises(RuntimeError, match="written to after they were measured; nothing was released"):
        totals(bounded, 1)


def test_the_layout_of_a_sums_factors_does_not_depend_on_whether_all_rows_fit(monkeypatch):
    """Columns of a wider table: where a row does not fit, rows are blanked in a copy, which has no gaps."""
    seen, exact = [], parts_room.in_chunks

    def watched(a, b, *more):
        seen.append((a.stride(), b.stride()))
        return exact(a, b, *more)

    monkeypatch.setattr(parts_room, "in_chunks", watched)
    for first in (1.0, 2 * LARGEST):
        rows = SeededNoise(2).normal((ROWS, 6)).float()
        rows[3, :3] = first
        (part,) = PerLayerClip(1.0).apply([OuterPart(rows[:, 3:], rows[:, :3])])
        assert bool(part._fits(part.factors).all()) == (first == 1.0)
        part.total()
    assert seen[0] == seen[1]


def test_the_promise_is_checked_before_shares_are_overwritten():
    """A share of 2 where 1 is promised; scaled once more, as it stands in its memory after the sum, it is 1/2."""

    def parts(x):
        return [OuterPart(8 * x, torch.ones_like(x)).given_up().scaled(torch.full((len(x),), 0.25))]

    ledger, query = Ledger(), Query("q", (Partition("p", (1, 1), scale=1.0),), parts, reads=())
    table = PrivateRows(torch.ones(40, 1)).everything()
    with pytest.raises(BrokenPromiseError):
        release(table, query, noise_multiplier=1.0, source=SeededNoise(0), ledger=ledger)
    assert not ledger.entries
