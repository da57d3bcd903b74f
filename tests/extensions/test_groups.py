"""Persons with several rows: whose they are, which of them a release takes, what they weigh, and what is public."""

from __future__ import annotations

import collections
import itertools
import math
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from doorway import ask, blocks_of, capacity
from dpmac.checks import ArgumentError
from dpmac.extensions.feature_maps import TOGETHER
from dpmac.extensions.row_independence import ROWS
from dpmac.kernels.chunks import CHUNK, chunk_of
from dpmac.kernels.padding import MAX_BLOCK, block_size
from dpmac.privacy import (
    DensePart,
    Ledger,
    Partition,
    PerLayerClip,
    Persons,
    PoissonSampler,
    PrivateRows,
    gaussian_release,
    sampling,
)
from dpmac.randomness import SeededNoise
from dpmac.showing import showing

WHO = (1, 3, 1, 2, 3, 3, 3, 3, 4)  # one person of five rows, one of two, two of one
PLACES = (1, 3, 2, 4)  # of the persons, in the order in which they appear


def table(who=WHO, max_rows=2):
    """Rows (person, number of the row): all is seen of whose they are."""
    rows = torch.stack([torch.tensor(who), torch.arange(len(who))], dim=1).double()
    return PrivateRows(rows, rows[:, 1:] + 0.5, groups=who, max_rows=max_rows)


def spent(rows, rate=1.0, size=64, seed=3):
    batch = rows.everything() if rate == 1 else rows.sample(PoissonSampler(rows.n, rate, SeededNoise(seed)))
    return blocks_of(batch, size, SeededNoise(seed, "/spots"))


# --- ids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        [7, 7, 5, 7],
        ("x", "x", "a", "x"),
        np.array([7.5, 7.5, -1.0, 7.5]),
        np.array(["b", "b", "a", "b"]),
        torch.tensor([1, 1, 0, 1]),
        pd.Series(["b", "b", "a", "b"], name="patient"),
        pd.Series(["b", "b", "a", "b"], dtype="category"),
        pd.Series([2, 2, 1, 2], dtype="Int64"),
        pd.to_datetime(["2020-01-02", "2020-01-02", "2020-01-01", "2020-01-02"]),
        [(1, "a"), (1, "a"), (2, "a"), (1, "a")],
        np.array([True, True, False, True]),
    ],
    ids=lambda ids: type(ids).__name__,
)
def test_equal_ids_are_one_person_whatever_they_are(ids):
    persons = Persons.of(ids, 3)
    assert (len(persons), persons.rows, persons.spots_per_place) == (2, 4, 4)
    groups = {frozenset(persons.order[a:b].tolist()) for a, b in itertools.pairwise(persons.starts.tolist())}
    assert groups == {frozenset({0, 1, 3}), frozenset({2})}
    assert persons.unit == ("person by patient" if getattr(ids, "name", None) else "person")


@pytest.mark.parametrize(
    "ids",
    [
        [1, None, 1],
        [1.0, math.nan, 1.0],
        np.array([1.0, np.nan, 1.0]),
        ["a", "", "a"],
        np.array(["a", "", "a"]),
        pd.Series([1, None, 1], dtype="Int64"),
        pd.Series(["a", None, "a"], dtype="category"),
        pd.to_datetime(["2020-01-02", None, "2020-01-02"]),
        np.ma.MaskedArray([1, 2, 1], mask=[False, True, False]),
    ],
    ids=lambda ids: type(ids).__name__,
)
def test_a_row_that_is_nobodys_is_refused(ids):
    with pytest.raises(ArgumentError, match=r"groups, row 1=.*no id"):
        Persons.of(ids)


def test_what_is_no_column_of_ids_is_refused():
    for bad in ("patient", 5, np.zeros((3, 1)), [[1], [1], [2]]):
        with pytest.raises(ArgumentError, match="groups="):
            PrivateRows(torch.zeros(3, 1), groups=bad)
    with pytest.raises(ArgumentError, match="groups='2 ids': there are 3 rows"):
        PrivateRows(torch.zeros(3, 1), groups=[1, 2])
    for bad in (0, 257, 2.5, True, "four"):
        with pytest.raises(ArgumentError, match="max_rows="):
            PrivateRows(torch.zeros(3, 1), groups=[1, 1, 2], max_rows=bad)


