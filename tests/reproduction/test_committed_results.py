"""What reproduction/results says is what its runs said, and its runs were of the settings that are in the package."""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dpmac.privacy.statement import round_up
from reproduction.jobs import recipe_of, table_jobs
from reproduction.recipe import Recipe, agrees
from reproduction.rows import true_epsilon
from reproduction.settings import EPSILONS, METRIC, PRESETS, PUBLISHED
from reproduction.slim import RESULTS, read_results
from reproduction.tables import markdown

ROOT = Path(__file__).parents[2]
PAGE = " ".join((RESULTS / "README.md").read_text().split())
ROWS = read_results()
MEANS = {(row.table, row.preset, row.row, row.epsilon): row.mean for row in ROWS}


def test_every_run_is_there_and_is_of_todays_recipe():
    jobs = {
        (job.table, job.row, job.preset, job.epsilon, job.seed): job
        for table in EPSILONS
        for preset in PRESETS
        for job in table_jobs(table, preset, 10)
    }
    assert {(*row.key, run.seed) for row in ROWS for run in row.runs} == set(jobs)
    assert sum(len(row.runs) for row in ROWS) == len(jobs) == 540
    for row in ROWS:
        assert not row.mixed
        assert agrees(row.recipe, recipe_of(jobs[*row.key, 0])), row.key


def test_only_what_was_written_down_must_agree():
    @dataclass(frozen=True)
    class Later(Recipe):
        new: str = "with a default"

    row = next(row for row in ROWS if row.row == "DP-MAC")
    later = Later(**row.recipe)
    assert agrees(row.recipe, later)
    assert not agrees(row.recipe, replace(later, lr=7.0))
    assert not agrees({**row.recipe, "since removed": 1}, later)


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.long)])
def test_what_can_be_reckoned_from_the_file_is_what_it_says(every):
    """The true epsilon of every eighth row here and of all with the long tests; all else of every row.

    True epsilons may move in the last digits with another version of the accountant; all else is exact.
    """
    written = json.loads((RESULTS / "results.json").read_text())
    assert written["failures"] == []
    for place, (slim, row) in enumerate(zip(written["rows"], ROWS, strict=True)):
        scores = [run["score"] for run in slim["runs"]]
        assert slim["mean"] == statistics.fmean(scores)
        assert slim["std"] == statistics.stdev(scores)
        assert slim["paper"] == PUBLISHED.get((row.table, row.row, row.epsilon))
        if place % every == 0:
            again = math.inf if math.isinf(row.epsilon) else true_epsilon(row.mechanisms, row.delta)
            assert row.true_epsilon == pytest.approx(again, rel=1e-3)
        ends = {"mnist": 1 - row.mean, "usps": row.mean}  # the curves end where the scores are
        assert not row.curve or row.curve[-1].test == pytest.approx(ends[row.table], rel=1e-3)
        assert not row.curve or row.curve[-1].epoch == row.recipe["epochs"]


def test_the_files_are_few_and_small_and_one_command_made_the_runs():
    data = [*RESULTS.glob("**/*.json"), *RESULTS.glob("**/*.jsonl")]
    assert {path.name for path in data} == {
        "results.json",
        "search.json",
        "mnist-trials.jsonl",
        "cdbn.json",
        "strokes.json",
    }
    assert max(path.stat().st_size for path in data) < 400 * 1024
    (made,) = json.loads((RESULTS / "results.json").read_text())["made_with"]
    assert made["runs"] == 540
    assert {"dpmac", "torch", "dp-accounting", "python", "machine", "device"} <= set(made)
    (searched,) = json.loads((RESULTS / "search.json").read_text())["made_with"]
    for command in (made["command"], searched["command"]):
        assert command in PAGE


def test_the_table_is_what_the_results_say():
    now = markdown(ROWS, PUBLISHED, METRIC)
    assert (RESULTS / "tables.md").read_text() == now, "python -m reproduction figures --out reproduction/results"


def shown(path, start):
    """The figures of the first row of a Markdown table in ``path`` that begins with ``start``."""
    rows = [line.strip("| ").split("|") for line in path.read_text().splitlines() if line[:1] == "|"]
    row = next(row for row in rows if row[0].strip().startswith(start))
    return [float(figure) for figure in re.findall(r"\d+\.\d+", " ".join(row[1:]))]


@pytest.mark.parametrize(
    ("start", "table", "row"),
    [
        ("DP-MAC, preset tight", "mnist", "DP-MAC"),
        ("DP-MAC, preset tight, from a random start", "usps", "DP-MAC"),
        ("DP-MAC from DP-PCA", "usps", "DP-MAC from DP-PCA"),
        ("linear (DP-PCA)", "usps", "linear (DP-PCA)"),
    ],
)
def test_the_pages_figures_are_the_means(start, table, row):
    digits = 3 if table == "mnist" else 2
    expected = [round(MEANS[table, "tight", row, e], digits) for e in EPSILONS[table]]
    assert shown(RESULTS / "README.md", start) == expected


def test_the_figures_in_the_method_page_are_the_means():
    def private(table, row, digits):
        return [round(MEANS[table, "tight", row, e], digits) for e in EPSILONS[table] if math.isfinite(e)]

    start = "DP-MAC, trained from a random start"
    assert shown(ROOT / "docs" / "method.md", start) == private("mnist", "DP-MAC", 3) + private("usps", "DP-MAC", 2)
    assert shown(ROOT / "docs" / "method.md", "DP-MAC from DP-PCA") == private("usps", "DP-MAC from DP-PCA", 2)


def test_the_pages_epsilons_are_the_true_ones_rounded_up():
    """The paper's own settings, dearest first, as they stand in the page's prose."""
    for table, name, words in (
        ("mnist", "DP-MAC", "epsilon {} on MNIST"),
        ("usps", "DP-MAC", "and {} on USPS"),
        ("usps", "DP-SGD as published", "its true epsilon, {} for"),
    ):
        rows = [row for row in ROWS if (row.table, row.row, row.preset) == (table, name, "paper")]
        private = sorted((row for row in rows if math.isfinite(row.epsilon)), key=lambda row: -row.epsilon)
        assert words.format(" / ".join(round_up(row.true_epsilon, 2) for row in private)) in PAGE


def test_what_was_to_be_reached_is_reached():
    for epsilon, accuracy in ((0.5, 0.925), (2.0, 0.955), (8.0, 0.97)):
        assert MEANS["mnist", "tight", "DP-MAC", epsilon] >= accuracy
    for epsilon, error, whole in ((1.0, 10.0, 6.5), (2.0, 7.9, 5.5), (4.0, 6.5, 5.1), (8.0, 5.7, 4.8)):
        assert MEANS["usps", "tight", "DP-MAC", epsilon] <= error
        assert MEANS["usps", "tight", "DP-MAC from DP-PCA", epsilon] <= whole
        assert (
            MEANS["usps", "tight", "DP-MAC from DP-PCA", epsilon] < MEANS["usps", "tight", "linear (DP-PCA)", epsilon]
        )
    assert MEANS["usps", "tight", "DP-MAC", math.inf] <= 4.4
