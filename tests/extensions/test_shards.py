"""One process' part of a release that several make: its places, its room, its sums, who pays and who makes noise."""

from __future__ import annotations

import pytest
import torch

from doorway import capacity
from dpmac.checks import ArgumentError
from dpmac.extensions.processes import whole_sums
from dpmac.extensions.world import SingleProcess
from dpmac.kernels.padding import capacity_for
from dpmac.privacy import DensePart, Ledger, Partition, PerLayerClip, PoissonSampler, PrivateRows, Query, release
from dpmac.randomness import SeededNoise, SystemNoise
from processes import together_run, values

SHARDS = (40, 25, 60)
ROWS = SeededNoise(1).normal((sum(SHARDS), 2))


class OneOf(SingleProcess):
    """A process that is told that there are others; what it would send them is kept."""

    size = len(SHARDS)

    def __init__(self, rank):
        self.rank, self.leads, self.sent = rank, rank == 0, []

    def everyone(self, mine):
        return [mine if place == self.rank else count for place, count in enumerate(SHARDS)]

    def released(self, asked, source, ledger):
        self.sent.append(whole_sums(asked, source))
        return {"s": self.sent[-1]}


def shard(rank):
    first = sum(SHARDS[:rank])
    return PrivateRows(ROWS[first : first + SHARDS[rank]], world=OneOf(rank))


def query():
    bound = PerLayerClip(1.0)
    return Query("sum", bound.promise([Partition("s", (2,))]), lambda x: bound.apply([DensePart(x)]))


def test_the_places_of_a_table_are_those_of_all_processes():
    table = shard(1)
    assert table.n == sum(SHARDS)
    with pytest.raises(ArgumentError, match="the table has 125 places"):
        table.sample(PoissonSampler(SHARDS[1], 0.5, SystemNoise()))
    assert table.everything().expected_rows == sum(SHARDS)


def test_seeded_processes_draw_the_parts_of_the_sample_that_one_process_draws():
    whole = PrivateRows(ROWS).sample(PoissonSampler(len(ROWS), 0.3, SeededNoise(4)))._places.tolist()
    found, first = [], 0
    for rank, count in enumerate(SHARDS):
        mine = shard(rank).sample(PoissonSampler(len(ROWS), 0.3, SeededNoise(4)))._places
        found += (mine + first).tolist()
        first += count
    assert found == whole


def test_unseeded_processes_draw_their_own_places_at_the_plans_rate():
    """2,000 samples of 25 places: the number drawn is off by 0.02 of itself at most, at five deviations."""
    table, sampler = shard(1), PoissonSampler(sum(SHARDS), 0.4, SystemNoise())
    drawn = [table.sample(sampler)._places for _ in range(2000)]
    assert sum(map(len, drawn)) == pytest.approx(2000 * SHARDS[1] * 0.4, rel=0.03)
    assert max(int(one.max()) for one in drawn if len(one)) == SHARDS[1] - 1


def test_every_shard_has_room_for_its_own_sample_and_all_of_them_for_all():
    """A row's shard overflows with the chance that the ledger says: not with that of a share of the whole's room."""
    rate, overflow = 0.1, 2.0**-40
    batches = [shard(rank).sample(PoissonSampler(sum(SHARDS), rate, SystemNoise(), overflow)) for rank in range(3)]
    paddings = [capacity_for(count, rate, overflow) for count in SHARDS]
    assert [capacity(batch) for batch in batches] == paddings
    for sigma in (0.0, 1.0):  # too few places for a count to be worth its noise
        assert {tuple(room.most for room in batch.paddings(sigma)) for batch in batches} == {tuple(paddings)}
    assert sum(paddings) > capacity_for(sum(SHARDS), rate, overflow)


def test_what_a_process_sends_are_whole_numbers_of_steps():
    """So they add up exactly, in whatever order."""
    for rank in range(3):
        table = shard(rank)
        release(table.everything(), query(), noise_multiplier=1.0, source=SystemNoise(), ledger=Ledger())
        (sums,) = table.world.sent
        assert torch.equal(sums, sums.round())
        assert float(sums.abs().max()) > 2.0**16


class Watched(SystemNoise):
    """Noise that no one may draw; or that finds out what is on the disk when it is drawn."""

    def __init__(self, path=None):
        super().__init__()
        self.path = path

    def spawn(self, *_):
        return self

    def steps(self, *_):
        if self.path is None:
            raise AssertionError("a process that does not lead has drawn noise")
        raise LookupError(f"{len(Ledger.read(self.path))} releases are on the disk")


def drawn_by(world, path, end):
    """A release in which only the leader may draw noise, or in which it dies of it."""
    watched = Watched(path if end else None)
    source = watched if end or not world.leads else SystemNoise()
    ledger = Ledger(path) if world.leads else Ledger()
    table = PrivateRows(ROWS[:10], world=world)
    return release(table.everything(), query(), noise_multiplier=1.0, source=source, ledger=ledger)["s"].tolist()


def test_only_the_leader_draws_noise(tmp_path):
    first, *others = values(together_run(3, drawn_by, str(tmp_path / "ledger"), False))
    assert others == [first, first]
    assert len(Ledger.read(tmp_path / "ledger")) == 1


def test_the_event_is_on_the_disk_once_when_noise_is_drawn(tmp_path):
    first, *others = together_run(3, drawn_by, str(tmp_path / "ledger"), True)
    assert (first.error, "1 releases are on the disk" in first.words) == ("LookupError", True)
    assert [one.error for one in others] == ["WorldError", "WorldError"]
