"""Areas and rates from counts of label by score bin, beside scikit-learn's of the rows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score, roc_auc_score

from dpmac.evaluation import curves
from dpmac.evaluation.cells import balanced, nearest, possible

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from evaluation import People, covered, evaluations

ROWS = 50_000


def cells_of(said, y):
    cells = np.zeros((2, curves.BINS))
    np.add.at(cells, (y.astype(int), np.searchsorted(curves.LOGITS, said, side="right")), 1)
    return cells


@pytest.mark.parametrize("people", [People(), People(0.0, 1.5), People(-4.0, 1.5), People(-2.0, 2.0, slope=0.6)])
def test_exact_counts_give_the_areas_of_the_rows(people):
    said, y = people.table(ROWS, np.random.default_rng(3))
    cells = cells_of(said, y)
    assert float(curves.auroc(cells)) == pytest.approx(roc_auc_score(y, said), abs=2e-3)
    assert float(curves.average_precision(cells)) == pytest.approx(average_precision_score(y, said), abs=6e-3)
    assert float(curves.base_rate(cells)) == y.mean()
    assert float(curves.accuracy(cells)) == ((said >= 0) == y).mean()
    assert float(curves.sensitivity(cells, curves.HALF)) == y[said >= 0].sum() / y.sum()
    assert float(curves.specificity(cells, curves.HALF)) == (~y[said < 0]).sum() / (~y).sum()
    assert float(curves.precision(cells, curves.HALF)) == pytest.approx(y[said >= 0].mean())


def test_many_tables_are_scored_as_each_of_them():
    draw = np.random.default_rng(0)
    several = np.stack([cells_of(*People().table(500, draw)) for _ in range(4)])
    for of in (curves.auroc, curves.average_precision, curves.slope, curves.accuracy):
        assert of(several) == pytest.approx([float(of(one)) for one in several])


def test_what_is_known_besides_is_kept_and_no_noise_is_no_change():
    cells = cells_of(*People().table(900, np.random.default_rng(0)))
    mask = np.zeros_like(cells)
    mask[1] = 1
    positive = cells[1].sum()
    assert balanced(cells, 2.0, [(mask, positive, 0.0)], 900) == pytest.approx(cells)
    noisy = cells + np.random.default_rng(1).normal(size=cells.shape) * 3
    found = balanced(noisy, 3.0, [(mask, positive, 1e-6)], 900)
    assert (found.sum(), found[1].sum()) == pytest.approx((900, positive), abs=1e-3)
    assert (possible(found, 900) >= 0).all()
    assert possible(found, 900).sum() == pytest.approx(900)


@given(arrays(np.float64, 6, elements=st.floats(-50, 50)), st.floats(0.1, 100))
def test_the_nearest_counts_are_the_nearest(cells, total):
    found = nearest(cells, np.array(total))
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total)
    for other in np.random.default_rng(0).dirichlet(np.ones(6), 20) * total:
        assert ((found - cells) ** 2).sum() <= ((other - cells) ** 2).sum() + 1e-6


@pytest.mark.parametrize("epsilon", [2.0, 0.3])
def test_intervals_hold_the_truth_about_as_often_as_they_say(epsilon):
    """At 2 most of the error is of the chance of sampling, at 0.3 of the noise."""
    found = covered(People(), 2000, epsilon, draws=40)
    for name, (share, _, _) in found.items():
        assert share >= 0.85, name
    if epsilon == 2.0:
        assert found["auroc"][2] <= 0.010  # from the AUROC of the table itself


@pytest.mark.long
@pytest.mark.parametrize(("n", "epsilon"), [(2000, 2.0), (10_000, 0.5)])
def test_intervals_hold_the_truth_in_nineteen_of_twenty(n, epsilon):
    found = covered(People(), n, epsilon, draws=1000)
    for name, (share, _, _) in found.items():
        assert 0.93 <= share <= 0.975, name
    assert found["auroc"][2] <= 0.010


def test_less_noise_is_less_error_and_a_narrower_interval():
    widths = []
    for epsilon in (0.5, 4.0):
        scores = [score for score, _ in evaluations(People(), 2000, epsilon, 5)]
        widths.append(np.mean([score.figures["auroc"].high - score.figures["auroc"].low for score in scores]))
    assert widths[0] > 1.5 * widths[1]


def test_curves_have_every_threshold_and_leave_out_what_drowns():
    (score, _), *_ = evaluations(People(-4.0, 1.0), 1000, 0.5, 1)
    assert [round(t.threshold, 4) for t in score.thresholds] == [round(float(e), 4) for e in curves.EDGES]
    assert score.thresholds[-1].precision is None
    assert score.thresholds[-1].to_dict()["precision"] is None
    rates = [t.called.value for t in score.thresholds]
    assert rates[0] > rates[7]
    for one in score.reliability:
        assert 0 <= one["observed_low"] <= one["observed"] <= one["observed_high"] <= 1
        assert one["low"] <= one["predicted"] <= one["high"]
