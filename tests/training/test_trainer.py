"""The trainer: learns, keeps its books, and every row is alone on its way."""

from __future__ import annotations

import copy
import json
import math

import pytest
import torch

from conftest import make_images, make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import AdamCoordinates, Averaged, FirstOrder, FixedPrediction, OptimizerStep
from dpmac.nets.layers import with_one
from dpmac.privacy import (
    DensePart,
    Entry,
    Ledger,
    Mechanism,
    Normalise,
    OuterPart,
    Partition,
    PerLayerClip,
    Plan,
    PrivateRows,
    Query,
    Unbounded,
    release,
)
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Step, Trainer


def trainer_for(problem, *, steps=4, sigma=1.0, batch=6.0, **more):
    plan = Plan(len(problem.x), batch, steps, sigma, 1e-5)
    return Trainer(
        problem.network, problem.loss, plan, **{"source": SeededNoise(0), "zstep": FixedPrediction(), **more}
    )


def flat(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_a_run_holds_model_history_ledger_and_plan(problem):
    trainer = trainer_for(problem, steps=6)
    run = trainer.fit(problem.x, problem.y)
    assert run.model is not problem.network
    assert run.plan is trainer.plan
    assert run.ledger.mechanisms() == trainer.plan.mechanisms()
    assert run.ledger.epsilon(1e-5) == trainer.plan.epsilon()
    assert [r.step for r in run.history] == [2, 4, 6]
    assert [r.epoch for r in run.history] == [1.0, 2.0, 3.0]


def test_without_noise_it_learns():
    problem = make_problem((5, 20, 3), rows=60)
    before = problem.loss.value(problem.network(problem.x), problem.y).mean()
    for zstep in (FixedPrediction(), AdamCoordinates(steps=10, lr=0.02)):
        network = copy.deepcopy(problem.network)
        plan = Plan(60, 60, 150, 0.0, 1e-5)
        step = OptimizerStep(lr=0.04)
        run = Trainer(network, problem.loss, plan, zstep, Unbounded(), step, SeededNoise(0)).fit(problem.x, problem.y)
        after = problem.loss.value(run.model(problem.x), problem.y).mean()
        assert after < 0.25 * before
        assert not run.statement().private


@pytest.mark.parametrize("make", [make_problem, make_images])
def test_the_first_step_is_what_the_release_says(make):
    """One noiseless SGD step equals the clipped mean over the constant, done by hand."""
    problem = make(rows=30)
    start = problem.network
    trainer = trainer_for(
        problem, steps=1, sigma=0.0, batch=30.0, bound=PerLayerClip(0.3),
        wstep=OptimizerStep(lr=1.0, optimizer=torch.optim.SGD),
    )  # fmt: skip
    run = trainer.fit(problem.x, problem.y)
    coordinates = FixedPrediction().solve(start, problem.loss, problem.x, problem.y)
    parts = FirstOrder().parts(start, problem.loss, coordinates)
    for k, (old, new) in enumerate(zip(start.weight_layers, run.model.weight_layers, strict=True)):
        clipped = torch.zeros(parts[k].shape, dtype=torch.float64)
        for n, (left, right) in enumerate(zip(parts[k].left, parts[k].right, strict=True)):
            matrix = torch.outer(left, with_one(right)) if isinstance(parts[k], OuterPart) else left.T @ right
            clipped += matrix * min(1.0, 0.3 / float(parts[k].norms()[n]))
        weight = 1.0 if k == len(parts) - 1 else 0.5
        assert torch.allclose(old.matrix() - new.matrix(), weight * clipped / 30, atol=1e-5)


def test_seeded_runs_repeat_and_others_do_not():
    def weights(source):
        problem = make_problem()
        return flat(trainer_for(problem, source=source).fit(problem.x, problem.y).model)

    assert torch.equal(weights(SeededNoise(1)), weights(SeededNoise(1)))
    assert not torch.equal(weights(SeededNoise(1)), weights(SeededNoise(2)))
    assert not torch.equal(weights(SystemNoise()), weights(SystemNoise()))


@pytest.mark.parametrize("micro", [1, 3, 1000])
def test_micro_batches_change_nothing_beyond_rounding(micro):
    def weights(size):
        problem = make_problem(rows=40)
        trainer = trainer_for(problem, batch=20.0, micro_batch=size, zstep=AdamCoordinates(steps=5))
        return flat(trainer.fit(problem.x, problem.y).model)

    assert torch.allclose(weights(micro), weights(None), atol=1e-6)


def test_empty_batches_are_noise_only_steps():
    problem = make_problem(rows=12)
    run = trainer_for(problem, batch=1e-7, steps=3).fit(problem.x, problem.y)
    assert len(run.ledger) == 3
    assert torch.isfinite(flat(run.model)).all()
    assert not torch.equal(flat(run.model), flat(problem.network))


def test_fitting_twice_gives_two_honest_runs(problem):
    """Found in review: training in place, the second run's ledger knew nothing of the first's releases."""
    start = flat(problem.network)
    trainer = trainer_for(problem)
    first, second = trainer.fit(problem.x, problem.y), trainer.fit(problem.x, problem.y)
    assert torch.equal(flat(problem.network), start)
    assert first.model is not second.model
    assert torch.equal(flat(first.model), flat(second.model))  # same seed, same start: no trace of the first run
    assert len(first.ledger) == len(second.ledger) == 4


def test_the_model_that_is_kept_and_judged_is_the_w_steps(problem):
    """An average of the weights, if that is what the W-step keeps; what evaluate says of it is in the history."""
    seen = []
    more = {"evaluate": lambda network: seen.append(network) or {"weights": float(flat(network).sum())}}
    run = trainer_for(problem, wstep=Averaged(OptimizerStep(0.1)), **more).fit(problem.x, problem.y)
    plain = trainer_for(problem, wstep=OptimizerStep(0.1)).fit(problem.x, problem.y)
    assert not torch.equal(flat(run.model), flat(plain.model))
    assert all(network is run.model for network in seen[1:])  # the first was a copy, before the first step
    assert run.history[-1].metrics == {"weights": float(flat(run.model).sum())}


def test_removing_a_row_moves_the_others_by_rounding_only():
    problem = make_problem(rows=20)
    zstep = AdamCoordinates(steps=20, lr=0.05)
    parts_of = Step(problem.network, problem.loss, zstep, FirstOrder(), Normalise()).query().parts
    whole = parts_of(problem.x, problem.y)
    for row in (0, 7, 19):
        keep = torch.arange(20) != row
        for p, q in zip(whole, parts_of(problem.x[keep], problem.y[keep]), strict=True):
            assert torch.allclose(p.left[keep], q.left, atol=1e-10)
            assert torch.allclose(p.right[keep], q.right, atol=1e-10)


def test_history_holds_only_public_numbers(problem):
    """Step, epoch, rate, norms of what was released; and no loss or accuracy unless evaluate was given public rows."""
    run = trainer_for(problem).fit(problem.x, problem.y)
    assert set(vars(run.history[0])) == {"step", "epoch", "lr", "released_norms", "metrics"}
    assert run.history[0].metrics == {}


def test_a_ledger_from_before_must_match_the_plan(problem):
    before = (Mechanism(5.0, label="DP-PCA"),)
    plan = Plan(12, 6, 2, 1.0, 1e-5, before)
    trainer = Trainer(problem.network, problem.loss, plan, FixedPrediction(), source=SeededNoise(0))
    with pytest.raises(ArgumentError, match=r"plan\.before"):
        trainer.fit(problem.x, problem.y)
    ledger = Ledger()
    query = Query("DP-PCA", [Partition("a", (1,), 1.0)], lambda x: [DensePart(0 * x[:, :1])])
    everything = PrivateRows(problem.x).everything()
    release(everything, query, noise_multiplier=5.0, source=SeededNoise(0), ledger=ledger)
    run = trainer.fit(problem.x, problem.y, ledger)
    assert run.ledger.epsilon(1e-5) == plan.epsilon()
    with pytest.raises(ArgumentError, match=r"plan\.before"):
        trainer.fit(problem.x, problem.y, ledger)  # spent already: it cannot be used for a second training


def test_an_interrupted_run_leaves_exactly_what_was_spent(problem):
    ledger = Ledger()

    def stop(done, total):
        assert total == 10
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer_for(problem, steps=10, on_step=stop).fit(problem.x, problem.y, ledger)
    assert len(ledger) == 3


def test_rows_that_overflow_inside_the_network_do_not_reach_the_sum():
    problem = make_problem(hidden="relu", loss_name="squared", rows=12)
    problem.network.float()
    x, y = problem.x.float(), problem.y.float()
    x[3] *= 1e30
    y[3] *= 1e30
    trainer = trainer_for(problem, batch=12.0, zstep=AdamCoordinates(steps=3), bound=Normalise())
    assert torch.isfinite(flat(trainer.fit(x, y).model)).all()


def test_noise_without_a_bound_is_refused(problem):
    with pytest.raises(ArgumentError, match="noise needs a bound"):
        trainer_for(problem, bound=Unbounded()).fit(problem.x, problem.y)
    with pytest.raises(ArgumentError, match="micro_batch=0"):
        trainer_for(problem, micro_batch=0).fit(problem.x, problem.y)


def test_books_that_do_not_balance_are_an_error(problem):
    class Forgetful(Ledger):
        def append(self, entry):
            if len(self) < 2:
                super().append(entry)

    with pytest.raises(RuntimeError, match="does not hold what the plan promised"):
        trainer_for(problem).fit(problem.x, problem.y, Forgetful())


def test_entries_name_the_layers(problem):
    run = trainer_for(problem, bound=PerLayerClip((1.0, 2.0, 3.0))).fit(problem.x, problem.y)
    entry: Entry = run.ledger.entries[0]
    root = math.sqrt(3)
    assert entry.scales == pytest.approx({"layer 1": root, "layer 2": 2 * root, "layer 3": 3 * root})
    assert entry.seeded
    assert entry.label == "training step"


@pytest.mark.parametrize("make", [make_problem, make_images])
def test_one_row_moves_the_release_by_at_most_its_scale(make):
    """The whole way, Z-step included: blank a row, keep the noise, and compare what the door lets out."""
    problem = make(rows=16)
    zstep = AdamCoordinates(steps=20, lr=0.05)
    query = Step(problem.network, problem.loss, zstep, FirstOrder(), Normalise()).query()
    table = PrivateRows(problem.x, problem.y)

    def out(rows):
        found = release(rows.everything(), query, noise_multiplier=1.0, source=SeededNoise(3), ledger=Ledger())
        return torch.cat([found[p.name].flatten() / p.scale for p in query.partitions])

    whole = out(table)
    for place in range(16):
        assert 0.5 < (whole - out(table.without(place))).norm() <= 1.0


@pytest.mark.parametrize("name", ["evaluate", "on_step"])
def test_what_cannot_be_called_is_refused_before_anything_is_paid(problem, name):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=rf"{name}=3: give a function, or None"):
        trainer_for(problem, **{name: 3}).fit(problem.x, problem.y, ledger=ledger)
    assert len(ledger) == 0


@pytest.mark.parametrize("answer", [{"accuracy": "high"}, None, 0.5])
def test_a_metric_that_fails_is_found_before_anything_is_spent(problem, answer):
    ledger = Ledger()
    with pytest.raises((AttributeError, TypeError, ValueError)):
        trainer_for(problem, evaluate=lambda _: answer).fit(problem.x, problem.y, ledger)
    assert len(ledger) == 0


def test_a_history_with_numbers_that_are_not_finite_can_be_saved(problem, tmp_path):
    run = trainer_for(problem, evaluate=lambda _: {"loss": math.inf}).fit(problem.x, problem.y)
    run.save(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "history.json").read_text())[-1]["metrics"] == {"loss": "inf"}
