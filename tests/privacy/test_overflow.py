"""Room for a sample, and what it costs if a sample does not fit: the chance is public, recorded and set aside."""

from __future__ import annotations

import collections
import itertools
import json
import math

import dp_accounting as dpa
import pytest
import torch
from dp_accounting import pld
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from doorway import blocks_of, capacity
from dpmac.checks import ArgumentError
from dpmac.extensions.entries import from_dict, to_dict
from dpmac.kernels.dense import DensePart
from dpmac.kernels.padding import capacity_for
from dpmac.privacy import Ledger, Mechanism, Plan, PoissonSampler, PrivateRows, release
from dpmac.privacy.accounting import epsilon_of, with_overflow
from dpmac.privacy.entry import Entry
from dpmac.privacy.partition import Partition
from dpmac.privacy.query import Query
from dpmac.privacy.sampling import MIN_OVERFLOW, Batch
from dpmac.randomness import SeededNoise, SystemNoise

# --- the room -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overflow", [MIN_OVERFLOW, 2.0**-36])
@pytest.mark.parametrize(("n", "rate"), [(1, 1e-6), (50, 0.9), (1000, 0.02), (100_000, 0.01), (60_000, 0.13), (7, 1.0)])
def test_the_room_is_public_and_seldom_too_small(n, rate, overflow):
    sampler = PoissonSampler(n, rate, SeededNoise(0), overflow)
    rows = PrivateRows(torch.zeros(n, 1))
    batches = [rows.sample(sampler) for _ in range(3)]
    assert len({capacity(batch) for batch in batches}) == 1
    assert len({sum(len(real) for _, real in blocks_of(batch, 64, SeededNoise(0))) for batch in batches}) == 1
    most = capacity(batches[0])
    assert stats.binom.sf(most - 1, n - 1, rate) <= overflow  # chance that other places take all of it
    assert n * rate <= most <= min(n, n * rate + 60 + 12 * math.sqrt(n * rate))


def test_how_many_blocks_a_sample_is_spent_in_does_not_follow_from_its_rows():
    """An empty sample takes as many as one that is half as large again as expected."""
    rows, sampler = PrivateRows(torch.zeros(1000, 1)), PoissonSampler(1000, 0.1, SeededNoise(0))
    spots = set()
    for drawn in (0, 1, 90, 150):
        batch = rows.sample(sampler)
        object.__setattr__(batch, "_places", torch.arange(drawn))
        (room,) = batch.paddings(0.0)
        spots.add(tuple(at.shape for _, at in batch.spend(room, 32, SeededNoise(1))))
    assert len(spots) == 1


@given(st.integers(1, 10**8), st.floats(1e-9, 1 - 1e-9), st.integers(20, 120))
@example(60_000, 1 / 60, 80)
@example(10**8, 1e-9, 40)
@example(300, 0.85, 36)
def test_the_room_is_enough_by_another_way_to_the_tail(n, rate, bits):
    """The tail's first term, by logarithms of factorials, times the geometric series that is above all its others."""
    c, others = capacity_for(n, rate, 2.0**-bits), n - 1
    if c == n:
        return
    first = math.lgamma(others + 1) - math.lgamma(c + 1) - math.lgamma(others - c + 1)
    first += c * math.log(rate) + (others - c) * math.log1p(-rate)
    ratio = (others - c) * rate / ((c + 1) * (1 - rate))
    assert ratio < 1
    assert (first - math.log1p(-ratio)) / math.log(2) < -bits


def test_less_room_is_less_work():
    assert capacity_for(60_000, 1 / 60, 2.0**-41) <= 1248 < 1300 < capacity_for(60_000, 1 / 60, MIN_OVERFLOW)
    plan = Plan(60_000, 1000, 1000, 1.0, 1e-5)
    assert plan.overflow == 2.0**-41
    assert plan.steps * plan.overflow <= 5e-5 * plan.delta < 2 * plan.steps * plan.overflow
    assert Plan(100, 100, 5, 1.0, 1e-5).overflow == 0  # all rows: nothing is drawn, and there is room for all
    for bad in (0.0, 0.5, math.nan, "often"):
        with pytest.raises(ArgumentError, match="overflow="):
            PoissonSampler(10, 0.5, SystemNoise(), bad)


