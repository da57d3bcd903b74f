"""Poisson sampling: every row independently at rate q; batches that can be spent once."""

from __future__ import annotations

import collections
import copy
import itertools
import math
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from doorway import blocks_of
from dpmac.checks import ArgumentError
from dpmac.kernels.chunks import CHUNK
from dpmac.kernels.padding import Padding, block_size
from dpmac.privacy import PoissonSampler, PrivateRows, sampling
from dpmac.randomness import SeededNoise, SystemNoise

# --- samples --------------------------------------------------------------------------------------------------------


class Keys(SystemNoise):
    """Gives the uniforms it was told to, one list a call."""

    def __init__(self, *keys):
        self.keys = list(keys)

    def uniform(self, count):
        assert len(self.keys[0]) == count
        return torch.tensor(self.keys.pop(0), dtype=torch.float64)


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize(
    ("n", "rate", "draws"),
    [pytest.param(10_000_000, 1e-6, 12, marks=pytest.mark.long), (200_000, 1e-3, 20), (1000, 0.3, 300)],
)
def test_sizes_are_binomial(n, rate, draws):
    for source in (SeededNoise(11), SystemNoise()):
        sampler = PoissonSampler(n, rate, source)
        total = sum(len(sampler.draw()) for _ in range(draws))
        assert stats.binomtest(total, n * draws, rate).pvalue > 1e-6


@pytest.mark.parametrize("rate", [1e-9, 1e-6, 0.3])
def test_a_place_is_drawn_below_the_rate_to_the_last_bit(rate):
    keys = [np.nextafter(rate, 0), rate, np.nextafter(rate, 1), 0.0, 1 - 2.0**-53]
    assert PoissonSampler(5, rate, Keys(keys)).draw().tolist() == [0, 3]


def test_rows_are_equally_likely_and_independent():
    sampler = PoissonSampler(40, 0.25, SeededNoise(2))
    draws = 8000
    member = torch.zeros(draws, 40, dtype=torch.float64)
    for row in member:
        row[sampler.draw()] = 1.0
    assert (member.mean(dim=0) - 0.25).abs().max() < 5.5 * math.sqrt(0.25 * 0.75 / draws)
    correlation = torch.corrcoef(member.T) - torch.eye(40)
    assert correlation.abs().max() < 6 / math.sqrt(draws)
    # the size of a batch varies: a fixed-size sample would not be what the accountant assumes
    assert member.sum(dim=1).var() == pytest.approx(40 * 0.25 * 0.75, rel=0.1)


def test_rate_one_takes_everything_and_a_tiny_rate_takes_nothing():
    assert torch.equal(PoissonSampler(100, 1.0, SystemNoise()).draw(), torch.arange(100))
    assert len(PoissonSampler(3, 1e-9, SystemNoise()).draw()) == 0


@given(n=st.integers(1, 400), rate=st.floats(0.001, 1.0), seed=st.integers(0, 1000))
def test_indices_are_sorted_unique_and_in_range_in_any_chunking(n, rate, seed):
    whole = PoissonSampler(n, rate, SeededNoise(seed)).draw()
    assert torch.equal(whole, torch.unique(whole))
    assert whole.numel() == 0 or (whole.min() >= 0 and whole.max() < n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "_CHUNK", 7)
        assert torch.equal(whole, PoissonSampler(n, rate, SeededNoise(seed)).draw())


@pytest.mark.parametrize("rate", [0.0, -0.1, 1e-12, 1.1, math.nan])
def test_bad_rates_are_named(rate):
    with pytest.raises(ArgumentError, match="rate="):
        PoissonSampler(10, rate, SystemNoise())


@pytest.mark.parametrize("n", [0, -3, 2.5, True, "10"])
def test_numbers_of_rows_that_are_none_are_named(n):
    with pytest.raises(ArgumentError, match="n="):
        PoissonSampler(n, 0.5, SystemNoise())


