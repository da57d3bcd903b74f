"""The door at its edges: any number of blocks, scales that just pass, and what a device changes."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from doorway import ONE, go
from dpmac.checks import ArgumentError
from dpmac.privacy import DensePart, Ledger, Partition, PrivateRows, Query, gaussian_release
from dpmac.privacy.gaussian_release import BrokenPromiseError
from dpmac.privacy.noise import Grid
from dpmac.privacy.parts import KEPT, SLACK
from dpmac.randomness import SeededNoise


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_the_last_block_s_promise_is_checked_however_many_blocks_there_are(blocks):
    ledger, seen = Ledger(), []

    def too_long_at_last(x):
        seen.append(len(x))
        return [DensePart(x + (2.0 if len(seen) == blocks else 0.0))]

    rows = torch.zeros(32 * blocks, 1, dtype=torch.float64)
    with pytest.raises(BrokenPromiseError):
        go(ONE, too_long_at_last, rows=rows, micro_batch=32, ledger=ledger)
    assert len(seen) == blocks
    assert len(ledger) == 0


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_scales_that_the_refusal_names_are_allowed_and_none_beyond_them(scale):
    (noisy,) = go([Partition("a", (1,), scale)])
    assert 0 < abs(float(noisy)) < 20 * scale
    beyond = scale * 1.01 if scale > 1 else scale / 1.01
    with pytest.raises(ArgumentError, match="between 1e-30 and 1e30"):
        go([Partition("a", (1,), beyond)])


def test_as_many_rows_as_a_release_takes_have_room_on_a_grid_with_noise_of_any_use():
    wide = [Partition("a", (10**8,), 1.0)]
    assert Grid.of(0.3, wide, gaussian_release.MAX_ROWS).step > 0
    gaussian_release._check_arguments(SimpleNamespace(expected_rows=gaussian_release.MAX_ROWS), 1.0, None)
    with pytest.raises(ArgumentError, match="would not be exact"):
        Grid.of(0.3, wide, 2**40)
    with pytest.raises(ArgumentError, match="release at most"):  # so the door says it first
        gaussian_release._check_arguments(SimpleNamespace(expected_rows=2**40), 1.0, None)


def test_a_promise_beside_none_is_checked():
    """Without noise a partition may have no bound; another's is held to its own all the same."""
    partitions = [Partition("free", (1,), math.inf), Partition("bounded", (1,), 1.0)]

    def parts(x):
        return [DensePart(x + 100.0), DensePart(x + 2.0)]

    with pytest.raises(BrokenPromiseError):
        go(partitions, parts, sigma=0.0)


@pytest.mark.parametrize("micro_batch", [None, 64])
@pytest.mark.parametrize("ours", [True, False])
def test_on_a_device_queries_of_ours_are_recorded_and_blocks_are_long_unless_told(ours, micro_batch, monkeypatch):
    """Code that is not known to be ours may do something else when it is called again: a replay would not."""
    lengths, recorded = [], []

    def listening(x):
        lengths.append(len(x))
        return [DensePart(x)]

    batch = PrivateRows(torch.zeros(3000, 1, dtype=torch.float64)).everything()
    query = Query("test", tuple(ONE), listening, reads=() if ours else None)

    def recording(work, reads, *where):
        recorded.append(reads)
        return work(*where)

    monkeypatch.setattr(query.recording, "sums", recording)
    spend = batch.spend

    def back_here(*arguments):
        batch.__dict__["device"] = torch.device("cpu")  # where the rows really are
        return spend(*arguments)

    batch.__dict__.update(device=SimpleNamespace(type="cuda"), spend=back_here)
    gaussian_release.ReleaseRequest.of(batch, query, 1.0, SeededNoise(0), 1.0, micro_batch).sums(SeededNoise(0))
    assert recorded == ([()] * len(lengths) if ours else [])
    assert (len(lengths) == 1) == (micro_batch is None)


def test_sums_are_taken_for_whole_steps_unless_told():
    """As those that processes send each other are: steps that are converted to steps again would come out too large."""
    rows = PrivateRows(torch.full((64, 1), 0.5, dtype=torch.float64))
    query = Query("test", tuple(ONE), lambda x: [DensePart(x)])
    request = gaussian_release.ReleaseRequest.of(rows.everything(), query, 0.01, SeededNoise(0), 1.0, 32)
    sums, on_grid = request.sums(SeededNoise(0))
    assert on_grid
    assert float(request.perturbed(sums, SeededNoise(0))["a"]) == pytest.approx(32.0, abs=0.1)


@pytest.mark.parametrize("size", [1.0 - 2e-6, 1.0, 1.0 + 1e-9, 1.0 + 5e-6])
def test_a_share_with_no_room_left_for_rounding_is_refused(size):
    """The release accepts what bounds leave, 1 - SLACK, but nothing that rounding could carry beyond the promise."""
    rows = torch.ones(4, 1, dtype=torch.float64)
    go(ONE, lambda x: [DensePart(x * (1 - SLACK))], rows=rows)
    assert KEPT < 1.0
    with pytest.raises(BrokenPromiseError):
        go(ONE, lambda x: [DensePart(x * size)], rows=rows)
