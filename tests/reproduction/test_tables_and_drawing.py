"""What the tables say and the drawings show, from made-up runs whose numbers are known."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from fakes import make_run, mechanism

from dpmac.privacy.accounting import Mechanism, epsilon_of
from dpmac.privacy.statement import round_up
from dpmac.randomness import SeededNoise
from reproduction import layer_expansion, tables
from reproduction.drawing import draw_all
from reproduction.rows import Point, mean_curve, table_rows, true_epsilon

METRIC = {"mnist": "test accuracy", "usps": "test error"}
PUBLISHED = {
    ("mnist", "DP-MAC", 0.5): 0.90,
    ("mnist", "DP-MAC", 2.0): 0.95,
    ("mnist", "DP-CDBN (quoted)", 2.0): 0.95,
    ("usps", "DP-MAC", 8.0): 8.4,
    ("usps", "DP-MAC", math.inf): 4.4,
}


def markdown(finished):
    return tables.markdown(table_rows(finished), PUBLISHED, METRIC)


def cells_of(text, *words):
    """The cells of the one row that has all these."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    (found,) = [row for row in rows if set(words) <= set(row)]
    return found


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_says_mean_spread_runs_and_both_epsilons():
    values = [0.951, 0.953, 0.9545]
    text = markdown([make_run(seed=seed, metric=value) for seed, value in enumerate(values)])
    true = epsilon_of([Mechanism(2.8, 1 / 60, 1800)], 1e-5)
    cells = cells_of(text, "DP-MAC", "paper")
    assert cells[:3] == ["DP-MAC", "paper", "2"]
    assert true <= float(cells[3]) < true + 0.01
    assert cells[4] == f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f} (3)"
    assert cells[5] == "0.95"
    assert "MNIST: test accuracy (higher is better)" in text
    assert "delta = 1e-05" in text
    assert "USPS" not in text
    assert max(map(len, text.splitlines())) <= 140


def test_one_run_has_no_spread_and_what_was_not_run_says_so():
    text = markdown([make_run()])
    assert cells_of(text, "DP-MAC", "paper")[4] == "0.9500 ± - (1)"
    assert table_rows([make_run()])[0].std is None
    assert cells_of(text, "DP-CDBN (quoted)") == ["DP-CDBN (quoted)", "-", "2", "-", "-", "0.95"]
    assert cells_of(text, "not run")[:3] == ["DP-MAC", "-", "0.5"]
    assert markdown([]) == "No run is finished yet: python -m reproduction all makes them.\n"


def test_without_privacy_both_epsilons_are_infinite():
    finished = [
        make_run("usps", epsilon=math.inf, metric=4.45, mechanisms=[mechanism(0.0)]),
        make_run("usps", "linear (DP-PCA)", epsilon=8.0, metric=5.2, mechanisms=[mechanism(1.0, 1.0, 1)]),
    ]
    text = markdown(finished)
    assert cells_of(text, "DP-MAC", "paper") == ["DP-MAC", "paper", "inf", "inf", "4.450 ± - (1)", "4.4"]
    linear = cells_of(text, "linear (DP-PCA)", "paper")
    assert linear[3] == round_up(epsilon_of([Mechanism(1.0)], 1e-5), 2)
    assert linear[5] == "-"
    assert "half of the noise" in text


def test_true_epsilons_err_on_the_dear_side():
    """Nothing recorded is not private, nor is anything beside a release without noise; of a row, the largest counts."""
    assert math.isinf(true_epsilon([], 1e-5))
    assert math.isinf(true_epsilon([mechanism(2.8), mechanism(0.0, 1.0, 1)], 1e-5))
    (row,) = table_rows([make_run(seed=0, sigma=2.8), make_run(seed=1, sigma=1.4), make_run(seed=2, sigma=2.8)])
    assert row.true_epsilon == true_epsilon([mechanism(1.4)], 1e-5) > true_epsilon([mechanism(2.8)], 1e-5)
    assert row.mechanisms == [mechanism(1.4)]
    for epsilon, shown in (
        (1.2300001, "1.24"),
        (1.999, "2.00"),
        (2.0, "2.00"),
        (2.000000000001, "2.01"),
        (0.0, "0.00"),
        (1e-9, "0.01"),
        (math.inf, "inf"),
    ):
        assert round_up(epsilon, 2) == shown
        assert float(shown) >= epsilon


