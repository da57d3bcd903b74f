"""What docs/results says is what its runs say, and its runs are of the settings that are in the package."""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import asdict, astuple
from pathlib import Path

import pytest

from dpmac.experiments import tables
from dpmac.experiments.jobs import METRIC, PUBLISHED, jobs, recipe_of
from dpmac.experiments.settings import EPSILONS, PRESETS
from dpmac.experiments.store import Store
from dpmac.privacy.statement import round_up

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
EVERYTHING = [job for table in EPSILONS for preset in PRESETS for job in jobs(table, preset, 10)]


@pytest.fixture(scope="module")
def finished():
    runs, damaged = Store(RESULTS).all()
    assert not damaged
    return runs


@pytest.fixture(scope="module")
def means(finished):
    found = {}
    for run in finished:
        found.setdefault((run.table, run.preset, run.row, run.epsilon), []).append(run.result["metric"])
    return {key: statistics.mean(values) for key, values in found.items()}


def test_every_run_is_there_and_is_of_todays_recipe(finished):
    by_key = {(r.table, r.row, r.preset, r.epsilon, r.seed): r for r in finished}
    assert set(by_key) == {astuple(job) for job in EVERYTHING}
    for job in EVERYTHING:
        recipe = asdict(recipe_of(job))
        assert by_key[astuple(job)].result["recipe"] == json.loads(json.dumps(recipe))


def test_one_command_made_them_all(finished):
    commands = {run.made_with["command"] for run in finished}
    assert len(commands) == 1
    assert commands.pop() in (RESULTS / "README.md").read_text()


def cells(text):
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_the_table_is_what_the_runs_say(finished):
    """True epsilons may move in the last place with another version of the accountant; all else is exact."""
    now = cells(tables.markdown(finished, PUBLISHED, METRIC))
    then = cells((RESULTS / "tables.md").read_text())
    for new, old in zip(now, then, strict=True):
        assert new[:3] + new[4:] == old[:3] + old[4:]
        if re.fullmatch(r"[\d.]+", new[3]):
            assert float(new[3]) == pytest.approx(float(old[3]), abs=0.011)
        else:
            assert new[3] == old[3]


def shown(path, start):
    """The figures of the first row of a Markdown table in ``path`` that begins with ``start``."""
    row = next(row for row in cells(path.read_text()) if row[0].startswith(start))
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
def test_the_pages_figures_are_the_means(means, start, table, row):
    digits = 3 if table == "mnist" else 2
    expected = [round(means[table, "tight", row, e], digits) for e in EPSILONS[table]]
    assert shown(RESULTS / "README.md", start) == expected


def test_the_readmes_figures_are_the_means(means):
    def private(table, row, digits):
        return [round(means[table, "tight", row, e], digits) for e in EPSILONS[table] if math.isfinite(e)]

    start = "DP-MAC, trained from a random start"
    assert shown(ROOT / "README.md", start) == private("mnist", "DP-MAC", 3) + private("usps", "DP-MAC", 2)
    assert shown(ROOT / "README.md", "DP-MAC from DP-PCA") == private("usps", "DP-MAC from DP-PCA", 2)


def test_the_pages_epsilons_are_the_true_ones_rounded_up(finished):
    """The paper's own settings, dearest first, as they stand in the page's prose."""
    page = " ".join((RESULTS / "README.md").read_text().split())
    for table, row, words in (
        ("mnist", "DP-MAC", "epsilon {} on MNIST"),
        ("usps", "DP-MAC", "and {} on USPS"),
        ("usps", "DP-SGD as published", "its true epsilon, {} for"),
    ):
        groups = [g for g in tables.groups(finished, table) if (g.row, g.preset) == (row, "paper")]
        private = sorted((g for g in groups if math.isfinite(g.epsilon)), key=lambda g: -g.epsilon)
        assert words.format(" / ".join(round_up(g.true_epsilon, 2) for g in private)) in page


def test_what_was_to_be_reached_is_reached(means):
    for epsilon, accuracy in ((0.5, 0.925), (2.0, 0.955), (8.0, 0.97)):
        assert means["mnist", "tight", "DP-MAC", epsilon] >= accuracy
    for epsilon, error, whole in ((1.0, 10.0, 6.5), (2.0, 7.9, 5.5), (4.0, 6.5, 5.1), (8.0, 5.7, 4.8)):
        assert means["usps", "tight", "DP-MAC", epsilon] <= error
        assert means["usps", "tight", "DP-MAC from DP-PCA", epsilon] <= whole
        assert (
            means["usps", "tight", "DP-MAC from DP-PCA", epsilon] < means["usps", "tight", "linear (DP-PCA)", epsilon]
        )
    assert means["usps", "tight", "DP-MAC", math.inf] <= 4.4
