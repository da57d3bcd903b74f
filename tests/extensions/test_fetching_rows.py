"""Fetching from a store: one after the other, and every column of the kind that was promised."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from dpmac.extensions.stores import BackgroundFetcher
from shelves import Shelf


def test_a_store_is_asked_one_thing_at_a_time_and_in_order():
    """A store need not be able to do two at once, and what was asked first is needed first."""
    at_work = threading.Semaphore(1)

    class Busy(Shelf):
        def fetch(self, rows):
            assert at_work.acquire(blocking=False)
            time.sleep(0.01)
            at_work.release()
            return super().fetch(rows)

    shelf = Busy(torch.arange(10.0))
    ahead = BackgroundFetcher(shelf)
    coming = [ahead.fetch(torch.tensor([row])) for row in range(4)]
    assert [float(one.result()._columns[0]) for one in coming] == [0.0, 1.0, 2.0, 3.0]
    assert torch.cat(shelf.asked).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("wrong", ["missing", "one more", "kind", "width", "rows"])
def test_every_column_that_a_store_gives_is_checked(wrong):
    columns = torch.zeros(10, 2), torch.zeros(10, 3)

    class Moody(Shelf):
        def fetch(self, rows):
            first, second = super().fetch(rows)
            return {
                "missing": (first,),
                "one more": (first, second, second),
                "kind": (first, second.double()),
                "width": (first, second[:, 1:]),
                "rows": (first, second[1:]),
            }[wrong]

    with pytest.raises(TypeError, match="another kind than it has said"):
        BackgroundFetcher(Moody(*columns)).fetch(torch.arange(4)).result()