def test_rows_come_by_epsilon_then_settings_then_method_and_columns_are_aligned():
    names = [("tight", "DP-MAC"), ("paper", "linear (DP-PCA)"), ("paper", "DP-SGD"), ("paper", "DP-MAC")]
    rows = table_rows([make_run(row=row, preset=preset, epsilon=e) for e in (8.0, 0.5) for preset, row in names])
    order = [("paper", "DP-MAC"), ("paper", "DP-SGD"), ("paper", "linear (DP-PCA)"), ("tight", "DP-MAC")]
    assert [(r.epsilon, r.preset, r.row) for r in rows] == [(e, *name) for e in (0.5, 8.0) for name in order]
    lines = [line for line in tables.markdown(rows, PUBLISHED, METRIC).splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1


def test_runs_of_different_recipes_are_not_passed_over():
    assert "MIXED: DP-MAC (paper) at 2 " in markdown([make_run(seed=0), make_run(seed=1, recipe={"lr": 0.02})])
    assert table_rows([make_run(seed=0), make_run(seed=1, delta=1e-6)])[0].mixed
    same = [make_run(seed=s, recipe={"lr": 0.02, "seed": s}) for s in range(2)]
    assert "MIXED" not in markdown([*same, make_run(seed=2, recipe={"lr": 0.02, "a new field": 1})])


def test_mean_curves_of_uneven_runs():
    curve = [{"epoch": 1.0, "train": 1.0, "test": 2.0}, {"epoch": 2.0, "train": 3.0, "test": 4.0}]
    points = mean_curve([make_run(curve=curve), make_run(curve=[{"epoch": 1.0, "train": 3.0, "test": 2.0}])])
    assert points == (Point(1.0, 2.0, math.sqrt(2.0), 2.0, 0.0), Point(2.0, 3.0, None, 4.0, None))


# --- drawings ---------------------------------------------------------------------------------------------------------


def test_what_has_nothing_or_very_little_to_show(tmp_path):
    drawn = draw_all(table_rows([make_run("usps", "linear (DP-PCA)", metric=6.8)]), METRIC, tmp_path)
    assert [p.name for p in drawn] == [p.name for p in tmp_path.iterdir()] == ["expansion.png"]
    drawn = draw_all(table_rows([make_run("usps", "linear (DP-PCA)", "tight", metric=6.8)]), METRIC, tmp_path)
    assert {p.name for p in drawn} == {p.name for p in tmp_path.iterdir()} == {"expansion.png", "overview.png"}
    flat = [{"epoch": e, "train": 0.5, "test": 0.5} for e in (1.0, 2.0)]
    little = [
        make_run(curve=flat, first_layer=[[0.0] * 4], image_shape=[2, 2]),
        make_run(row="DP-SGD", preset="tight", curve=flat),
    ]
    assert len(draw_all(table_rows(little), METRIC, tmp_path)) == 3


def test_the_expansion_touches_the_loss_at_zero_and_projects_nothing():
    """At 0 the polynomial has the loss's value, slope and curvature, by autograd; and every row is admissible."""
    for problem in layer_expansion.layer_problems(SeededNoise(0)):
        for tensor in (problem.inputs, problem.targets):
            assert float(tensor.abs().max()) <= layer_expansion.T_Z  # or the sensitivities would not hold
        polynomial, spread = layer_expansion.expanded(problem)

        def loss(w, problem=problem):
            return (problem.targets - torch.nn.functional.softplus(w * problem.inputs)).square().sum()

        zero = torch.zeros((), dtype=torch.float64)
        slope, curvature = torch.func.grad(loss)(zero), torch.func.grad(torch.func.grad(loss))(zero)
        assert float(polynomial.constant) == pytest.approx(float(loss(zero)))
        assert float(polynomial.slope) == pytest.approx(float(slope))
        assert float(polynomial.curvature) == pytest.approx(float(curvature))
        assert float(loss(torch.tensor(problem.w_true))) == pytest.approx(0, abs=1e-9)
        assert min(spread) > 0
