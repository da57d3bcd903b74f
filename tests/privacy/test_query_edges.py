"""Queries and partitions: what is fixed when they are made, and what a copy must not share."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from doorway import ONE, ask
from dpmac.bounds.allocation import promised
from dpmac.privacy import DensePart, Partition, Query


def test_a_query_made_from_another_has_a_recording_of_its_own():
    """A graph that was recorded for other parts would be replayed for these."""
    query = Query("one", ONE, lambda x: [DensePart(x)])
    other = replace(query, parts=lambda x: [DensePart(2 * x)])
    assert other.recording is not query.recording


def test_queries_that_ask_the_same_are_equal_whatever_was_recorded():
    query = Query("one", ONE, torch.sum)
    again = replace(query)
    again.recording._seen = 2
    assert query == again
    assert hash(query) == hash(again)


def test_a_shape_may_be_any_sequence():
    for shape in ([2], (2,), torch.zeros(2).shape):
        partition = Partition("a", shape, 1.0)
        assert type(partition.shape) is tuple
        assert ask([partition], lambda x: [DensePart(torch.zeros(len(x), 2))])["a"].shape == (2,)


def test_every_partition_is_promised_one_scale():
    partitions = [Partition("a", (1,)), Partition("b", (1,))]
    assert [p.scale for p in promised(partitions, [1.0, 2.0])] == [1.0, 2.0]
    for scales in ([1.0], [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match="zip"):
            promised(partitions, scales)
