"""Every process has rows of its own: the same rows given to two are refused before anything is spent."""

from __future__ import annotations

import numpy as np
import pytest

from dpmac import DPMACClassifier, Machine
from processes import together_run, values

X = np.random.default_rng(0).normal(size=(240, 3))
Y = (X[:, 0] > 0).astype(int)


def fitted(world, shown):
    mine = {"all": slice(None), "parts": slice(world.rank, None, world.size)}[shown]
    x = np.zeros_like(X) if shown == "alike" else X
    model = DPMACClassifier((), epsilon=1.0, classes=[0, 1], feature_range=(-4, 4), epochs=1)
    model.machine = Machine(world=world)
    model.fit(x[mine], Y[mine])
    return model.plan_.n


def test_a_whole_table_in_every_process_is_refused():
    """Found in review: the usual habit under torchrun, by which every row counts once for each process."""
    ended = together_run(2, fitted, "all")
    assert [one.error for one in ended] == ["ArgumentError", "ArgumentError"]
    assert all("X='processes 0 and 1': they were given the same rows" in one.words for one in ended)


@pytest.mark.parametrize("size", [2, 3])
def test_parts_of_a_table_are_not(size):
    assert values(together_run(size, fitted, "parts")) == [240] * size
