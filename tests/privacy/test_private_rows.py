"""Neighbouring tables: one row deleted, its place blank, and nothing else moves, behind a feature map or not."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from doorway import ask, blocks_of, capacity
from dpmac.checks import ArgumentError
from dpmac.extensions.persons import USUAL
from dpmac.extensions.row_independence import ROWS
from dpmac.kernels.padding import block_size
from dpmac.privacy import DensePart, Partition, PoissonSampler, PrivateRows
from dpmac.randomness import SeededNoise
from shelves import Shelf

N, WIDTH = 150, 37
MIXING = SeededNoise(0, "/feature map").normal((WIDTH, 5)).float()


def table(n=N):
    draw = SeededNoise(n, "/table")
    return PrivateRows(draw.normal((n, WIDTH)).float(), torch.arange(1, n + 1))


def feature_map(rows):
    """A kernel that rounds by shape and by spot, only grossly so; and zeros do not stay zeros."""
    return (rows @ MIXING).double() + len(rows) + torch.arange(len(rows))[:, None] / 7


def blocks(rows, rate, size=64, seed=3):
    """Everything that a release would see of the rows: the blocks, and which of their spots hold one."""
    batch = rows.everything() if rate == 1 else rows.sample(PoissonSampler(rows.n, rate, SeededNoise(seed)))
    found = blocks_of(batch, size, SeededNoise(seed, "/spots"))
    assert all(((weights == 0) | (weights == 1)).all() for _, weights in found)
    return [(block, weights > 0) for block, weights in found]


@pytest.mark.parametrize("rate", [1.0, 0.4])
@pytest.mark.parametrize(
    "map_of",
    [
        lambda rows, gone: (rows, rows.without(gone)),
        lambda rows, gone: (rows.behind(feature_map), rows.without(gone).behind(feature_map)),
        lambda rows, gone: (rows.behind(feature_map), rows.behind(feature_map).without(gone)),
        lambda rows, gone: (rows.without(0).behind(feature_map), rows.without(0).without(gone).behind(feature_map)),
        lambda rows, gone: (rows.without(0).behind(feature_map), rows.without(gone).behind(feature_map).without(0)),
    ],
    ids=["bare", "behind", "behind, then without", "one blank already", "the other blank later"],
)
@given(gone=st.integers(1, N - 1), seed=st.integers(0, 100))
@settings(max_examples=8)
def test_deleting_a_row_leaves_every_other_rows_numbers_at_their_spots_bit_for_bit(map_of, rate, gone, seed):
    before, after = (blocks(rows, rate, seed=seed) for rows in map_of(table(), gone))
    missing = 0
    for ((x, y), real), ((x_after, y_after), real_after) in zip(before, after, strict=True):
        its = real & (y == gone + 1)
        missing += int(its.sum())
        assert torch.equal(real_after, real & ~its)
        assert torch.equal(torch.where(its[:, None], 0, x), x_after)
        assert torch.equal(torch.where(its, 0, y), y_after)
    drawn = torch.arange(N) if rate == 1 else PoissonSampler(N, rate, SeededNoise(seed)).draw()
    assert missing == int((drawn == gone).sum())


def test_the_deleted_row_is_nowhere_and_everything_public_stays():
    rows = table(40)
    fewer = rows.without(7)
    assert [len(column) for column in fewer._columns] == [39, 39]
    assert 8 not in fewer._columns[1]
    assert [len(column) for column in rows._columns] == [40, 40]  # the table itself is as it was
    assert (
        (fewer.n, fewer.shapes, fewer.device) == (rows.n, rows.shapes, rows.device) == (40, [(WIDTH,), ()], rows.device)
    )
    for rate in (1.0, 0.3):
        a, b = (r.sample(PoissonSampler(40, rate, SeededNoise(1))) for r in (rows, fewer))
        assert (capacity(a), a.expected_rows, a.sample_rate) == (capacity(b), b.expected_rows, b.sample_rate)
        assert torch.equal(a._places, b._places)
    moved = blocks(fewer.to(torch.device("cpu")), 1.0)
    assert all(torch.equal(m, f) for (_, m), (_, f) in zip(moved, blocks(fewer, 1.0), strict=True))
    with pytest.raises(ArgumentError, match="place=7: it is blank already"):
        fewer.without(7)
    with pytest.raises(ArgumentError, match="place=7: it is blank already"):
        fewer.behind(feature_map).without(7)


def test_behind_computes_once_in_blocks_of_a_public_shape_and_keeps_the_targets():
    seen = []

    def listening(rows):
        seen.append(rows.clone())
        return feature_map(rows)

    for n in (40, 5000):  # one block, and two
        seen.clear()
        rows = table(n).without(3)
        through = rows.behind(listening)
        size = block_size(n, None)
        seen[:] = [block for block in seen if len(block) != ROWS]  # made-up rows, which a feature map is tried on first
        assert [len(block) for block in seen] == [size] * math.ceil(n / size)
        whole, computed = torch.cat(seen), torch.cat([feature_map(block) for block in seen])
        assert not whole[3].any()  # the blank place, as the filling at the end
        assert not whole[n:].any()
        assert (through.n, through.shapes) == (n, [(5,), ()])
        found = blocks(through, 1.0, size)
        assert len(seen) == math.ceil(n / size)  # spending computes nothing anew
        x, y = (torch.cat([block[i][real] for block, real in found]) for i in (0, 1))
        order = y.argsort()
        assert y[order].tolist() == [i for i in range(1, n + 1) if i != 4]
        assert torch.equal(x[order], computed[y[order] - 1])
        assert torch.equal(whole[y[order] - 1], table(n)._columns[0][y[order] - 1])
        for (block, targets), real in found:  # a blank place is zero, not the feature map of zeros
            assert not block[~real].any()
            assert not targets[~real].any()
    tracked = torch.ones(3, WIDTH, requires_grad=True)
    ((x,), _), *_ = blocks(PrivateRows(tracked).behind(feature_map), 1.0)
    assert not x.requires_grad


@pytest.mark.parametrize("map_of", [lambda rows: rows, lambda rows: rows.behind(feature_map)], ids=["bare", "behind"])
def test_a_table_of_blank_places_gives_pure_noise(map_of):
    rows = table(5)
    for place in (4, 0, 2, 1, 3):
        rows = rows.without(place)
    rows = map_of(rows)
    assert rows.n == 5
    assert not any(bool(real.any()) or bool(x.any()) for (x, _), real in blocks(rows, 1.0))
    partitions = [Partition("a", (20_000,), 2.0)]

    def parts(x, y):
        return [DensePart((x[:, :1] + 1e-3).double().expand(-1, 20_000))]

    assert not ask(partitions, parts, rows=rows, sigma=0.0)["a"].any()
    noisy = ask(partitions, parts, rows=rows, sigma=3.0, source=SeededNoise(0))["a"]
    assert float(noisy.std()) == pytest.approx(6.0, rel=0.03)
    assert abs(float(noisy.mean())) < 6 * 6.0 / math.sqrt(20_000)


def test_a_table_on_another_device_has_a_feature_map_only_if_it_had_one():
    there = torch.device("meta")
    assert PrivateRows(torch.zeros(40, 2)).to(there).shapes == [(2,)]
    assert PrivateRows(torch.zeros(40, 2)).behind(lambda rows: rows[:, :1]).to(there).shapes == [(1,)]


def test_a_person_brings_as_many_rows_as_the_estimators_say_unless_told():
    assert PrivateRows(torch.zeros(20, 1), groups=torch.zeros(20).long())._rows.max_rows == USUAL


@pytest.mark.parametrize("stored", [False, True])
def test_a_feature_map_that_mixes_rows_is_refused(stored):
    rows = torch.zeros(40, 2)
    with pytest.raises(ArgumentError, match=r"feature_map.*lets rows influence each other"):
        PrivateRows(Shelf(rows) if stored else rows).behind(lambda x: x - x.mean(dim=0))
