"""Blocks and batches at their limits: block sizes, blank places, empty samples, persons, and other devices."""

from __future__ import annotations

import itertools
import json
import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from doorway import ONE, ask, blocks_of, capacity
from dpmac.checks import ArgumentError
from dpmac.extensions.entries import from_dict, to_dict
from dpmac.kernels.chunks import CHUNK
from dpmac.kernels.padding import DEFAULT_BLOCK, MAX_BLOCK, Padding, block_size
from dpmac.privacy import PoissonSampler, PrivateRows, gaussian_release
from dpmac.privacy.entry import Entry
from dpmac.privacy.parts import KEPT
from dpmac.privacy.sampling import Batch, OneRowEach
from dpmac.randomness import SeededNoise, SystemNoise
from shelves import Shelf

TOGETHER = (1, 2, 4, 32, 256)

# --- blocks -----------------------------------------------------------------------------------------------------------


def check_block_size(capacity, micro, together):
    """As few blocks as the micro-batch allows, of the least size in chunks of one length, or that is a multiple."""
    multiple = max(32, together)
    most = min(multiple * math.ceil((DEFAULT_BLOCK if micro is None else micro) / multiple), MAX_BLOCK)
    size = block_size(capacity, micro, together)
    assert size <= most <= MAX_BLOCK
    assert math.ceil(capacity / size) == math.ceil(capacity / most)
    each = max(32, math.ceil(capacity / math.ceil(capacity / most)))
    even = (rows for rows in range(each, most + 1) if rows % (4 * math.ceil(rows / CHUNK)) == 0)
    if together == 1 and (least := next(even, None)) is not None:
        assert size == least
    else:
        assert size % multiple == 0
        assert size - each < multiple


def test_the_block_size_is_right_where_it_just_fits():
    check_block_size(193, 128, 1)  # 97 rows in each of two blocks: 96 would need a third
    check_block_size(4550, None, 1)  # chunks of one length just fit
    check_block_size(MAX_BLOCK, 10**6, 1)


@given(st.integers(1, 60_000), st.none() | st.integers(1, 20_000), st.sampled_from(TOGETHER))
def test_blocks_are_as_few_as_the_micro_batch_allows_and_no_longer_than_sums_may_be(capacity, micro, together):
    check_block_size(capacity, micro, together)


def test_no_block_is_longer_than_the_longest_whose_sums_have_room_to_round():
    """The bounds' argument: 2 u m (m + 2) scales for m rows, of which the release leaves 600 times as much."""
    assert all(block_size(MAX_BLOCK + more, 10**6) <= MAX_BLOCK for more in (-1, 0, 1))
    assert 600 * 2 * 2.0**-53 * MAX_BLOCK * (MAX_BLOCK + 2) <= 1 - KEPT


@pytest.mark.parametrize("together", TOGETHER)
@pytest.mark.parametrize("micro", [None, 1, 100, MAX_BLOCK])
def test_no_more_rows_are_summed_than_the_grid_is_made_for(together, micro):
    """However a process divides its sample into blocks, and although there are more spots than the capacity needs:
    sums of more rows might not be exact, and another process would take them for a lie."""
    persons, seen = 70, []
    ids = torch.arange(persons * together) // together
    table = PrivateRows(torch.zeros(len(ids), 1), groups=ids, max_rows=together)
    for most in (1, 2, 31, 33, 65):
        batch = Batch(table._columns, table._rows, torch.arange(persons), 0.5, False, 2.0**-40)
        blocks = list(batch.spend(Padding(most), micro, SeededNoise(1)))
        summed = sum(int((at >= 0).sum()) for _, at in blocks)
        assert summed <= batch.most_rows([Padding(most)])[0]
        assert sum(int((at >= 0).any(dim=1).sum()) for _, at in blocks) == most
        seen.append(sum(at.shape[0] for _, at in blocks) > most)
    if together < 32:
        assert any(seen)  # somewhere there were more spots


def test_a_table_of_one_row_is_one_block():
    (((block,), weights),) = blocks_of(PrivateRows(torch.ones(1, 1)).everything(), 1, SeededNoise(0))
    assert (block.tolist(), weights.tolist()) == ([[1.0]], [1.0])


# --- what is counted and spent ----------------------------------------------------------------------------------------


class Heard(Padding):
    """A room with a count, which writes down what was counted."""

    def spots(self, count, source):
        self.__dict__.setdefault("counts", []).append(count)
        return self.most


def spent(table, places, room):
    """The blocks of a sample of these places, as a release counts and spends it."""
    batch = Batch(table._columns, table._rows, torch.tensor(sorted(places), dtype=torch.int64), 0.5, False, 2.0**-40)
    return [batch.take(columns, at) for columns, at in batch.spend(room, 32, SeededNoise(1))]


