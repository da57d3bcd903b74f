"""What the tables say and the figures show, from made-up runs whose numbers are known."""

from __future__ import annotations

import json
import math
import statistics
import struct

import pytest
import torch

from dpmac.experiments import figures, tables
from dpmac.experiments.store import Finished
from dpmac.privacy.accounting import Mechanism, epsilon_of
from dpmac.privacy.noise import SeededNoise
from dpmac.privacy.statement import round_up

METRIC = {"mnist": "test accuracy", "usps": "test error"}
PUBLISHED = {
    ("mnist", "DP-MAC", 0.5): 0.90,
    ("mnist", "DP-MAC", 2.0): 0.95,
    ("mnist", "DP-CDBN (quoted)", 2.0): 0.95,
    ("usps", "DP-MAC", 8.0): 8.4,
    ("usps", "DP-MAC", math.inf): 4.4,
}


def mechanism(sigma, rate=1 / 60, count=1800):
    return {"label": "step", "noise_multiplier": sigma, "sample_rate": rate, "count": count}


def make_run(table="mnist", row="DP-MAC", preset="paper", epsilon=2.0, seed=0, metric=0.95, sigma=2.8, **more):
    result = {"metric": metric, "mechanisms": [mechanism(sigma)], "delta": 1e-5, "seconds": 3.0, "curve": []}
    made_with = {"dpmac": "0.1.0", "command": "dpmac reproduce"}
    return Finished(table, row, preset, epsilon, seed, {**result, "recipe": {"lr": 0.01}, **more}, made_with)


def training(level, seed, drop=1.0, epochs=30):
    """A curve that comes down (or up) to ``level``; seeds differ a little."""
    bent = [level + drop * math.exp(-e / 4) + 0.01 * drop * math.sin(e + seed) for e in range(1, epochs + 1)]
    return [{"epoch": float(e), "train": v - 0.02 * drop, "test": v} for e, v in enumerate(bent, 1)]