# --- what a release sees --------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=120),
    st.sampled_from([1, 2, 3, 4, 7, 16, 100, 256]),
    st.sampled_from([1.0, 0.3]),
    st.integers(0, 99),
)
@settings(max_examples=60)
def test_blocks_hold_persons_side_by_side_with_one_weight_each(who, most, rate, seed):
    rows = table(who, most)
    together = 1 << (most - 1).bit_length()
    size = block_size(capacity(rows.everything()), 40, together)
    has = collections.Counter(who)
    seen = []
    for (x, y), weights in spent(rows, rate, size, seed):
        assert (len(x), len(x) % together) == (size, 0)
        assert not x[weights == 0].any()
        assert not y[weights == 0].any()
        assert torch.equal(y[weights > 0, 0], x[weights > 0, 1] + 0.5)  # rows stay whole
        for spot in range(0, size, together):
            here, w = x[spot : spot + together], weights[spot : spot + together]
            real = here[w > 0]
            if not len(real):
                continue
            (person,) = set(real[:, 0].long().tolist())
            assert len(real) == min(has[person], most) == len(set(real[:, 1].tolist()))
            assert set(w[w > 0].tolist()) == {1 / len(real)}
            seen.append(person)
    assert len(seen) == len(set(seen))
    places = torch.arange(rows.n) if rate == 1 else sampler_of(rows, rate, seed).draw()
    assert set(seen) == {list(dict.fromkeys(who))[place] for place in places}


def sampler_of(rows, rate, seed):
    return PoissonSampler(rows.n, rate, SeededNoise(seed))


def test_no_person_straddles_a_block_or_a_chunk_of_single_precision():
    for most in range(1, 257):
        together = Persons.of([1], most).spots_per_place
        assert most <= together < 2 * most
        assert CHUNK % together == 0
        for places in (1, 63, 4097, 100_001):
            for micro in (None, 1, 100):
                size = block_size(places * together, micro, together)
                assert size % together == 0
                assert size <= MAX_BLOCK
                assert chunk_of(size, together) % together == 0


def test_nothing_public_depends_on_how_many_rows_a_person_has():
    """A thousand rows more of one person: the same shapes, the same room, as many draws."""
    few, many = table(WHO), table((*WHO, *[2] * 1000))
    assert (few.n, few.shapes) == (many.n, many.shapes)
    for rate in (1.0, 0.6):
        a, b = (rows.sample(sampler_of(rows, rate, 0)) for rows in (few, many))
        assert (capacity(a), a.expected_rows, a.spots_per_place, a.unit) == (
            capacity(b),
            b.expected_rows,
            b.spots_per_place,
            b.unit,
        )
        source = [SeededNoise(5), SeededNoise(5)]
        shapes = [
            [x.shape for (x, _), _ in blocks_of(batch, 32, draw)] for batch, draw in zip((a, b), source, strict=True)
        ]
        assert shapes[0] == shapes[1]
        assert torch.equal(source[0].uniform(3), source[1].uniform(3))


@pytest.mark.parametrize(
    "map_of", [lambda rows: rows, lambda rows: rows.behind(lambda x: x @ torch.ones(2, 3).double())]
)
@given(gone=st.integers(0, 3), seed=st.integers(0, 200), rate=st.sampled_from([1.0, 0.5]))
@settings(max_examples=25)
def test_a_person_that_goes_takes_all_its_rows_and_leaves_every_other_number_as_it_was(map_of, gone, seed, rate):
    whole = map_of(table())
    fewer = whole.without(gone)
    assert (fewer.n, fewer.shapes) == (whole.n, whole.shapes)
    person = PLACES[gone]
    assert all(len(column) == 9 - WHO.count(person) for column in fewer._columns)
    for ((x, y), w), ((x_after, y_after), w_after) in zip(
        spent(whole, rate, 32, seed), spent(fewer, rate, 32, seed), strict=True
    ):
        its = torch.isin((y[:, 0] - 0.5).long(), torch.tensor([i for i, p in enumerate(WHO) if p == person]))
        its &= w > 0
        assert torch.equal(torch.where(its, 0, w), w_after)
        assert torch.equal(torch.where(its[:, None], 0, x), x_after)
        assert torch.equal(torch.where(its[:, None], 0, y), y_after)
    with pytest.raises(ArgumentError, match="blank already"):
        fewer.without(gone)


