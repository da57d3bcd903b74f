"""Private ranges: what they cost, what they hold, and what they will not do."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.privacy import Ledger, Mechanism, PrivateRows
from dpmac.randomness import SeededNoise
from dpmac.tables import Category, Number, Schema
from dpmac.tables.estimate import BINS, EDGES, NOWHERE, PrivateRanges, occupied

N = 5000


def people(n=N):
    draw = np.random.RandomState(0)
    return {
        "age": draw.randint(18, 95, n),
        "income": np.exp(draw.normal(10, 1, n)),
        "change": draw.normal(0, 3, n),
        "sex": np.array(["F", "M"])[draw.randint(0, 2, n)],
        "share": draw.uniform(0, 1, n),
    }


def estimated(table, **more):
    arguments = {"epsilon": 0.5, "delta": 1e-5, "categories": {"sex": ["F", "M"]}, "source": SeededNoise(1)}
    return Schema.estimate(table, **(arguments | more))


def exact(values, quantile=0.0):
    """The range without noise."""
    rows = PrivateRows(torch.tensor(values, dtype=torch.float64)[:, None])
    return PrivateRanges(0.0, quantile).of(rows, ["a"], SeededNoise(0), Ledger())["a"]


# --- what it holds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_bulk_lies_within_at_epsilon_one_half(seed):
    table = people()
    schema = estimated(table, source=SeededNoise(seed))
    assert list(schema.columns) == list(table)
    for name in ("age", "income", "change", "share"):
        column, values = schema.columns[name], table[name]
        assert np.mean((values >= column.low) & (values <= column.high)) > 0.9
        wide = np.quantile(values, 0.999) - np.quantile(values, 0.001)
        assert column.high - column.low < 3 * wide


def test_more_budget_holds_more():
    table = people()
    schema = estimated(table, epsilon=2.0, quantile=0.0)
    for name in ("age", "income", "change", "share"):
        column, values = schema.columns[name], table[name]
        assert np.mean((values >= column.low) & (values <= column.high)) > 0.98


def test_ranges_end_at_the_public_edges_around_the_values():
    for values, wanted in (
        ([5.0], (5, 6.3)),
        ([17, 90], (16, 100)),
        ([0.0], (0, 1e-6)),
        ([-3.0, 0.7], (-3.15, 0.8)),
        ([1e-9, 1e300], (0, 1e12)),
        ([-1e300, -1e-9], (-1e12, 0)),
        ([1e12, math.nan], (1e11 * 8, 1e12)),
        ([99.99, 100.0], (80, 125)),
    ):
        assert exact(values) == pytest.approx(wanted)


def test_edges_are_public_rising_and_even():
    assert all(a < b for a, b in pairwise(EDGES))
    assert [-edge for edge in EDGES[::-1]] == list(EDGES)
    above = np.array([edge for edge in EDGES if edge > 0])
    assert above[0] == 1e-6
    assert above[-1] == 1e12
    assert np.ptp(np.log10(above[1:] / above[:-1])) < 0.012


def test_a_few_outliers_do_not_stretch_a_range():
    values = [10.0] * 500 + [20.0] * 498 + [1e9, -1e9]
    assert exact(values) == (-1e9, 1.25e9)
    assert exact(values, quantile=0.005) == (10, 25)


def test_even_at_the_largest_quantile_something_is_left():
    assert exact([1.0, 5.0], quantile=0.49)[0] < exact([1.0, 5.0], quantile=0.49)[1]
    assert exact([1.0], quantile=0.49) == (1, 1.25)


def test_noise_alone_is_not_taken_for_rows():
    """200 releases of columns of nothing: a hundredth of them may see something, of five columns each."""
    nothing = PrivateRows(torch.full((100, 5), math.nan, dtype=torch.float64))
    method, source, seen = PrivateRanges(8.0), SeededNoise(3), 0
    for _ in range(200):
        found = method.of(nothing, "abcde", source, Ledger())
        seen += any(range_ is not None for range_ in found.values())
    assert seen <= 9


def test_a_column_of_nothing_gets_a_public_range_and_a_warning():
    table = people() | {"empty": [None] * N}
    with pytest.warns(UserWarning, match=r"no range stood out of the noise for \['empty'\]"):
        schema = estimated(table)
    assert schema.columns["empty"] == Number(*NOWHERE, missing=True)


def test_sparse_neighbours_count_together():
    counts = [0.0] * 16
    counts[4:8] = [3.0] * 4
    assert occupied(counts, 5.0) == [(4, 8, 12.0)]
    assert occupied(counts, 4.0) == [(4, 6, 6.0), (6, 8, 6.0)]
    assert occupied(counts, 2.9) == [(place, place + 1, 3.0) for place in range(4, 8)]
    assert occupied(counts, 7.0) == []


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_one_entry_in_the_ledger_at_the_price_that_was_asked():
    ledger = Ledger()
    schema = estimated(people(), ledger=ledger)
    (entry,) = ledger.entries
    assert (entry.label, entry.sample_rate, entry.seeded) == ("ranges", 1.0, True)
    assert entry.scales == pytest.approx(dict.fromkeys(("age", "income", "change", "share"), 2.0), rel=1e-4)
    assert 0.499 < ledger.epsilon(1e-5) <= 0.5
    assert ledger.mechanisms() == (PrivateRanges(entry.noise_multiplier).mechanism(),)
    assert "ranges of 4 columns estimated from 5000 rows, for epsilon 0.5 at delta 1e-05" in schema.about
    estimated(people(), ledger=ledger, source=None)
    assert [entry.seeded for entry in ledger.entries] == [True, False]


def test_the_mechanism_is_one_gaussian_on_all_rows():
    assert PrivateRanges(3.0).mechanism() == Mechanism(3.0, 1.0, 1, "ranges")


def test_deleting_a_row_moves_the_release_by_exactly_its_promise_at_most():
    names = "abc"
    query = PrivateRanges(1.0).query(names)
    rows = torch.tensor([[1.0, -5.0, 1e300], [math.nan, 0.0, math.inf], [math.nan] * 3], dtype=torch.float64)
    moves = []
    for n in range(3):
        shares = zip(query.parts(rows[n : n + 1]), query.partitions, strict=True)
        moves.append(math.sqrt(sum(float(part.total().square().sum()) / p.scale**2 for part, p in shares)))
    assert moves == pytest.approx([1.0, math.sqrt(1 / 3), 0.0], rel=1e-5)
    assert max(moves) < 1.0
    assert sum(part.total().sum() for part in query.parts(rows[:1])) == 3


def test_the_histogram_is_numpys():
    values = np.concatenate([people()["change"], people()["income"], -people()["income"]])
    (part,) = PrivateRanges(1.0).query("a").parts(torch.from_numpy(values)[:, None])
    assert np.array_equal(part.total().flatten()[:BINS], np.histogram(values, EDGES)[0])


def test_without_privacy_it_says_so():
    ledger = Ledger()
    schema = estimated(people(), epsilon=math.inf, ledger=ledger)
    assert math.isinf(ledger.epsilon(1e-5))
    assert "epsilon inf" in schema.about


# --- what it will not do ----------------------------------------------------------------------------------------------


def test_whether_cells_are_missing_is_not_looked_at():
    schema = estimated(people(), target="income")
    assert all(column.missing == (name != "income") for name, column in schema.columns.items())
    gaps = people() | {"age": [None, *people()["age"][1:]]}
    assert estimated(gaps).columns["age"].missing
    kept = Category(["F", "M"])
    assert estimated(people(), categories={"sex": kept}).columns["sex"] is kept


def test_target_and_positive_are_the_callers():
    schema = estimated(people(), target="sex", positive="F", name="people")
    assert (schema.task, schema.positive, schema.name) == ("classification", "F", "people")
    assert Schema.from_dict(schema.to_dict()) == schema


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"categories": ["sex"]}, "list the values, {'sex': .*: private counts cannot find"),
        ({"categories": {"sx": ["F"]}}, r"categories='sx': the table has no such column; did you mean 'sex'\?"),
        ({"categories": None}, "column 'sex', row 0='[FM]': this column holds numbers.*declare a category"),
        ({"categories": {"sex": "FM"}}, "values='FM': give a list"),
        ({"categories": {name: ["1"] for name in people(3)}}, "no numeric column is left"),
        ({"target": "incme"}, r"target='incme': the table has no such column; did you mean 'income'\?"),
        ({"epsilon": 0}, "epsilon=0: give a number above 0"),
        ({"epsilon": math.nan}, "epsilon=nan: give a number above 0"),
        ({"delta": 0.01}, r"delta=0.01: it must be below 1/n"),
        ({"quantile": 0.5}, "quantile=0.5: give the share of rows"),
        ({"table": {"a": [1.0]}, "categories": None}, "table='1 rows': give at least 2 rows"),
        ({"table": [[1.0]], "categories": None}, "table='list': its columns have no names"),
    ],
)
def test_errors_spend_nothing(more, message):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=message):
        estimated(**({"table": people()} | more | {"ledger": ledger}))
    assert len(ledger) == 0