# --- a sample that is too large -------------------------------------------------------------------------------------


def short(table: PrivateRows) -> Batch:
    return Batch(table._columns, table._rows, None, 0.5, False, 2.0**-20)


def occupied(batch: Batch, seed: int) -> tuple[float, ...]:
    """Which rows lie where, if there is room for three."""
    (((block,), _),) = blocks_of(batch, 3, SeededNoise(seed), wanted=3)
    return tuple(block.flatten().tolist())


def test_a_sample_beyond_its_room_is_cut_to_it_at_random():
    table = PrivateRows(torch.arange(1.0, 6.0)[:, None])
    seen = collections.Counter(occupied(short(table), seed) for seed in range(2400))
    assert set(seen) == set(itertools.permutations((1.0, 2.0, 3.0, 4.0, 5.0), 3))
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4


def test_blank_places_take_no_rows_spot():
    """Else a neighbour's blank place would push another row out, which the argument for sensitivity 2 leaves out."""
    table = PrivateRows(torch.arange(1.0, 6.0)[:, None]).without(0).without(3)
    assert all(sorted(occupied(short(table), seed)) == [2.0, 3.0, 5.0] for seed in range(50))


def test_then_the_row_that_comes_takes_the_spot_of_one_that_goes_and_no_other_moves():
    """The law of what lies where with a fourth row equals: three rows anyhow, then at a chance of 3 in 4 one of them,
    whichever, is replaced by the fourth on its spot. So a sum moves by two rows' shares at most."""
    with_it = collections.Counter(
        occupied(short(PrivateRows(torch.arange(1.0, 5.0)[:, None])), seed) for seed in range(4_000)
    )
    law = collections.Counter()
    for spots in itertools.permutations((1.0, 2.0, 3.0)):
        law[spots] += 1 / 6 / 4
        for gone in range(3):
            law[(*spots[:gone], 4.0, *spots[gone + 1 :])] += 1 / 6 / 4
    assert set(with_it) == set(law)
    observed = [with_it[key] for key in law]
    assert stats.chisquare(observed, [4_000 * p for p in law.values()]).pvalue > 1e-4


# --- the account ----------------------------------------------------------------------------------------------------


def theirs(n: int, rate: float, room: int, sigma: float, steps: int, delta: float) -> float:
    """dp-accounting's own event of truncated samples: the loss of sensitivity 1 mixed with that of sensitivity 2."""
    accountant = pld.PLDAccountant()
    accountant.compose(dpa.TruncatedSubsampledGaussianDpEvent(n, rate, room, sigma), steps)
    return float(accountant.get_epsilon(delta))


@pytest.mark.parametrize(
    ("n", "rate", "sigma", "steps", "bits"),
    [
        (500, 0.4, 4.0, 10, 36),
        (500, 0.4, 4.0, 10, 12),
        *(pytest.param(2000, 0.1, 1.2, 30, bits, marks=pytest.mark.long) for bits in (36, 20)),
        *(pytest.param(500, 0.4, 2.0, 10, bits, marks=pytest.mark.long) for bits in (36, 12)),
        *(pytest.param(300, 0.05, 0.6, 5, bits, marks=pytest.mark.long) for bits in (36, 20, 12)),
    ],
)
def test_the_figure_is_above_dp_accountings_for_truncated_samples(n, rate, sigma, steps, bits):
    room = capacity_for(n, rate, 2.0**-bits)
    ours = epsilon_of([Mechanism(sigma, rate, steps, overflow=2.0**-bits)], 1e-6)
    exact = theirs(n, rate, room, sigma, steps, 1e-6)
    assert ours >= exact * (1 - 1e-9)
    if bits == 36:
        assert ours == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_the_chance_is_set_aside_by_either_accountant(accountant):
    plain, chance = Mechanism(1.0, 0.01, 100), 2.0**-30
    some = Mechanism(1.0, 0.01, 100, overflow=chance)
    assert epsilon_of([some], 1e-5, accountant) == pytest.approx(
        epsilon_of([plain], 1e-5 - 100 * chance, accountant), rel=1e-9
    )
    assert epsilon_of([some], 1e-5, accountant) > epsilon_of([plain], 1e-5, accountant)
    # a delta that the chance would use up: sensitivity 2
    half = Mechanism(0.5, 0.01, 100)
    assert epsilon_of([some], 5e-8, accountant) == epsilon_of([half], 5e-8, accountant)
    assert epsilon_of([some], 1e-7, accountant) < epsilon_of([half], 1e-7, accountant)  # both hold: the better one
    assert epsilon_of([Mechanism(0.015, 0.01, 100, overflow=chance)], 5e-8, accountant) == math.inf