def test_a_person_of_many_rows_brings_every_set_of_them_equally_often_and_anew():
    rows, seen = table(max_rows=2), collections.Counter()
    for seed in range(800):
        (((x, _), weights),) = spent(rows, seed=seed)
        seen[tuple(sorted(x[(weights > 0) & (x[:, 0] == 3), 1].long().tolist()))] += 1
    assert set(seen) == set(itertools.combinations((1, 4, 5, 6, 7), 2))
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4


def test_which_rows_a_person_brings_depends_on_no_other_person():
    """The same draws: whoever else is there, the person brings the same rows."""
    for seed in range(20):
        found = [spent(rows, seed=seed) for rows in (table(), table().without(0), table().without(3).without(2))]
        brought = [[x[x[:, 0] == 3, 1].tolist() for (x, _), _ in blocks] for blocks in found]
        assert brought[0] == brought[1] == brought[2]


def test_a_feature_map_of_persons_is_computed_once_in_blocks_of_public_shape():
    seen = []

    def feature_map(x):
        seen.append(len(x))
        return torch.cat([x, x], dim=1).float()

    for plain in (table(), table().without(2), table((*WHO, *[2] * 500))):
        seen.clear()
        rows = plain.behind(feature_map).behind(lambda x: 2 * x)
        assert set(seen) == {ROWS, TOGETHER}  # the trial on made-up rows; and every block
        assert rows.shapes == [(4,), (1,)]
        seen.clear()
        (((x, y), weights),) = spent(rows)
        assert not seen
        assert (x.shape, x.dtype) == ((64, 4), torch.float32)
        (((raw, raw_y), raw_weights),) = spent(plain)
        assert torch.equal(x.double(), 2 * torch.cat([raw, raw], dim=1))
        assert torch.equal(y, raw_y)
        assert torch.equal(weights, raw_weights)
    assert torch.equal(spent(rows.to(torch.device("cpu")))[0][0][0], spent(rows)[0][0][0])


def test_a_place_without_a_row_in_its_turn_is_blank_behind_a_feature_map():
    """It must not hold a row of somebody else; and who waits is told how many persons are done."""
    n, seen, told = TOGETHER + 3, [], []
    who = [*range(n), 5, 5, n - 1]  # most bring one row, two of them more

    def feature_map(rows):
        seen.append(rows.clone())
        return rows

    @contextmanager
    def bar(work):
        yield lambda *done: told.append((work, *done))

    x = torch.arange(1.0, len(who) + 1).unsqueeze(1)
    with showing(bar):
        PrivateRows(x, groups=who).behind(feature_map)
    blocks = [block.flatten() for block in seen if len(block) == TOGETHER][1:]  # after one of zeros, for its shape
    brought = [sorted(block[block > 0].tolist()) for block in blocks]
    first, last = x.flatten()[:TOGETHER].tolist(), x.flatten()[TOGETHER:n].tolist()
    assert brought == [first, [n + 1], [n + 2], last, [n + 3]]
    assert told == [("mapping rows", TOGETHER, n), ("mapping rows", n, n)]