@pytest.mark.parametrize("rate", [1, np.float32(0.25), Fraction(1, 3)])
def test_a_rate_is_kept_as_the_double_that_the_ledger_writes(rate):
    kept = PoissonSampler(10, rate, SystemNoise()).rate
    assert (type(kept), kept) == (float, float(rate))


def test_the_rest_of_the_places_are_those_from_the_first_on():
    assert PoissonSampler(10, 1.0, SystemNoise()).draw(3).tolist() == list(range(7))
    whole = PoissonSampler(100, 0.5, SeededNoise(1)).draw()
    assert PoissonSampler(100, 0.5, SeededNoise(1)).draw(30).tolist() == (whole[whole >= 30] - 30).tolist()


@pytest.mark.parametrize("rate", [0.01, 0.5])
def test_the_operating_systems_places_are_not_drawn_by_uniforms_of_53_bits(rate, monkeypatch):
    """They would be off by up to 2**-53 at a rate below 1/32, and the documentation says that the rate is exact."""
    monkeypatch.setattr(SystemNoise, "uniform", None)
    assert len(PoissonSampler(2000, rate, SystemNoise()).draw()) < 2000


# --- batches --------------------------------------------------------------------------------------------------------


def test_a_batch_is_spent_once_and_hides_its_size():
    rows = PrivateRows(torch.arange(10.0)[:, None])
    batch = rows.sample(PoissonSampler(10, 0.5, SeededNoise(0)))
    list(batch.spend(Padding(10), 4, SeededNoise(1)))
    with pytest.raises(RuntimeError, match="already released"):
        batch.spend(Padding(10), 4, SeededNoise(1))
    with pytest.raises(TypeError):
        len(batch)
    assert batch.sample_rate == 0.5


def test_of_many_threads_that_spend_one_batch_one_succeeds():
    batch = PrivateRows(torch.zeros(3, 1)).everything()
    threads, start, found = 8, threading.Barrier(8), []

    def spend():
        start.wait()
        try:
            found.append(batch.spend(Padding(3), None, SystemNoise()))
        except RuntimeError:
            found.append(None)

    everyone = [threading.Thread(target=spend) for _ in range(threads)]
    for one in everyone:
        one.start()
    for one in everyone:
        one.join()
    assert len(found) == threads
    assert found.count(None) == threads - 1


def test_what_a_batch_was_drawn_with_cannot_be_changed():
    batch = PrivateRows(torch.zeros(10, 1)).sample(PoissonSampler(10, 0.5, SystemNoise()))
    names = set(vars(batch))
    public = ("sample_rate", "overflow", "seeded", "unit", "world", "origin", "device", "expected_rows")
    assert {*public, "_places", "_rows", "_unspent"} <= names
    for name in names:
        before = getattr(batch, name)
        with pytest.raises(AttributeError, match=f"{name} of a batch cannot be changed"):
            setattr(batch, name, 1e-9)
        assert getattr(batch, name) is before


def test_a_batch_cannot_be_copied_to_be_spent_twice():
    batch = PrivateRows(torch.zeros(3, 1)).everything()
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="only once"):
            attempt(batch)


@given(size=st.integers(1, 15))
def test_blocks_hold_every_row_once_and_all_have_one_shape(size):
    table = torch.arange(1.0, 31.0).reshape(10, 3)
    spent = blocks_of(PrivateRows(table, table[:, :1]).everything(), size, SeededNoise(size))
    blocks = [(block, weights.bool()) for block, weights in spent]
    assert {x.shape for (x, _), _ in blocks} == {(size, 3)}
    assert len(blocks) == math.ceil(10 / size)
    found = torch.cat([x[real] for (x, _), real in blocks])
    assert torch.equal(found[found[:, 0].argsort()], table)
    assert torch.equal(torch.cat([y[real] for (_, y), real in blocks]), found[:, :1])
    assert all(not x[~real].any() for (x, _), real in blocks)