def table_row(text, *words):
    """The cells of the one row that has all these."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    (found,) = [row for row in rows if set(words) <= set(row)]
    return found


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_says_mean_spread_runs_and_both_epsilons():
    values = [0.951, 0.953, 0.9545]
    finished = [make_run(seed=seed, metric=value) for seed, value in enumerate(values)]
    text = tables.markdown(finished, PUBLISHED, METRIC)
    true = epsilon_of([Mechanism(2.8, 1 / 60, 1800)], 1e-5)
    cells = table_row(text, "DP-MAC", "paper")
    assert cells[:3] == ["DP-MAC", "paper", "2"]
    assert true <= float(cells[3]) < true + 0.01
    assert cells[4] == f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f} (3)"
    assert cells[5] == "0.95"
    assert "MNIST: test accuracy (higher is better)" in text
    assert "delta = 1e-05" in text
    assert "USPS" not in text


def test_one_run_has_no_spread():
    cells = table_row(tables.markdown([make_run()], PUBLISHED, METRIC), "DP-MAC", "paper")
    assert cells[4] == "0.9500 ± - (1)"
    assert tables.groups([make_run()], "mnist")[0].std is None


def test_quoted_rows_are_shown_without_a_run_and_missing_ones_say_so():
    text = tables.markdown([make_run()], PUBLISHED, METRIC)
    quoted = ["DP-CDBN (quoted)", "-", "2", "-", "-", "0.95"]
    assert table_row(text, "DP-CDBN (quoted)") == quoted
    assert table_row(text, "not run")[:3] == ["DP-MAC", "-", "0.5"]


def test_without_privacy_both_epsilons_are_infinite():
    finished = [
        make_run("usps", epsilon=math.inf, metric=4.45, mechanisms=[mechanism(0.0)]),
        make_run("usps", "linear (DP-PCA)", epsilon=8.0, metric=5.2, mechanisms=[mechanism(1.0, 1.0, 1)]),
    ]
    text = tables.markdown(finished, PUBLISHED, METRIC)
    assert table_row(text, "DP-MAC", "paper") == ["DP-MAC", "paper", "inf", "inf", "4.450 ± - (1)", "4.4"]
    linear = table_row(text, "linear (DP-PCA)", "paper")
    assert linear[3] == round_up(epsilon_of([Mechanism(1.0)], 1e-5), 2)
    assert linear[5] == "-"
    assert "half of the noise" in text


def test_a_run_that_recorded_nothing_is_not_shown_as_private():
    assert math.isinf(tables.true_epsilon(make_run(mechanisms=[])))
    assert math.isinf(tables.true_epsilon(make_run(mechanisms=[mechanism(2.8), mechanism(0.0, 1.0, 1)])))


def test_a_group_has_the_largest_epsilon_of_its_runs():
    group = tables.groups([make_run(seed=0, sigma=2.8), make_run(seed=1, sigma=1.4)], "mnist")[0]
    assert group.true_epsilon == tables.true_epsilon(make_run(sigma=1.4)) > tables.true_epsilon(make_run(sigma=2.8))


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [
        (1.2300001, "1.24"),
        (1.999, "2.00"),
        (2.0, "2.00"),
        (2.000000000001, "2.01"),
        (0.0, "0.00"),
        (1e-9, "0.01"),
        (math.inf, "inf"),
    ],
)
def test_epsilons_are_rounded_up(epsilon, shown):
    assert round_up(epsilon, 2) == shown
    assert float(shown) >= epsilon


def test_rows_come_by_epsilon_then_settings_then_method():
    names = [("tight", "DP-MAC"), ("paper", "linear"), ("paper", "DP-SGD"), ("paper", "DP-MAC")]
    finished = [make_run(row=row, preset=preset, epsilon=e) for e in (8.0, 0.5) for preset, row in names]
    found = [(g.epsilon, g.preset, g.row) for g in tables.groups(finished, "mnist")]
    order = [("paper", "DP-MAC"), ("paper", "DP-SGD"), ("paper", "linear"), ("tight", "DP-MAC")]
    assert found == [(e, *name) for e in (0.5, 8.0) for name in order]


def test_columns_are_aligned_and_nothing_gives_a_sentence():
    text = tables.markdown([make_run(), make_run(row="linear (sufficient statistics)")], PUBLISHED, METRIC)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1
    assert tables.markdown([], PUBLISHED, METRIC) == "No run is finished yet: dpmac reproduce all makes them.\n"


def test_runs_of_different_recipes_are_not_passed_over():
    runs = [make_run(seed=0), make_run(seed=1, recipe={"lr": 0.02})]
    assert "MIXED: DP-MAC (paper) at 2 " in tables.markdown(runs, PUBLISHED, METRIC)
    same = [make_run(seed=s, recipe={"lr": 0.02, "seed": s}) for s in range(2)]
    assert "MIXED" not in tables.markdown(same, PUBLISHED, METRIC)


def test_results_are_strict_json_with_seeds_versions_and_curves():
    finished = [make_run(seed=s, metric=0.9 + s / 100, curve=training(0.9, s)) for s in (3, 1)]
    finished += [make_run("usps", epsilon=math.inf)]
    results = json.loads(json.dumps(tables.figures(finished, PUBLISHED, METRIC, {"torch": "2"}), allow_nan=False))
    (row,) = results["tables"]["mnist"]["rows"]
    assert row["seeds"] == [1, 3]
    assert row["values"] == [0.91, 0.93]
    assert row["true_epsilon"] == epsilon_of([Mechanism(2.8, 1 / 60, 1800)], 1e-5)
    assert len(row["curve"]) == 30
    assert results["tables"]["usps"]["rows"][0]["epsilon"] == "inf"
    assert results["written_by"] == {"torch": "2"}
    assert results["made_with"] == [{"command": "dpmac reproduce", "dpmac": "0.1.0", "runs": 3}]
    assert {"table": "mnist", "row": "DP-CDBN (quoted)", "epsilon": 2.0, "figure": 0.95, "quoted": True} in results[
        "published"
    ]


def test_mean_curves_of_uneven_runs():
    curve = [{"epoch": 1.0, "train": 1.0, "test": 2.0}, {"epoch": 2.0, "train": 3.0, "test": 4.0}]
    points = tables.mean_curve([make_run(curve=curve), make_run(curve=[{"epoch": 1.0, "train": 3.0, "test": 2.0}])])
    assert points[0] == tables.Point(1.0, 2.0, math.sqrt(2.0), 2.0, 0.0)
    assert points[1] == tables.Point(2.0, 3.0, None, 4.0, None)


# --- figures ----------------------------------------------------------------------------------------------------------


def full_results():
    """Both tables, two methods, two settings; MNIST with first layers."""
    finished = []
    for preset in ("paper", "tight"):
        for seed in range(3):
            for row, epochs in (("DP-MAC", 30), ("DP-SGD", 60)):
                for i, epsilon in enumerate((0.5, 2.0, 8.0)):
                    curve = training(0.9 + 0.03 * i, seed, -0.3, epochs)
                    bars = [[math.sin(0.3 * (p % 28) * (u + 1)) / epsilon for p in range(784)] for u in range(12)]
                    layer = {"first_layer": bars, "image_shape": [28, 28]} if row == "DP-MAC" else {}
                    finished.append(make_run("mnist", row, preset, epsilon, seed, curve=curve, **layer))
                for i, epsilon in enumerate((1.0, 2.0, 4.0, 8.0, math.inf)):
                    curve = training(12 - 2.0 * i, seed, 40.0, epochs)
                    finished.append(make_run("usps", row, preset, epsilon, seed, curve=curve))
            finished.append(make_run("usps", "linear (DP-PCA)", preset, 1.0, seed, 6.8))
    return finished


def size_of(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", content[16:24])


def test_all_figures_are_drawn(tmp_path):
    drawn = figures.draw_all(full_results(), METRIC, tmp_path / "new")
    assert [p.name for p in drawn] == ["curves-mnist.png", "curves-usps.png", "expansion.png", "features.png"]
    for path in drawn:
        width, height = size_of(path)
        assert 800 <= width <= 2500
        assert 400 <= height <= 2500


def test_what_has_nothing_to_show_is_not_drawn(tmp_path):
    drawn = figures.draw_all([make_run("usps", "linear (DP-PCA)", metric=6.8)], METRIC, tmp_path)
    assert [p.name for p in drawn] == ["expansion.png"]
    assert [p.name for p in tmp_path.iterdir()] == ["expansion.png"]


def test_figures_of_very_little(tmp_path):
    flat = [{"epoch": e, "train": 0.5, "test": 0.5} for e in (1.0, 2.0)]
    one = [
        make_run(curve=flat, first_layer=[[0.0] * 4], image_shape=[2, 2]),
        make_run(row="DP-SGD", preset="tight", curve=flat),
    ]
    assert len(figures.draw_all(one, METRIC, tmp_path)) == 3


def test_the_expansion_touches_the_loss_at_zero_and_projects_nothing():
    """At 0 the polynomial has the loss's value, slope and curvature, by autograd; and every row is admissible."""
    for problem in figures.layer_problems(SeededNoise(0)):
        for tensor in (problem.inputs, problem.targets):
            assert float(tensor.abs().max()) <= figures._T_Z  # or the sensitivities would not hold
        polynomial, spread = figures.expanded(problem)

        def loss(w, problem=problem):
            return (problem.targets - torch.nn.functional.softplus(w * problem.inputs)).square().sum()

        zero = torch.zeros((), dtype=torch.float64)
        slope, curvature = torch.func.grad(loss)(zero), torch.func.grad(torch.func.grad(loss))(zero)
        assert float(polynomial.constant) == pytest.approx(float(loss(zero)))
        assert float(polynomial.slope) == pytest.approx(float(slope))
        assert float(polynomial.curvature) == pytest.approx(float(curvature))
        assert float(loss(torch.tensor(problem.w_true))) == pytest.approx(0, abs=1e-9)
        assert min(spread) > 0