@given(
    st.lists(st.tuples(st.floats(0.5, 5.0), st.integers(0, 50), st.integers(14, 80)), min_size=1, max_size=4),
    st.floats(1e-10, 1e-3),
)
def test_what_is_accounted_for_has_room_and_never_more_than_the_delta(parts, delta):
    mechanisms = [Mechanism(s, 0.1, count, overflow=2.0**-bits) for s, count, bits in parts]
    chance = sum(m.count * m.overflow for m in mechanisms)
    for roomy, left in with_overflow(mechanisms, delta):
        assert all(m.overflow == 0 for m in roomy)
        if [m.noise_multiplier for m in roomy] == [m.noise_multiplier for m in mechanisms]:
            assert 0 < left <= delta - chance
        else:
            assert left == delta < 10.1 * chance
            assert [2 * m.noise_multiplier for m in roomy] == [m.noise_multiplier for m in mechanisms]


def test_there_is_no_cliff_where_the_chance_nears_delta():
    """Found in review: from 4.65 to 29.7, where a tenth of delta was passed."""
    plan = Plan(60_000, 1000, 1000, 1.0, 1e-5)
    found = [epsilon_of(plan.mechanisms(), delta) for delta in (5.1e-9, 4.9e-9, 1e-9, 6e-10)]
    assert found == sorted(found)
    assert found[-1] < 1.2 * found[0]
    assert epsilon_of(plan.mechanisms(), 4e-10) > 20  # less than the chance: sensitivity 2


def test_the_ledger_says_what_the_sampler_did(tmp_path):
    def ask(rows: torch.Tensor) -> list[DensePart]:
        return [DensePart(rows)]

    query = Query("sum", (Partition("sum", (1,), scale=1.0),), ask)
    table, ledger = PrivateRows(torch.full((200, 1), 0.5)), Ledger(tmp_path / "ledger.jsonl")
    for overflow in (2.0**-30, MIN_OVERFLOW):
        batch = table.sample(PoissonSampler(200, 0.2, SystemNoise(), overflow))
        release(batch, query, noise_multiplier=1.0, source=SystemNoise(), ledger=ledger)
    release(table.everything(), query, noise_multiplier=1.0, source=SystemNoise(), ledger=ledger)
    assert [e.overflow for e in ledger.entries] == [2.0**-30, MIN_OVERFLOW, 0.0]
    assert Ledger.load(tmp_path / "ledger.jsonl").entries == ledger.entries
    assert "at most once in 1.1e+09" in str(ledger.statement(1e-5))


def test_lines_of_older_versions_had_room_for_all_but_one_sample_in_2_to_the_80():
    for rate, overflow in ((0.1, MIN_OVERFLOW), (1.0, 0.0)):
        old = to_dict(Entry("training step", 1.0, rate, False, {"layer 1": 1.0}))
        del old["overflow"]
        assert from_dict(json.loads(json.dumps(old))).overflow == overflow