@given(
    counts=st.lists(st.integers(1, 6), min_size=2, max_size=30),
    gone=st.integers(0, 29),
    more=st.integers(0, 700),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_a_mapped_row_depends_on_its_person_and_place_alone(counts, gone, more, seed):
    """By a map that shows place and shape: with the rows of a person gone, or hundreds more, all others stay."""
    gone, draw = gone % len(counts), SeededNoise(seed)
    others = torch.tensor([p for p, count in enumerate(counts) for _ in range(count - 1)] + more * [gone])
    mixed = others[torch.argsort(draw.uniform(len(others)))].long()
    who = torch.cat([torch.arange(len(counts)), mixed])
    x = draw.normal((len(who), 3))

    def placed(rows):
        return torch.cat([rows, rows @ torch.ones(3, 2).double(), torch.arange(len(rows)).double()[:, None]], dim=1)

    whole = PrivateRows(x, groups=who.tolist())
    (first,), (blank,) = (rows.behind(placed)._columns for rows in (whole, whole.without(gone)))
    assert torch.equal(first[who != gone], blank)
    assert torch.equal(first[:, :3], x)
    assert torch.equal(first[:, 5], who.double())  # every person has a place of its own


def test_one_row_a_person_is_a_table_of_rows():
    """With max_rows=1 even the work is the same; the sums are, whatever max_rows is."""
    x = SeededNoise(1).normal((40, 3))
    partitions, bound = [Partition("a", (3,))], PerLayerClip(1.0)
    answers = [
        ask(bound.promise(partitions), lambda r: bound.apply([DensePart(r)]), rows=rows, sigma=0.0)["a"]
        for rows in (PrivateRows(x), *(PrivateRows(x, groups=range(40), max_rows=k) for k in (1, 3, 4)))
    ]
    for other in answers[1:]:
        torch.testing.assert_close(other, answers[0])


# --- the promise, the room and the account --------------------------------------------------------------------------


def clipped(rows):
    return PerLayerClip(1.0).apply([DensePart(rows)])


def test_the_sum_is_an_average_over_each_persons_rows():
    x = torch.tensor([[0.5], [0.1], [0.3], [0.2]])
    rows = PrivateRows(x, groups=["a", "b", "b", "c"], max_rows=4)
    answer = ask(PerLayerClip(1.0).promise([Partition("a", (1,))]), clipped, rows=rows, sigma=0.0)["a"]
    assert float(answer) == pytest.approx(0.5 + 0.2 + 0.2)


def test_the_door_checks_the_sum_over_a_person(monkeypatch):
    """Every row keeps its promise, and two of one person's together do not: a wrong weight is found out."""
    x = torch.full((4, 1), 0.9)
    rows = PrivateRows(x, groups=[1, 1, 2, 3], max_rows=2)
    partitions = PerLayerClip(1.0).promise([Partition("a", (1,))])
    ledger, exact = Ledger(), sampling.gathered
    ask(partitions, clipped, rows=rows, ledger=ledger)
    monkeypatch.setattr(sampling, "gathered", lambda *where: (exact(*where)[0], (exact(*where)[1] > 0).double()))
    with pytest.raises(gaussian_release.BrokenPromiseError):
        ask(partitions, clipped, rows=rows, ledger=ledger)
    assert len(ledger) == 1


def test_a_sample_of_too_many_persons_is_cut_to_its_room_person_by_person():
    def brought(seed, rows):
        batch = sampling.Batch(rows._columns, rows._rows, None, 0.5, False, 2.0**-20)
        (((x, _), weights),) = blocks_of(batch, 4, SeededNoise(seed), wanted=2)
        return tuple(sorted(set(x[weights > 0, 0].long().tolist())))

    whole, two = table(), table().without(0).without(3)
    seen = collections.Counter(brought(seed, whole) for seed in range(600))
    assert set(seen) == set(itertools.combinations((1, 2, 3, 4), 2))
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4
    assert all(brought(seed, two) == (2, 3) for seed in range(30))


def test_persons_are_drawn_and_their_rows_are_not():
    rows, counts = table((1,) * 50 + (2,) + (3,) * 5), collections.Counter()
    for seed in range(600):
        sampler = PoissonSampler(3, 0.3, SeededNoise(seed))
        blocks = blocks_of(rows.sample(sampler), 64, SeededNoise(seed, "/s"))
        counts.update({person for (x, _), w in blocks for person in x[w > 0, 0].long().tolist()})
    for person in (1, 2, 3):
        assert stats.binomtest(counts[person], 600, 0.3).pvalue > 1e-5


@pytest.mark.parametrize("name", [None, 7, ("a", "b")])
def test_a_name_that_is_no_text_is_none(name):
    """A ledger has the unit's name, and compares it as text."""
    persons = Persons.of(pd.Series([1, 2, 2], name=name))
    assert (persons.name, persons.unit) == ("", "person")