def spots_of(table, keys):
    """Where each value of ``table`` lies, when the keys of the four spots are ``keys``."""
    (((block,), _),) = blocks_of(table.sample(PoissonSampler(table.n, 1.0, SystemNoise())), 4, Keys(keys))
    return {float(value): spot for spot, value in enumerate(block.flatten()) if value}


def test_the_spots_of_other_rows_have_the_same_law_with_and_without_a_row():
    """All 24 orders of 4 spots: whichever row goes, the others' spots are as often what they were; and if its place
    stays, blank, they are the very same."""
    orders = list(itertools.permutations([0.1, 0.2, 0.3, 0.4]))
    whole = PrivateRows(torch.tensor([[1.0], [2.0], [3.0]]))
    for gone in range(3):
        others = [value for value in (1.0, 2.0, 3.0) if value != gone + 1]

        def law(table, others=others):
            seen = [spots_of(table, keys) for keys in orders]
            return [tuple(spots[value] for value in others) for spots in seen]

        shorter = collections.Counter(law(PrivateRows(torch.tensor(others)[:, None])))
        assert collections.Counter(law(whole)) == shorter
        assert set(shorter.values()) == {2}  # 12 pairs of spots, equally likely
        assert law(whole) == law(whole.without(gone))


def test_of_all_places_each_has_the_spot_of_its_number_whoever_else_is_there():
    table = PrivateRows(torch.arange(1.0, 71.0)[:, None])
    for gone in ((), (40,), (40, 0)):
        fewer, expected = table, torch.cat([torch.arange(1.0, 71.0), torch.zeros(26)])
        for place in gone:
            fewer = fewer.without(place)
            expected[place] = 0
        blocks = [x.flatten() for (x,), _ in blocks_of(fewer.everything(), 32, Keys())]  # nothing is drawn
        assert torch.equal(torch.cat(blocks), expected)


def test_parts_of_a_sample_are_what_one_draw_would_give_if_it_can_be_replayed():
    whole = PoissonSampler(1000, 0.1, SeededNoise(3)).draw()
    parts = [(0, 400), (400, 0), (400, 599), (999, 1)]
    found = [first + PoissonSampler(1000, 0.1, SeededNoise(3)).draw(first, count) for first, count in parts]
    assert torch.equal(torch.cat(found), whole)


def test_a_part_that_cannot_be_replayed_is_drawn_by_itself():
    sampler = PoissonSampler(10**12, 0.5, SystemNoise())  # all places would not fit into memory
    counts = [len(sampler.draw(first, 1000)) for first in (0, 10**11, 10**12 - 1000)]
    assert all(400 < count < 600 for count in counts)
    assert sampler.draw(5, 0).shape == (0,)


def test_the_block_size_is_the_least_that_makes_few_equal_blocks():
    assert block_size(201, None) == 204  # all in one, up to a multiple of four
    assert block_size(1300, None) == 1320  # six chunks of one length, a multiple of four
    assert block_size(1300, 100) == 120  # eleven blocks: ten of 128 would be too few
    assert block_size(9300, None) == 3120  # three blocks, not two full ones and a bit
    assert block_size(1, None) == block_size(32, 1) == 32
    assert block_size(200, None, 2) == 224  # of persons, a multiple of 32
    for capacity in (1, 63, 64, 65, 4607, 4608, 4609, 100_001):
        for micro in (None, 1, 100, 5000):
            size = block_size(capacity, micro)
            assert size >= 32
            assert size % 32 == 0 or size % (4 * math.ceil(size / CHUNK)) == 0
            assert size <= (4608 if micro is None else 32 * math.ceil(micro / 32))


def test_tables_that_do_not_fit_are_refused():
    with pytest.raises(ArgumentError, match="columns"):
        PrivateRows(torch.zeros(3, 1), torch.zeros(4, 1))
    with pytest.raises(ArgumentError, match=r"sampler\.n=5"):
        PrivateRows(torch.zeros(3, 1)).sample(PoissonSampler(5, 0.5, SystemNoise()))
    with pytest.raises(ArgumentError, match="at least one tensor"):
        PrivateRows()
