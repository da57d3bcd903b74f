"""Rows of a store behind a feature map whose results fit into memory: computed once, and bit for bit as others."""

from __future__ import annotations

import pytest
import torch

from dpmac.nets import DenseNetwork
from dpmac.privacy import Entry, Ledger, Origin, PrivateRows
from dpmac.randomness import SeededNoise
from shelves import Shelf

X, Y = SeededNoise(0).normal((5000, 7)).float(), torch.arange(5000.0)[:, None]
NETWORK = DenseNetwork([7, 40, 3], "relu", source=SeededNoise(1))
TAKEN = 5024 * (3 * 4 + 4)  # bytes behind it, up to a multiple of 32 rows


def numbers(table):
    return [column.numpy().tobytes() for column in table._columns]


@pytest.mark.parametrize("after_another", [False, True])
def test_a_store_behind_a_feature_map_with_room_is_the_table_in_memory_behind_it(after_another):
    shelf = Shelf(X, Y)
    here, there = PrivateRows(X, Y), PrivateRows(shelf)
    if after_another:
        here, there = here.behind(torch.tanh), there.behind(torch.tanh)
        assert there.stored
    found = there.behind(NETWORK, memory=TAKEN)
    assert not found.stored
    assert found._feature_map is None
    assert numbers(found) == numbers(here.behind(NETWORK))
    assert sum(len(rows) for rows in shelf.asked) == 5000  # once


def test_without_room_and_of_persons_it_stays_a_store():
    assert PrivateRows(Shelf(X, Y)).behind(NETWORK).stored
    assert PrivateRows(Shelf(X, Y)).behind(NETWORK, memory=TAKEN - 1).stored
    persons = PrivateRows(Shelf(X, Y), groups=[row // 2 for row in range(5000)])
    assert persons.behind(NETWORK, memory=2**40).stored


def test_what_has_shaped_the_feature_map_goes_with_the_rows():
    ledger = Ledger()
    ledger.append(Entry("step", 1.0, 0.1, {"W": 1.0}))
    shaped = DenseNetwork([7, 2], "relu", source=SeededNoise(1))
    shaped.origin = Origin.of(ledger)
    found = PrivateRows(Shelf(X)).behind(shaped, memory=2**40).origin
    assert found
    assert found == PrivateRows(X).behind(shaped).origin
