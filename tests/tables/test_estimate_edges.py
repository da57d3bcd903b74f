"""Private ranges at their limits: what counts as found, the smallest crowds and deltas, and odd counts."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from dpmac.checks import ArgumentError
from dpmac.privacy import Ledger, PrivateRows
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise
from dpmac.tables import Category, Files, Number, Schema
from dpmac.tables.cell_format import CellFormat
from dpmac.tables.estimate import (
    BINS,
    EDGES,
    NOWHERE,
    WIDTHS,
    PrivateRanges,
    _noise_for,
    _without_first,
    estimated_columns,
    occupied,
)
from dpmac.tables.files import csv_text

TABLE = {"age": [30.0, 40.0] * 50, "who": [f"p{row % 50}" for row in range(100)]}


def estimated(table=TABLE, **more):
    arguments = {"epsilon": 1.0, "delta": 1e-5, "categories": {}, "source": SeededNoise(1), "ledger": Ledger()}
    return Schema.estimate(table, **{**arguments, **more})


# --- what counts as found ---------------------------------------------------------------------------------------------


def windows():
    """Every run of bins that may be asked: (start, stop), narrow ones first."""
    return [(start, min(start + width, BINS)) for width in WIDTHS for start in range(0, BINS, width)]


@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize("sigma", [0.7, 30.0])
def test_a_bin_is_found_when_noise_alone_would_pass_in_one_release_of_a_hundred(columns, sigma):
    """By the union bound over all runs of all columns; the noise of a count is what the release adds to it."""
    added = sigma * PrivateRanges(sigma).query("abcde"[:columns]).partitions[0].scale
    limit = added * NormalDist().inv_cdf(1 - 0.01 / (columns * len(windows())))
    counts = [0.0] * BINS
    counts[200] = limit * (1 + 1e-9)
    assert PrivateRanges(sigma).read(counts, columns) == (EDGES[200], EDGES[201])
    counts[200] = limit * (1 - 1e-9)
    assert PrivateRanges(sigma).read(counts, columns) is None


@given(st.lists(st.integers(-2, 12).map(float), min_size=1, max_size=40), st.integers(0, 8).map(float))
@example([1.0] * 9, 2.0)  # only the widest run passes
def test_runs_are_those_of_a_search_from_narrow_to_wide_and_none_shares_a_bin(counts, limit):
    expected, taken = [], set()
    for width in (1, 2, 4, 8):
        for start in range(0, len(counts), width):
            bins = set(range(start, min(start + width, len(counts))))
            mass = sum(counts[place] for place in bins)
            if not bins & taken and mass / math.sqrt(width) > limit * (1 + 1e-12):
                expected.append((start, max(bins) + 1, mass))
                taken |= bins
    assert occupied(counts, limit) == expected


def test_a_wide_run_does_not_hide_a_narrow_one_behind_it():
    assert occupied([3.0, 3.0, 0.0, 0.0, 1.0, 5.0, 0.0, 0.0], 4.0) == [(5, 6, 5.0), (0, 2, 6.0)]


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, -math.inf])
def test_a_budget_that_is_none_is_refused_and_nothing_is_spent(epsilon):
    """Also one that is infinitely small, which is no estimate without noise."""
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=r"^epsilon="):
        estimated({"age": [20.0, 30.0, 40.0]}, epsilon=epsilon, ledger=ledger)
    assert len(ledger) == 0


@pytest.mark.parametrize("sigma", [-1.0, math.nan, math.inf, "1"])
def test_a_noise_multiplier_that_is_none_is_refused(sigma):
    with pytest.raises(ArgumentError, match=r"^noise_multiplier="):
        PrivateRanges(sigma)


@given(st.lists(st.integers(1, 9).map(float), min_size=1, max_size=9), st.integers(0, 90).map(float))
def test_the_first_runs_are_left_out_while_they_hold_no_more_than_a_mass_but_the_last_is_kept(counts, mass):
    runs = [(place, place + 1, count) for place, count in enumerate(counts)]
    kept = _without_first(runs, mass)
    gone = len(runs) - len(kept)
    assert kept == runs[gone:] != []
    assert sum(counts[:gone]) <= mass
    assert sum(counts[: gone + 1]) > mass or len(kept) == 1


def test_counts_beyond_all_bounds_are_read_as_large_ones():
    for many in (1e300, math.inf):
        assert PrivateRanges(1.0, 0.0).read([0.0] * 200 + [many] + [-many] + [many] * 2 + [0.0] * (BINS - 204), 1) == (
            EDGES[200],
            EDGES[204],
        )
    assert PrivateRanges(1.0).read([-math.inf] * BINS, 1) is None


def test_the_share_outside_is_one_of_what_was_found():
    """Of 1,000 rows found, 5 at each end may be left outside; the sixth is not."""
    for few, low in ((5, 10), (6, 1)):
        values = [1.0] * few + [10.0] * (1000 - few)
        rows = PrivateRows(torch.tensor(values, dtype=torch.float64)[:, None])
        assert PrivateRanges(0.0).of(rows, ["a"], SeededNoise(0), Ledger())["a"] == (low, 12.5)
        rows = PrivateRows(-torch.tensor(values, dtype=torch.float64)[:, None])
        found = PrivateRanges(0.0).of(rows, ["a"], SeededNoise(0), Ledger())["a"]
        assert found[1] == {10: -8, 1: -0.8}[low]


def test_a_range_in_which_nothing_was_found_is_one_that_a_column_can_have():
    assert Number(*NOWHERE).low < 0 < Number(*NOWHERE).high


# --- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-5, 1e-7, 1e-10])
def test_the_price_holds_at_the_delta_that_was_asked_however_small(delta):
    ledger = Ledger()
    schema = estimated({"age": TABLE["age"]}, delta=delta, ledger=ledger)
    assert 0.999 < ledger.epsilon(delta) <= 1.0
    assert f"epsilon 1 at delta {delta:g}, noise multiplier" in schema.about
    assert ledger.entries[0].scales["age"] == pytest.approx(1 / (1 - SLACK), rel=1e-12)


@pytest.mark.parametrize("stored", [False, True])
def test_persons_pay_and_count_as_one_each(stored, tmp_path):
    (tmp_path / "t.csv").write_text(csv_text(TABLE))
    table = Files(tmp_path / "t.csv") if stored else TABLE
    ledger = Ledger()
    schema = estimated(table, groups="who", ledger=ledger)
    assert list(schema.columns) == ["age"]
    assert "estimated from 50 persons" in schema.about
    assert "person" in str(ledger.statement(1e-5))
    (tmp_path / "age.csv").write_text(csv_text({"age": TABLE["age"]}))
    ages = Files(tmp_path / "age.csv") if stored else {"age": TABLE["age"]}
    assert "estimated from 50 persons" in estimated(ages, groups=TABLE["who"]).about
    assert "estimated from 100 rows" in estimated(ages).about


@pytest.mark.parametrize("groups", [None, "who"])
def test_cells_of_files_are_read_as_they_are_written(groups, tmp_path):
    """Ages with a decimal comma, as numbers in memory give them."""
    written = {"age": [f"{age:.1f}".replace(".", ",") for age in TABLE["age"]], "who": TABLE["who"]}
    (tmp_path / "t.csv").write_text(csv_text(written))
    for table in (written, Files(tmp_path / "t.csv")):
        known = {"ledger": Ledger(), "source": SeededNoise(1), "form": CellFormat(decimal=",")}
        columns, _ = estimated_columns(table, 1.0, 1e-5, {} if groups else {"who": ["p1"]}, groups=groups, **known)
        assert 20 < columns["age"].low < 35 < columns["age"].high < 60


# --- the smallest crowds ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:no range stood out")
def test_two_rows_or_persons_are_a_crowd_and_one_is_not(tmp_path):
    assert "estimated from 2 rows" in estimated({"age": [30.0, 40.0]}).about
    assert "estimated from 2 persons" in estimated({"age": [30.0] * 3}, groups=[1, 2, 2]).about
    (tmp_path / "t.csv").write_text("age\n30\n")
    for table in ({"age": [30.0]}, Files(tmp_path / "t.csv")):
        with pytest.raises(ArgumentError, match="table='1 rows'"):
            estimated(table)
    with pytest.raises(ArgumentError, match="groups='1 person'"):
        estimated({"age": [30.0] * 3}, groups=[1, 1, 1])


@pytest.mark.parametrize("groups", [None, "who"])
def test_delta_must_be_below_one_over_the_crowd(groups):
    table, crowd = (TABLE, 50) if groups else ({"age": TABLE["age"]}, 100)
    estimated(table, groups=groups, delta=0.99 / crowd)
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=r"^delta="):
        estimated(table, groups=groups, delta=1 / crowd, ledger=ledger)
    assert len(ledger) == 0


def test_every_numeric_column_is_read_with_its_own_cells():
    table = {"a": [30.0] * 500, "b": [-0.3] * 500, "c": [np.nan] * 250 + [5.0] * 250, "d": ["x", "y"] * 250}
    schema = estimated(table, epsilon=math.inf, categories={"d": ["x", "y"]}, target="a", quantile=0.0)
    assert [(schema.columns[name].low, schema.columns[name].high) for name in "abc"] == [
        (25, 31.5),
        (-0.315, -0.25),
        (5, 6.3),
    ]
    assert schema.columns["d"] == Category(["x", "y"], missing=True)


def test_an_infinite_epsilon_buys_counts_without_noise():
    """The function itself is asked: what it has said before is kept."""
    assert _noise_for.__wrapped__(math.inf, 1e-5) == 0.0
