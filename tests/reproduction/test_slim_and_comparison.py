"""The slim results say what the runs said, and new runs are held against them by the right yardstick."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace

import pytest
from fakes import make_run, training

from dpmac.privacy.accounting import Mechanism, epsilon_of
from reproduction.comparison import compare, comparison_text
from reproduction.rows import table_rows
from reproduction.slim import as_text, read_results, read_trials, slim_results, slim_trials
from reproduction.store import Finished

PUBLISHED = {("mnist", "DP-MAC", 2.0): 0.95}


def test_slim_results_hold_each_thing_once_and_read_back_as_the_same_rows(tmp_path):
    finished = [make_run(seed=s, metric=0.9 + s / 70, curve=training(0.9, s)) for s in (3, 1)]
    finished += [make_run("usps", epsilon=math.inf, first_layer=[[0.0] * 4], image_shape=[2, 2])]
    rows = table_rows(finished)
    path = tmp_path / "results.json"
    path.write_text(as_text(slim_results(rows, finished, PUBLISHED, [{"run": "a", "error": "b"}])))
    written = json.loads(path.read_text(), parse_constant=pytest.fail)  # strict JSON: no NaN, no Infinity
    row, last = written["rows"]
    assert [run["seed"] for run in row["runs"]] == [1, 3]
    assert [run["score"] for run in row["runs"]] == [0.9 + 1 / 70, 0.9 + 3 / 70]  # to the last digit
    assert (row["mean"], row["std"]) == (rows[0].mean, rows[0].std)
    assert row["true_epsilon"] == epsilon_of([Mechanism(2.8, 1 / 60, 1800)], 1e-5)
    assert (row["paper"], last["paper"], last["epsilon"], last["true_epsilon"]) == (0.95, None, "inf", "inf")
    assert all(len(column) == 30 for column in row["curve"].values())
    assert row["curve"]["test"][0] == float(f"{statistics.mean(training(0.9, s)[0]['test'] for s in (1, 3)):.5g}")
    assert written["made_with"] == [{"command": "python -m reproduction", "dpmac": "0.1.0", "runs": 3}]
    assert written["failures"] == [{"run": "a", "error": "b"}]
    assert "first_layer" not in path.read_text()
    back = read_results(path)
    plain = [replace(r, curve=(), picture=None) for r in rows]
    assert [replace(r, curve=()) for r in back] == plain
    assert [[p.test for p in r.curve] for r in back] == [row["curve"]["test"], []]


def test_slim_trials_read_back(tmp_path):
    trials = [
        Finished("usps", method, "search", epsilon, number, {"metric": 0.1 * number, "recipe": {"lr": 1}, "more": 1})
        for method in ("DP-MAC", "DP-SGD")
        for epsilon in (1.0, 2.0)
        for number in range(2)
    ]
    path = tmp_path / "search.json"
    path.write_text(as_text(slim_trials(trials)))
    back = read_trials(path)
    assert len(back) == 8
    assert {(t.table, t.row, t.epsilon, t.seed, t.result["metric"]) for t in back} == {
        (t.table, t.row, t.epsilon, t.seed, t.result["metric"]) for t in trials
    }
    assert path.read_text().count('\n {"table"') == 8  # a line a trial


# --- comparison -------------------------------------------------------------------------------------------------------


def rows_of(*metrics, **more):
    return table_rows([make_run(seed=seed, metric=metric, **more) for seed, metric in enumerate(metrics)])


@pytest.mark.parametrize(
    ("new", "committed", "difference", "off", "floored"),
    [
        ((0.92,), (0.90, 0.92), 1 / math.sqrt(2), False, False),  # std 0.01 sqrt 2
        ((0.92, 0.94), (0.90, 0.92), math.sqrt(2), True, False),
        ((0.89,), (0.90, 0.92), -math.sqrt(2), True, False),  # a better error or a worse accuracy: off all the same
        ((0.9005,), (0.9, 0.9), 0.5 / 0.9, False, True),  # no spread at all
        ((0.9020,), (0.9, 0.9), 2 / 0.9, True, True),
        ((0.9020,), (0.9,), 2 / 0.9, True, True),  # a single run has none either
        ((0.9020,), (0.9 - 3e-4, 0.9 + 3e-4), 2 / 0.9, True, True),
    ],
)
def test_differences_are_in_committed_standard_deviations(new, committed, difference, off, floored):
    (found,) = compare(rows_of(*new), rows_of(*committed))
    assert found.difference == pytest.approx(difference)
    assert (found.is_off, found.floored) == (off, floored)
    text = comparison_text([found])
    assert f"{difference:+.2f} std" in text
    assert ("OFF" in text) == off
    assert ("the yardstick is 0.001 of the mean" in text) == floored


def test_rows_are_compared_with_their_like_and_others_are_named():
    committed = [*rows_of(0.90, 0.92), *rows_of(0.5, 0.6, epsilon=8.0)]
    new = [*rows_of(0.90, 0.92), *rows_of(0.2, preset="tight"), *rows_of(0.55, epsilon=8.0, recipe={"lr": 3, "new": 1})]
    found = compare(new, committed)
    assert [c.committed is not None for c in found] == [True, False, True]
    assert [c.is_off for c in found] == [False, False, False]
    assert [c.other_recipe for c in found] == [False, False, True]
    text = comparison_text(found)
    assert "not in git" in text
    assert text.count("another recipe") == 1
    assert "2 of 3 rows compared; 0 off by more than one standard deviation." in text
