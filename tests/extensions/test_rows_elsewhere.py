"""Rows that are fetched: the same parts, the same releases, bit for bit, as of rows in memory."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from doorway import ONE, ask, blocks_of
from dpmac.checks import ArgumentError
from dpmac.extensions.stores import BackgroundFetcher, Fetched
from dpmac.kernels.padding import Padding
from dpmac.nets.feature_maps import ToRange
from dpmac.privacy import DensePart, PoissonSampler, PrivateRows, gaussian_release
from dpmac.randomness import SeededNoise
from shelves import Shelf

X = SeededNoise(0).normal((300, 5)).float()
Y = torch.arange(300.0)[:, None]


@given(rows=st.lists(st.integers(-1, 19), max_size=40))
def test_fetched_rows_are_found_by_their_numbers(rows):
    table, wanted = torch.arange(100.0).reshape(20, 5), torch.tensor(rows, dtype=torch.int64)
    ready = BackgroundFetcher(Shelf(table)).fetch(wanted).result()
    columns, places = ready.at(wanted)
    assert torch.equal(places >= 0, wanted >= 0)
    assert torch.equal(columns[0][places[places >= 0]], table[wanted[wanted >= 0]])


@pytest.mark.parametrize("rate", [None, 0.3, 1.0])
@pytest.mark.parametrize("groups", [None, [row // 3 for row in range(300)]], ids=["rows", "persons"])
@pytest.mark.parametrize("micro", [None, 32])
def test_a_release_is_the_same_bit_for_bit(rate, groups, micro):
    shelf = Shelf(X, Y)
    feature_map = ToRange(torch.tensor(-3.0).double(), torch.tensor(3.0).double())

    def parts(x, y):
        return [DensePart(0.1 * (x.double() * y.double()).tanh().sum(dim=1, keepdim=True))]

    found = []
    for table in (PrivateRows(X, Y, groups=groups), PrivateRows(shelf, groups=groups)):
        asked = {"sigma": 1.0, "source": SeededNoise(4), "micro_batch": micro, "rate": rate}
        found.append(ask(ONE, parts, rows=table.behind(feature_map), **asked)["a"])
    assert torch.equal(*found)
    assert shelf.asked


def test_only_the_rows_of_a_sample_are_fetched_and_all_of_them_at_once():
    shelf = Shelf(X)
    sampler = PoissonSampler(300, 0.2, SeededNoise(1))
    places = PoissonSampler(300, 0.2, SeededNoise(1)).draw()
    blocks_of(PrivateRows(shelf).sample(sampler), 32, SeededNoise(2))
    assert len(shelf.asked) == 1
    assert torch.equal(shelf.asked[0], places)
    assert threading.get_ident() not in shelf.threads


def test_a_release_on_everything_goes_through_the_store_in_order():
    shelf = Shelf(X)
    blocks_of(PrivateRows(shelf).everything(), 64, SeededNoise(2))
    assert torch.equal(torch.cat(shelf.asked), torch.arange(300))
    assert {len(rows) for rows in shelf.asked} == {64, 300 % 64}


def test_the_next_block_is_fetched_while_one_is_at_work():
    class Slow(Shelf):
        def fetch(self, rows):
            time.sleep(0.05)
            return super().fetch(rows)

    shelf = Slow(X)
    blocks = PrivateRows(shelf).everything().spend(Padding(len(shelf)), 32, SeededNoise(2))
    next(blocks)
    end = time.monotonic() + 30  # on a loaded machine the other thread may have to wait for its turn
    while len(shelf.asked) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.1)
    assert len(shelf.asked) == 2  # the next, and none beyond it


def test_what_a_store_raises_reaches_whoever_asked_and_nothing_is_spent(monkeypatch):
    class Gone(Shelf):
        def fetch(self, rows):
            raise OSError("the disk is gone")

    monkeypatch.setattr(gaussian_release, "perturbed", lambda *_: pytest.fail("noise was drawn"))
    for rate in (None, 0.5):
        with pytest.raises(OSError, match="the disk is gone"):
            ask(ONE, lambda x: [DensePart(x[:, :1].double() * 0.01)], rows=PrivateRows(Gone(X)), rate=rate)


def test_a_store_comes_alone_and_has_no_neighbour():
    with pytest.raises(ArgumentError, match="give it alone"):
        PrivateRows(Shelf(X), Y)
    with pytest.raises(TypeError, match="build the neighbour's store"):
        PrivateRows(Shelf(X)).without(0)
    assert PrivateRows(Shelf(X)).shapes == [(5,)]
    assert PrivateRows(Shelf(X)).stored
    assert not PrivateRows(X).stored


def test_rows_that_are_not_there_stay_nowhere():
    _, places = Fetched(torch.tensor([3, 7]), (torch.zeros(2, 1),)).at(torch.tensor([[7], [-1], [3]]))
    assert places.tolist() == [[1], [-1], [0]]


@pytest.mark.parametrize("how", ["dtype", "width", "rows"])
def test_a_store_that_gives_another_kind_than_it_has_said_is_refused(how):
    """Precision that follows from the rows which came along would let one row round the others."""

    class Moody(Shelf):
        def fetch(self, rows):
            (found,) = super().fetch(rows)
            return ({"dtype": found.double(), "width": found[:, 1:], "rows": found[1:]}[how],)

    with pytest.raises(TypeError, match="another kind than it has said"):
        ask(ONE, lambda x: [DensePart(x[:, :1].double() * 0.01)], rows=PrivateRows(Moody(X)))
