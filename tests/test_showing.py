"""A bar for work deep inside a fit: shown where someone asks for it, and told public numbers."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from dpmac.nets.feature_maps import Affine
from dpmac.priors import RangePrior, WhiteningOptions, whitened
from dpmac.privacy import PrivateRows
from dpmac.showing import showing, shown


def bar_into(seen: list):
    @contextmanager
    def bar(work):
        yield lambda done, total: seen.append((work, done, total))

    return bar


def test_nobody_looks_and_then_somebody_does():
    seen: list = []
    with shown("work") as tell:
        tell(1, 2)
    with showing(bar_into(seen)), shown("work") as tell:
        tell(1, 2)
    with pytest.raises(ZeroDivisionError), showing(bar_into(seen)):
        _ = 1 / 0
    with shown("work") as tell:
        tell(2, 2)
    assert seen == [("work", 1, 2)]


def test_a_bar_that_shows_nothing_is_none():
    @contextmanager
    def bar(work):
        yield None

    with showing(bar), shown("work") as tell:
        tell(1, 2)


def test_mapped_rows_are_counted_by_places_whether_there_is_a_row_or_not():
    x = torch.arange(20.0).reshape(10, 2)
    told = []
    for table in (PrivateRows(x), PrivateRows(x).without(3)):
        seen: list = []
        with showing(bar_into(seen)):
            table.behind(Affine(0.0, 2.0))
        told.append(seen)
    assert told[0] == told[1]
    assert told[0][-1] == ("mapping rows", 10, 10)


def test_drawn_rows_are_counted():
    seen: list = []
    with showing(bar_into(seen)):
        whitened(Affine(0.0, 1.25), RangePrior(0.0, 1.0, 3), WhiteningOptions(rows=3_000))
    assert seen == [("mapping drawn rows", 2_048, 3_000), ("mapping drawn rows", 3_000, 3_000)]
