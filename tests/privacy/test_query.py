"""A query: names of its own, an answer by these names, and parts that must be what the partitions say."""

from __future__ import annotations

import math

import pytest
import torch

from doorway import ONE, ask
from dpmac.checks import ArgumentError
from dpmac.privacy import BrokenPromiseError, DensePart, Ledger, Partition, PositionPart, PrivateRows, Query, Unbounded
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise


def zeros(*shape):
    return DensePart(torch.zeros(shape, dtype=torch.float64))


@pytest.mark.parametrize("names", [[], ["a", "a"], ["a", "b", "a"]])
def test_a_query_needs_partitions_each_with_its_own_name(names):
    with pytest.raises(ArgumentError, match=r"partitions=\[.*\]: give at least one partition, each with its own name"):
        Query("test", [Partition(name, (1,), 1.0) for name in names], lambda x: [])


def test_a_query_cannot_be_changed_after_it_was_checked():
    given = list(ONE)
    query = Query("test", given, lambda x: [DensePart(x)])
    given.append(given[0])
    assert query.partitions == tuple(ONE)
    with pytest.raises(AttributeError):
        query.partitions = ()


def test_the_answer_is_a_mapping_by_name_in_the_order_asked():
    rows = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    shapes = {"z": (1,), "a": (3,), "m": (1, 3)}
    partitions = Unbounded().promise([Partition(name, shape) for name, shape in shapes.items()])

    def parts(x):
        return [DensePart(x[:, :1]), DensePart(x), DensePart(10 * x[:, None])]

    answer = ask(partitions, parts, rows=rows, sigma=0.0)
    assert list(answer) == ["z", "a", "m"]
    assert {name: sums.tolist() for name, sums in answer.items()} == {
        "z": [1.0],
        "a": [1.0, 2.0, 3.0],
        "m": [[10.0, 20.0, 30.0]],
    }
    assert {sums.dtype for sums in answer.values()} == {torch.float64}
    ledger = Ledger()
    ask([p.promised(1.0) for p in partitions], ledger=ledger)
    assert list(ledger.entries[0].scales) == ["z", "a", "m"]


@pytest.mark.parametrize("sigma", [0.0, 1.0])
@pytest.mark.parametrize("missing", [0, 1])
def test_a_partition_without_a_scale_is_refused_before_a_row_is_touched(missing, sigma):
    """No bound has promised anything: without noise too, where no scale could matter."""
    partitions = [Partition("a", (1,), 1.0), Partition("b", (1,), 1.0)]
    name = partitions[missing].name
    partitions[missing] = Partition(name, (1,))
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=f"scale of partition '{name}'=None: no bound has promised one"):
        ask(partitions, lambda x: pytest.fail("a row was touched"), sigma=sigma, ledger=ledger)
    assert len(ledger) == 0


class Liar(DensePart):
    def norms(self):
        return torch.zeros(self.rows, dtype=torch.float64)


BROKEN = {
    "already summed": ((3,), lambda n: zeros(1, 3), "promised a share of shape .* for each row of a block"),
    "another shape": ((3,), lambda n: zeros(n, 2), "for each row of a block; got shares of shape"),
    "half the rows": ((3,), lambda n: zeros(n // 2, 3), "for each row of a block"),
    "a stranger's making": ((1,), lambda n: Liar(torch.full((n, 1), 1e9, dtype=torch.float64)), "was given a Liar"),
    "not symmetric": ((1, 2, 2), lambda n: zeros(n, 1, 2, 2), "is symmetric: its parts must be GramParts"),
    "not symmetric, positions": (
        (2, 2),
        lambda n: PositionPart(torch.zeros(n, 3, 2), torch.zeros(n, 3, 2)),
        "is symmetric: its parts must be GramParts",  # averaging with the transpose would change the sum
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_part_that_is_not_what_was_promised_is_named_by_its_partition(kind):
    shape, make, message = BROKEN[kind]
    partitions = [*ONE, Partition("the bad one", shape, 1.0, symmetric=kind.startswith("not symmetric"))]
    ledger = Ledger()
    with pytest.raises(BrokenPromiseError, match=f"partition 'the bad one' .*{message}"):
        ask(partitions, lambda x: [zeros(len(x), 1), make(len(x))], ledger=ledger)
    assert len(ledger) == 0


def test_as_many_parts_as_partitions():
    for count in (0, 2):
        with pytest.raises(BrokenPromiseError, match=f"{count} parts were given for 1 partitions"):
            ask(ONE, lambda x, count=count: [zeros(len(x), 1)] * count)


@pytest.mark.parametrize("excess", [1.0001, 1e9, math.inf, math.nan])
def test_a_broken_promise_names_the_partitions_and_releases_and_charges_nothing(excess):
    ledger = Ledger()

    def too_much(x):
        part = DensePart(torch.full((len(x), 1), math.sqrt(0.5) * (1 - SLACK), dtype=torch.float64))
        last = torch.where(x == 3, part.values * excess, part.values)  # one real row: empty spots are dropped
        return [part, DensePart(last)]

    partitions, rows = [*ONE, Partition("b", (1,), 1.0)], torch.arange(4.0, dtype=torch.float64)[:, None]
    with pytest.raises(BrokenPromiseError, match=r"promised for \['a', 'b'\]; nothing was released"):
        ask(partitions, too_much, ledger=ledger, rows=rows)
    assert len(ledger) == 0
    ask(partitions, too_much, ledger=ledger, rows=PrivateRows(rows).without(3))  # the others keep it
    assert len(ledger) == 1


def test_parts_get_every_column_of_the_rows():
    seen = []

    def parts(x, y):
        seen.append((tuple(x.shape), tuple(y.shape)))
        return [DensePart((x.sum(dim=1) * y).unsqueeze(1))]

    x, y = SeededNoise(0).normal((5, 2)), torch.arange(5.0, dtype=torch.float64)
    answer = ask(Unbounded().promise(ONE), parts, rows=PrivateRows(x, y), sigma=0.0)
    assert float(answer["a"]) == pytest.approx(float((x.sum(dim=1) * y).sum()))
    assert seen == [((32, 2), (32,))]
