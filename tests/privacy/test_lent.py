"""Memory that releases gather rows in: one release's at a time, and none of code that may keep what it was given."""

from __future__ import annotations

import threading

import pytest
import torch

from dpmac.mac import FirstOrder, FixedPrediction
from dpmac.nets import DenseNetwork, loss
from dpmac.privacy import DensePart, JointClip, Ledger, Partition, PoissonSampler, PrivateRows, Query, release
from dpmac.privacy.gathering import gathered
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Step

NETWORK = DenseNetwork((6, 9, 3), "relu", source=SeededNoise(0))
STEP = Step(NETWORK, loss("softmax"), FixedPrediction(), FirstOrder(), JointClip(0.5))


def table(rows=400):
    draw = SeededNoise(rows)
    return PrivateRows(draw.normal((rows, 6)).float(), torch.eye(3)[(draw.uniform(rows) * 3).long()])


def answer(rows, query=None, seed=3, **more):
    batch = rows.sample(PoissonSampler(rows.n, 0.3, SeededNoise(seed)))
    asked = STEP.query() if query is None else query
    return release(batch, asked, noise_multiplier=1.0, source=SeededNoise(9), ledger=Ledger(), **more)


def test_a_release_in_memory_used_before_says_the_same():
    """Also where the block before was larger, of which rows are left behind the last one of this."""
    rows = table()
    fresh = [answer(table(), seed=seed) for seed in range(6)]
    again = [answer(rows, seed=seed) for seed in range(6)]
    for one, other in zip(fresh, again, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert len(rows._memory) == 1  # and it is one memory for all of them


def test_two_releases_never_have_the_same_memory():
    rows = table()
    batches = [rows.sample(PoissonSampler(rows.n, 0.3, SystemNoise())) for _ in range(3)]
    at = torch.arange(8).unsqueeze(1)
    with batches[0].lent() as one, batches[1].lent() as other, batches[2].lent() as third:
        found = [take(rows._columns, at)[0][0] for take in (one, other, third)]
        assert len({block.data_ptr() for block in found}) == 3
    assert len(rows._memory) == 3
    with batches[0].lent() as one, batches[1].lent() as other:  # and not when there is memory to lend either
        assert one(rows._columns, at)[0][0].data_ptr() != other(rows._columns, at)[0][0].data_ptr()
    with batches[0].lent() as one:
        assert one(rows._columns, at)[0][0].data_ptr() in {block.data_ptr() for block in found}


def test_threads_that_release_at_once_say_what_they_say_alone():
    rows, queries = table(3000), [Step(NETWORK, *_pieces()).query() for _ in range(4)]
    alone = [answer(table(3000), seed=seed) for seed in range(4)]
    found: list[dict] = [{} for _ in range(4)]

    def work(k):
        for _ in range(8):
            found[k] = answer(rows, queries[k], seed=k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(found, alone, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in other)


def _pieces():
    return loss("softmax"), FixedPrediction(), FirstOrder(), JointClip(0.5)


def test_a_strangers_query_may_keep_what_it_was_given():
    rows, kept = table(), []

    def parts(x, y):
        kept.append(x)
        return [DensePart(torch.zeros(len(x), 1))]

    stranger = Query("q", (Partition("p", (1,), scale=1.0),), parts)
    for seed in (1, 2):
        answer(rows, stranger, seed=seed)
        copies = [x.clone() for x in kept]
    answer(rows)
    assert all(torch.equal(x, copy) for x, copy in zip(kept, copies, strict=True))
    assert len({x.data_ptr() for x in kept}) == len(kept)


def test_rows_are_gathered_into_memory_as_they_are_into_none():
    columns, memory = table()._columns, []
    for count, at in ((50, 0), (20, 7), (90, 3)):
        row_at = torch.arange(at, at + count).unsqueeze(1).masked_fill_(torch.arange(count).unsqueeze(1) % 4 == 0, -1)
        plain, lent = gathered(columns, row_at), gathered(columns, row_at, memory)
        assert torch.equal(plain[1], lent[1])
        assert all(torch.equal(one, other) for one, other in zip(plain[0], lent[0], strict=True))
    assert [len(kept) for kept in memory] == [90, 90]


# --- what an answer looks like ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("micro", [None, 32])
def test_an_answer_of_less_precision_or_apart_is_the_same_answer(micro):
    """The noise is that of a seed; single precision rounds it once, in the end."""
    whole = answer(table(), micro_batch=micro)
    short = answer(table(), micro_batch=micro, dtype=torch.float32)
    apart = answer(table(), micro_batch=micro, apart=True)
    for name, matrix in whole.items():
        assert (matrix.dtype, short[name].dtype) == (torch.float64, torch.float32)
        assert torch.equal(short[name], matrix.float())
        assert torch.equal(apart[name], torch.cat([matrix[:, :-1].flatten(), matrix[:, -1]]))
    for layer, name in zip(NETWORK.weight_layers, whole, strict=True):
        layer.write_gradient(whole[name])
        first = layer.weight.grad.clone(), layer.bias.grad.clone()
        layer.write_gradient(apart[name])
        assert torch.equal(layer.weight.grad, first[0])
        assert torch.equal(layer.bias.grad, first[1])
        layer.weight.grad = layer.bias.grad = None


def test_a_front_that_is_applied_to_every_block_gets_memory_of_its_own():
    kept = []

    def front(rows):
        kept.append(rows)
        return rows * 1.0

    rows = PrivateRows(*table()._columns, groups=torch.arange(400) // 4, max_rows=4).behind(front)
    kept.clear()
    for seed in (1, 2):
        answer(rows, seed=seed)
        copies = [x.clone() for x in kept]
    answer(rows, seed=3)
    assert len({x.data_ptr() for x in kept}) == len(kept) > 2
    assert all(torch.equal(x, copy) for x, copy in zip(kept, copies, strict=False))