@pytest.mark.parametrize("deviation", [0.5, 10.0])
@given(st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
@example(set(), set())
@example({3}, {3})
@example({0, 3}, {3})
@settings(max_examples=25)
def test_a_blank_place_that_was_drawn_is_as_one_that_was_not(deviation, drawn, blank):
    """Neither counted nor at a spot: all other rows are where they would be, bit for bit."""
    table = PrivateRows(torch.arange(1.0, 9.0)[:, None], torch.arange(8))
    for place in blank:
        table = table.without(place)
    room = Heard(40, deviation, 2.0**-41)
    found, expected = (spent(table, places, room) for places in (drawn, drawn - blank))
    assert room.counts == [len(drawn - blank)] * 2
    assert sorted(x for (xs, _), w in found for x in xs[w > 0, 0].tolist()) == [p + 1.0 for p in sorted(drawn - blank)]
    for ((x, y), w), ((x_expected, y_expected), w_expected) in zip(found, expected, strict=True):
        assert torch.equal(x, x_expected)
        assert torch.equal(y, y_expected)
        assert torch.equal(w, w_expected)


@pytest.mark.parametrize("max_rows", [2, 3])
def test_a_person_with_fewer_rows_than_spots_is_counted_and_spent(max_rows):
    who = (0, 1, 1, 2, 2, 2, 2, 3)
    table = PrivateRows(torch.tensor(who)[:, None].double(), groups=who, max_rows=max_rows).without(3)
    room = Heard(40, 10.0, 2.0**-41)
    found = spent(table, {0, 1, 2, 3}, room)
    assert room.counts == [3]
    brought = [int(person) for (x,), w in found for person in x[w > 0, 0]]
    assert sorted(brought) == sorted(itertools.chain(*([p] * min(who.count(p), max_rows) for p in (0, 1, 2))))


def test_without_a_count_there_are_as_many_spots_as_the_public_room_has():
    for max_rows, together in ((1, 1), (3, 4)):
        batch = PrivateRows(torch.zeros(9, 1), groups=range(9), max_rows=max_rows).everything()
        spots = [at.numel() for _, at in batch.spend(Padding(9), None, SystemNoise())]
        assert capacity(batch) == 9 * together
        assert sum(spots) == block_size(9 * together, None, together)


def test_rows_of_persons_count_towards_the_most_that_a_release_may_sum(monkeypatch):
    """What is added up are the rows at their spots: four for each of three persons."""
    table = PrivateRows(torch.zeros(3, 1), groups=[1, 2, 3], max_rows=3)
    monkeypatch.setattr(gaussian_release, "MAX_ROWS", 12)
    ask(ONE, rows=table)
    monkeypatch.setattr(gaussian_release, "MAX_ROWS", 11)
    with pytest.raises(ArgumentError, match="12 expected rows"):
        ask(ONE, rows=table)


# --- the chance of no room --------------------------------------------------------------------------------------------


def test_the_chance_of_no_room_has_the_limits_that_its_message_names():
    for edge, beyond in ((2.0**-200, 0.0), (2.0**-10, 1.0)):
        assert PoissonSampler(10, 0.5, SystemNoise(), edge).overflow == edge
        with pytest.raises(ArgumentError, match=r"from 2\*\*-200 to 2\*\*-10"):
            PoissonSampler(10, 0.5, SystemNoise(), math.nextafter(edge, beyond))


def test_a_line_of_an_older_version_means_one_sample_in_2_to_the_80_as_its_sampler_did():
    """Those versions had that much room: a smaller number would understate what their releases cost."""
    assert PoissonSampler(10, 0.1, SystemNoise()).overflow == 2.0**-80
    old = to_dict(Entry("training step", 1.0, 0.1, False, {"layer 1": 1.0}))
    del old["overflow"]
    assert from_dict(json.loads(json.dumps(old))).overflow == 2.0**-80


# --- other devices ----------------------------------------------------------------------------------------------------


def test_nothing_is_counted_on_a_gpu():
    """What is recorded there has one shape."""
    sampler = PoissonSampler(60_000, 1 / 60, SystemNoise(), 2.0**-41)
    stored = PrivateRows(Shelf(torch.zeros(60_000, 1)))
    (here,), (there,) = (table.sample(sampler).paddings(1.0) for table in (stored, stored.to(torch.device("cuda"))))
    assert here.deviation > 0
    assert there.deviation == 0


def test_a_feature_map_is_applied_where_it_was_given_and_its_rows_go_to_the_tables_device():
    seen = []

    def feature_map(rows):
        seen.append(rows.device.type)
        return rows + 1

    rows = torch.zeros(40, 2)
    there = PrivateRows(Shelf(rows)).behind(feature_map).to(torch.device("meta"))
    assert there.device == there.everything().device == torch.device("meta")
    seen.clear()
    (block,), _ = there.everything().take((rows,), torch.arange(32)[:, None])
    assert (seen, block.device.type) == (["cpu"], "meta")


@pytest.mark.parametrize("micro_batch", [None, 64])
def test_blocks_on_a_gpu_are_as_long_as_they_may_be_unless_told(micro_batch):
    batch = PrivateRows(torch.zeros(6000, 1)).everything()
    batch.__dict__.update(device=SimpleNamespace(type="cuda"), _blocks=lambda drawn, wanted, size, source: size)
    size = batch.spend(Padding(6000), micro_batch, SeededNoise(1))
    assert size == block_size(6000, micro_batch or MAX_BLOCK)
    assert (size >= 6000) == (micro_batch is None)


def test_only_rows_that_stay_in_memory_as_they_are_can_be_gathered_by_a_recording():
    """It would read a store's block again, or leave a feature map's memory to others."""
    columns, places = (torch.zeros(4, 1),), OneRowEach(torch.arange(4), 4)
    assert Batch(columns, places, None, 1.0, False, 0.0).steady
    assert not Batch(columns, places, None, 1.0, False, 0.0, torch.neg).steady
    assert not Batch(Shelf(*columns), places, None, 1.0, False, 0.0).steady
