"""The paper's Algorithm 2: pre-training, a histogram of norms, and training with its thresholds, in one ledger."""

from __future__ import annotations

import pytest
import torch

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import FixedPrediction, OptimizerStep
from dpmac.methods import NormHistogram
from dpmac.nets.feature_maps import LowFrequencies, ToRange
from dpmac.privacy import Ledger, PerLayerClip, Plan, PrivateRows
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer
from dpmac.training.learned import costs_before, fit_with_learned_thresholds


def flat(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def parts_of_the_way(problem, n, steps=3, feature_map=None, sigma=4.0):
    """Pre-training, histogram, and a trainer whose plan pays for both."""
    pretraining, histogram = Plan(n, n // 2, steps, sigma, 1e-5), NormHistogram(5.0)
    plan = Plan(n, n // 2, steps, sigma, 1e-5, costs_before(pretraining, histogram))
    bound, source = PerLayerClip(1.0), SeededNoise(0)
    more = {"source": source, "feature_map": feature_map}
    return Trainer(problem.network, problem.loss, plan, FixedPrediction(), bound, **more), (
        pretraining, histogram,
    )  # fmt: skip


def fitted(plan, pretraining, histogram):
    problem = make_problem((5, 8, 3), rows=400)
    trainer = Trainer(
        problem.network, problem.loss, plan, FixedPrediction(), PerLayerClip(1.0), OptimizerStep(0.01), SeededNoise(0)
    )
    return fit_with_learned_thresholds(trainer, pretraining, histogram, problem.x, problem.y)


def test_algorithm_two_end_to_end_in_one_ledger():
    pretraining, histogram = Plan(400, 50, 10, 4.0, 1e-5), NormHistogram(noise_multiplier=10.0, quantile=0.5)
    plan = Plan(400, 50, 20, 2.0, 1e-5, costs_before(pretraining, histogram))
    run = fitted(plan, pretraining, histogram)
    assert [e.label for e in run.ledger.entries] == ["training step"] * 10 + ["norm histogram"] + ["training step"] * 20
    assert [e.noise_multiplier for e in run.ledger.entries] == [4.0] * 10 + [10.0] + [2.0] * 20
    assert run.ledger.mechanisms() == plan.mechanisms()
    learned = run.ledger.entries[-1].scales
    assert learned != run.ledger.entries[0].scales


@pytest.mark.long
def test_one_budget_pays_for_all_three_parts():
    pretraining, histogram = Plan(400, 50, 10, 4.0, 1e-5), NormHistogram(noise_multiplier=10.0, quantile=0.5)
    before = costs_before(pretraining, histogram)
    plan = Plan.for_budget(epsilon=3.0, delta=1e-5, n=400, batch_size=50, steps=20, before=before)
    run = fitted(plan, pretraining, histogram)
    assert 2.9 < run.ledger.epsilon(1e-5) == plan.epsilon() <= 3.0


def test_the_thresholds_are_the_median_norms_of_the_pretrained_network():
    """Without noise in it, the histogram's edge is the first above half of the rows' norms."""
    problem = make_problem((5, 8, 3), rows=400)
    pretraining, histogram = Plan(400, 200, 3, 4.0, 1e-5), NormHistogram(0.0, quantile=0.5, bins=200)
    plan = Plan(400, 200, 1, 4.0, 1e-5, costs_before(pretraining, histogram))
    trainer = Trainer(problem.network, problem.loss, plan, FixedPrediction(), PerLayerClip(1.0), source=SeededNoise(0))
    run = fit_with_learned_thresholds(trainer, pretraining, histogram, problem.x, problem.y)
    first = Trainer(
        problem.network, problem.loss, pretraining, FixedPrediction(), PerLayerClip(1.0),
        source=SeededNoise(0).spawn("pre-training"),
    ).fit(problem.x, problem.y)  # fmt: skip
    coordinates = FixedPrediction().solve(first.model, problem.loss, problem.x, problem.y)
    parts = trainer.expansion.parts(first.model, problem.loss, coordinates)
    for name, part in zip(problem.network.layer_names, parts, strict=True):
        median = float(part.norms().median())
        edges = histogram.edges()
        assert run.ledger.entries[-1].scales[name] == pytest.approx(2**0.5 * float(edges[edges >= median][0]))


def test_a_plan_that_does_not_pay_for_it_is_refused():
    problem = make_problem((5, 8, 3), rows=60)
    trainer, (pretraining, histogram) = parts_of_the_way(problem, 60)
    ledger = Ledger()
    with pytest.raises(ArgumentError, match="costs_before"):
        fit_with_learned_thresholds(trainer, pretraining, NormHistogram(6.0), problem.x, problem.y, ledger)
    with pytest.raises(ArgumentError, match=r"x='59 rows': the plans are for 60 and 60 rows"):
        fit_with_learned_thresholds(trainer, pretraining, histogram, problem.x[:59], problem.y[:59], ledger)
    with pytest.raises(ArgumentError, match=r"x=torch\.float32"):
        fit_with_learned_thresholds(trainer, pretraining, histogram, problem.x.float(), problem.y, ledger)
    assert len(ledger) == 0


def test_no_part_of_it_uses_the_same_noise_again(monkeypatch):
    problem = make_problem((5, 8, 3), rows=60)
    drawn = []
    original = SeededNoise.normal

    def listening(self, shape, device="cpu"):
        drawn.append(original(self, shape, device))
        return drawn[-1]

    monkeypatch.setattr(SeededNoise, "normal", listening)
    trainer, before = parts_of_the_way(problem, 60)
    fit_with_learned_thresholds(trainer, *before, problem.x, problem.y)
    first = [round(float(d.flatten()[0]), 12) for d in drawn]
    assert len(first) == len(set(first)) == 3 + 1 + 3  # one draw a release


@pytest.mark.parametrize("feature_map", [ToRange(-2.0, torch.arange(1.0, 10.0)), LowFrequencies(3, 5, 0.1)])
def test_raw_rows_go_through_the_feature_map_in_all_three_parts(feature_map):
    problem = make_problem((feature_map.shape_after((9,))[0], 8, 3), rows=60)
    raw = SeededNoise(4).normal((60, 9))
    trainer, before = parts_of_the_way(problem, 60, feature_map=feature_map, sigma=0.5)
    bare, _ = parts_of_the_way(problem, 60, sigma=0.5)
    ours = fit_with_learned_thresholds(trainer, *before, raw, problem.y)
    table = fit_with_learned_thresholds(trainer, *before, PrivateRows(raw, problem.y))
    theirs = fit_with_learned_thresholds(bare, *before, feature_map(raw), problem.y)
    assert ours.ledger.entries == theirs.ledger.entries == table.ledger.entries  # the same thresholds, too
    assert torch.allclose(flat(ours.model), flat(theirs.model), atol=1e-9)
    assert torch.equal(flat(ours.model), flat(table.model))
    assert type(ours.feature_map) is type(feature_map)
