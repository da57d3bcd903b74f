"""A promise is checked in every block of a release, and of a person over all that the person brings."""

from __future__ import annotations

import pytest
import torch

from doorway import ONE, go
from dpmac.kernels.recording import WARM, Recording
from dpmac.privacy import DensePart, Ledger
from dpmac.privacy.gaussian_release import BrokenPromiseError


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_promise_that_is_broken_in_any_block_stops_the_release(wrong):
    """Three blocks of 32 rows, of which one, the first as well as the last, holds a share that is too long."""
    seen, ledger = [], Ledger()

    def too_long(x):
        seen.append(len(x))
        return [DensePart(x + (2.0 if len(seen) == wrong + 1 else 0.0))]

    rows = torch.zeros(90, 1, dtype=torch.float64)
    with pytest.raises(BrokenPromiseError, match="'a'"):
        go(ONE, too_long, rows=rows, micro_batch=32, ledger=ledger)
    assert seen == [32, 32, 32]
    assert len(ledger) == 0


def test_what_a_replayed_block_finds_of_its_promise_is_handed_on():
    """Of steps that were recorded: the check is made again in every replay, and its answer is not the first one's."""
    kept = torch.tensor(True)

    def recorded(work, columns, spots):
        return lambda spots: ([torch.ones(1)], kept)

    def plain(columns, *spots):
        return [torch.ones(1)], torch.tensor(True)

    recording, columns, spots = Recording(recorded), (torch.zeros(3, 1),), torch.zeros(2, 1, dtype=torch.int64)
    for _ in range(WARM):
        recording.sums(plain, (), columns, spots)
    _, fine = recording.sums(plain, (), columns, spots)
    kept.fill_(False)  # the graph's own memory, which the next replay writes
    _, broken = recording.sums(plain, (), columns, spots)
    assert bool(fine)
    assert not bool(broken)
