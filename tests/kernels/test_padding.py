"""Room by a noisy count: what it costs is in the noise, what it hides is hidden, and there is a spot for every row."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from doorway import capacity
from dpmac.kernels.padding import _BITS, COUNT_NOISE_RATIO, MIN_SAVING, Padding, capacity_for, paddings
from dpmac.privacy import (
    Ledger,
    OuterPart,
    Partition,
    Plan,
    PoissonSampler,
    PrivateRows,
    Query,
    gaussian_release,
    release,
)
from dpmac.privacy.noise import Grid
from dpmac.randomness import SeededNoise, SystemNoise

USUAL = (60_000,), 1 / 60, 2.0**-41  # of the places in a process, the rate, and the chance of no room
SIGMAS = st.floats(0.05, 50.0)


class Given(SystemNoise):
    """Hands out one draw, whatever is asked for."""

    def __init__(self, steps):
        self.number = steps

    def steps(self, sizes, bits, device="cpu"):
        assert (list(sizes), bits) == ([1], _BITS)
        return iter([torch.tensor([float(self.number)], dtype=torch.float64)])


# --- what it costs ----------------------------------------------------------------------------------------------------


@given(SIGMAS)
def test_the_count_and_the_sums_together_are_the_mechanism_of_the_ledger(sigma):
    """1 / s**2 + 1 / c**2 <= 1 / sigma**2 in fractions, with the multipliers that the draws really have."""
    (room,) = paddings(*USUAL, sigma)
    sums = Fraction(sigma * room.widening)
    if room.deviation == 0.0:
        assert room.widening == 1.0
        return
    count = Fraction(2**_BITS, room._steps)  # the deviation of the noise, over what one row adds
    assert 1 / sums**2 + 1 / count**2 <= 1 / Fraction(sigma) ** 2
    assert room.widening < 1.00505


@pytest.mark.usefixtures("repeatable_noise")
def test_the_release_adds_that_much_noise():
    """Zeros only, so an answer is noise alone: 200,000 numbers, whose deviation is off by 1 % in one run of 10^10."""
    table = PrivateRows(torch.zeros(60_000, 400), torch.zeros(60_000, 500))
    sampler = PoissonSampler(60_000, 1 / 60, SystemNoise(), 2.0**-41)
    query = Query("q", (Partition("p", (400, 500), scale=2.0),), lambda a, b: [OuterPart(a, b)])
    answer = release(table.sample(sampler), query, noise_multiplier=1.0, source=SystemNoise(), ledger=Ledger())["p"]
    (room,) = paddings(*USUAL, 1.0)
    wide = 2.0 * room.widening
    assert float(answer.std()) == pytest.approx(wide, rel=0.01)
    grid = Grid.of(1.0 * room.widening, query.partitions, room.most)
    assert 2.0**grid.bits * grid.step >= room.widening * (1 + grid.step * math.sqrt(200_000))


def test_the_release_asks_for_the_wider_noise(monkeypatch):
    """2**bits steps, over what the sum can move by on the grid, are sigma times the widening at least."""
    grids, exact = [], gaussian_release.perturbed

    def watched(*given, **form):
        grids.append(given[3])
        return exact(*given, **form)

    monkeypatch.setattr(gaussian_release, "perturbed", watched)
    batch = PrivateRows(torch.ones(60_000, 1)).sample(PoissonSampler(60_000, 1 / 60, SystemNoise(), 2.0**-41))
    (room,) = batch.paddings(1.0)
    query = Query("q", (Partition("p", (1, 1), scale=1.0),), lambda x: [OuterPart(0 * x, x)])
    release(batch, query, noise_multiplier=1.0, source=SystemNoise(), ledger=Ledger())
    assert room.widening > 1.005
    assert 2.0 ** grids[0].bits * grids[0].step >= room.widening * (1 + grids[0].step)


def test_the_ledger_says_the_same_as_without_a_count():
    table, ledgers = PrivateRows(torch.zeros(60_000, 1)), (Ledger(), Ledger())
    query = Query("q", (Partition("p", (1, 1), scale=1.0),), lambda a: [OuterPart(a, a)])
    for ledger, sigma in zip(ledgers, (1.0, 40.0), strict=True):  # so much noise that a count saves nothing
        batch = table.sample(PoissonSampler(60_000, 1 / 60, SystemNoise(), 2.0**-41))
        assert (batch.paddings(sigma)[0].deviation > 0) == (sigma == 1.0)
        release(batch, query, noise_multiplier=sigma, source=SystemNoise(), ledger=ledger)
    one, other = (ledger.entries[0] for ledger in ledgers)
    assert (one.overflow, one.sample_rate, one.scales) == (other.overflow, other.sample_rate, other.scales)
    assert (one.noise_multiplier, other.noise_multiplier) == (1.0, 40.0)


# --- what it hides ----------------------------------------------------------------------------------------------------


def test_spots_are_a_function_of_the_count_with_its_noise():
    """A row more and a draw that is a row's steps less: the very same number of spots, for all draws."""
    (room,) = paddings(*USUAL, 1.0)
    for steps in (-(2**_BITS) * 5, -12345, 0, 1, 7 * 2**_BITS // 3):
        one = room.spots(1000, Given(steps))
        assert one == room.spots(1001, Given(steps - room._steps)) == room.spots(990, Given(steps + 10 * room._steps))


@pytest.mark.usefixtures("repeatable_noise")
def test_the_noise_on_the_count_has_its_deviation():
    (room,) = paddings(*USUAL, 1.0)
    drawn = torch.tensor([float(room.spots(1000, SystemNoise())) for _ in range(4000)])
    drawn = drawn[drawn < room.most]
    assert float(drawn.std()) == pytest.approx(COUNT_NOISE_RATIO, rel=0.06)
    assert float(drawn.mean()) == pytest.approx(1000 + room.margin / room._steps + 0.5, abs=1.0)


def test_nothing_is_counted_without_noise_on_all_rows_or_on_a_gpu():
    for shards, rate, overflow, sigma in (
        ((60_000,), 1 / 60, 2.0**-41, 0.0),
        ((60_000,), 1.0, 0.0, 1.0),
        ((60_000,), 1 / 60, 2.0**-41, 30.0),  # it would take more room than there is
        ((200,), 0.1, 2.0**-41, 1.0),
    ):
        (room,) = paddings(shards, rate, overflow, sigma)
        assert (room.deviation, room.widening) == (0.0, 1.0)
        assert room.spots(10**9, Given(0)) == room.most == capacity_for(shards[0], rate, overflow)


def test_all_shards_are_counted_or_none():
    """Two processes that added different noise, or none, to their sums would not make one mechanism."""
    for shards in ((30_000, 30_000), (59_000, 1000), (59_999, 1)):
        found = paddings(shards, 1 / 60, 2.0**-41, 1.0)
        assert len({(room.deviation, room.widening, room.chance) for room in found}) == 1
        assert [room.most for room in found] == [
            capacity_for(n, 1 / 60, 2.0**-42 if room.deviation else 2.0**-41)
            for n, room in zip(shards, found, strict=True)
        ]


# --- a spot for every row ---------------------------------------------------------------------------------------------


@given(SIGMAS, st.integers(15, 80))
def test_the_chance_of_no_room_is_that_of_the_ledger(sigma, bits):
    """Half of it for the noise, which leaves no spot for one row more only below its quantile; half for the sample."""
    (room,) = paddings((60_000,), 1 / 60, 2.0**-bits, sigma)
    if room.deviation == 0.0:
        return
    count = 1000
    enough = 1 - room.margin  # the least draw that leaves a spot for count + 1 rows
    assert room.spots(count, Given(enough)) >= min(count + 1, room.most)
    assert room.spots(count, Given(enough - 1)) <= count
    assert norm.cdf((enough - 0.5) / 2.0**_BITS) <= 2.0 ** -(bits + 1) * (1 + 1e-9)
    assert room.most == capacity_for(60_000, 1 / 60, 2.0 ** -(bits + 1))


def test_it_saves_what_it_is_for():
    plan = Plan(60_000, 1000, 1000, 1.0, 1e-5)
    batch = PrivateRows(torch.zeros(60_000, 1)).sample(plan.sampler(SystemNoise()))
    (room,) = batch.paddings(1.0)
    spots = [room.spots(1000, SystemNoise()) for _ in range(50)]
    assert sum(spots) / 50 < 1090 < (1 - MIN_SAVING) * capacity(batch)
    assert min(spots) > 1000
    assert Padding(7).spots(3, SystemNoise()) == 7


# --- in a release -----------------------------------------------------------------------------------------------------


def watched_blocks(table, rate, sigma, monkeypatch, draw):
    """The blocks' sizes and the rows at their spots in one release with that draw on the count."""
    seen, spots = [], Padding.spots

    def parts(x):
        seen.append(x.flatten().clone())
        return [OuterPart(torch.zeros_like(x), x)]

    query = Query("q", (Partition("p", (1, 1), scale=1.0),), parts)
    sampler = PoissonSampler(table.n, rate, SeededNoise(5), 2.0**-41)
    with monkeypatch.context() as patch:
        patch.setattr(Padding, "spots", lambda self, count, _: spots(self, count, Given(draw)))
        release(table.sample(sampler), query, noise_multiplier=sigma, source=SeededNoise(6), ledger=Ledger())
    return torch.stack(seen)


def test_given_the_noisy_count_neighbours_have_blocks_of_one_shape_and_the_same_other_rows(monkeypatch):
    """One row less, and a draw that is its steps more."""
    whole = PrivateRows(torch.arange(1.0, 60_001.0).unsqueeze(1))
    rate, sigma = 1 / 60, 1.0
    (room,) = paddings((whole.n,), rate, 2.0**-41, sigma)
    assert room.deviation > 0
    drawn = PoissonSampler(whole.n, rate, SeededNoise(5), 2.0**-41).draw()
    ours = watched_blocks(whole, rate, sigma, monkeypatch, 0)
    for place in (int(drawn[0]), int(drawn[-1]), 3 if 3 not in drawn else 4):
        shift = room._steps if place in drawn else 0
        other = watched_blocks(whole.without(place), rate, sigma, monkeypatch, shift)
        assert other.shape == ours.shape  # the same count with its noise, the same spots
        if place not in drawn:
            assert torch.equal(ours, other)
            continue
        # (that the spots of the others have the law that they would have without it: test_overflow)
        assert sorted(set(ours.flatten().tolist()) - set(other.flatten().tolist())) == [place + 1.0]


def test_blank_places_are_not_counted(monkeypatch):
    table = PrivateRows(torch.ones(60_000, 1))
    counted = []
    monkeypatch.setattr(Padding, "spots", lambda self, count, _: counted.append(count) or self.most)
    drawn = PoissonSampler(60_000, 1 / 60, SeededNoise(5), 2.0**-41).draw()
    for one in (table, table.without(int(drawn[7]))):
        batch = one.sample(PoissonSampler(60_000, 1 / 60, SeededNoise(5), 2.0**-41))
        batch.spend(batch.paddings(1.0)[0], None, SeededNoise(1))
    assert counted == [len(drawn), len(drawn) - 1]


@pytest.mark.usefixtures("repeatable_noise")
def test_a_room_that_is_too_small_loses_rows_and_nothing_else(monkeypatch):
    """The sum then has as many rows as the capacity, although a block is a multiple of 32 and has more spots."""
    table = PrivateRows(torch.ones(60_000, 1))
    found, exact = [], gaussian_release.perturbed

    def watched(sums, *more):
        found.append(float(sums[0]))
        return exact(sums, *more)

    monkeypatch.setattr(Padding, "spots", lambda *_: 100)
    monkeypatch.setattr(gaussian_release, "perturbed", watched)
    query = Query("q", (Partition("p", (1, 1), scale=2.0),), lambda x: [OuterPart(x, x)])
    sampler = PoissonSampler(60_000, 1 / 60, SystemNoise(), 2.0**-41)
    release(table.sample(sampler), query, noise_multiplier=1.0, source=SystemNoise(), ledger=Ledger())
    assert found == [pytest.approx(100.0, rel=1e-6)]
