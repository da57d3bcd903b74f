"""The trainer: learns, keeps its books, refuses bad input before anything is spent."""

from __future__ import annotations

import copy
import functools
import json
import math

import pytest
import torch

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import AdamCoordinates, FixedPrediction, OptimizerStep
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
    SeededNoise,
    Unbounded,
    release,
)
from dpmac.privacy.bound import blocks_of
from dpmac.training import Trainer


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
        plan = Plan(60, 60, 300, 0.0, 1e-5)
        step = OptimizerStep(lr=0.02)
        run = Trainer(network, problem.loss, plan, zstep, Unbounded(), step, SeededNoise(0)).fit(problem.x, problem.y)
        after = problem.loss.value(run.model(problem.x), problem.y).mean()
        assert after < 0.25 * before
        assert not run.statement().private


def test_the_first_step_is_what_the_release_says():
    """One noiseless SGD step equals the clipped mean over the constant, done by hand."""
    problem = make_problem(rows=30)
    start = problem.network
    trainer = trainer_for(
        problem, steps=1, sigma=0.0, batch=30.0, bound=PerLayerClip(0.3),
        wstep=OptimizerStep(lr=1.0, optimizer=torch.optim.SGD),
    )  # fmt: skip
    run = trainer.fit(problem.x, problem.y)
    from dpmac.mac import first_order

    coordinates = FixedPrediction().solve(start, problem.loss, problem.x, problem.y)
    parts = first_order(start, problem.loss, coordinates)
    for k, (old, new) in enumerate(zip(start.linears, run.model.linears, strict=True)):
        clipped = torch.zeros(parts[k].shape, dtype=torch.float64)
        for left, right in zip(parts[k].left, parts[k].right, strict=True):
            matrix = torch.outer(left, right)
            clipped += matrix * min(1.0, 0.3 / float(matrix.norm()))
        weight = 0.5 if k < 2 else 1.0
        assert torch.allclose(old.weight - new.weight, weight * clipped[:, :-1] / 30, atol=1e-5)
        assert torch.allclose(old.bias - new.bias, weight * clipped[:, -1] / 30, atol=1e-5)


def test_seeded_runs_repeat_and_others_do_not():
    def weights(source):
        problem = make_problem()
        return flat(trainer_for(problem, source=source).fit(problem.x, problem.y).model)

    from dpmac.privacy import SystemNoise

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


def test_removing_a_row_moves_the_others_by_rounding_only():
    problem = make_problem(rows=20)
    trainer = trainer_for(problem, zstep=AdamCoordinates(steps=20, lr=0.05), bound=Normalise())
    whole = trainer._contribute(problem.network, trainer.bound, problem.x, problem.y)
    for row in (0, 7, 19):
        keep = torch.arange(20) != row
        fewer = trainer._contribute(problem.network, trainer.bound, problem.x[keep], problem.y[keep])
        for p, q in zip(whole, fewer, strict=True):
            assert torch.allclose(p.left[keep], q.left, atol=1e-10)
            assert torch.allclose(p.right[keep], q.right, atol=1e-10)


def test_history_holds_only_public_numbers(problem):
    """Two neighbouring tables with the same seed and huge noise give the same step, epoch and rate, and no loss."""
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
    release(
        PrivateRows(problem.x).everything(), lambda x: [DensePart(0 * x[:, :1])], [Partition("a", (1,), 1.0)],
        noise_multiplier=5.0, source=SeededNoise(0), ledger=ledger, label="DP-PCA",
    )  # fmt: skip
    run = trainer.fit(problem.x, problem.y, ledger)
    assert run.ledger.epsilon(1e-5) == plan.epsilon()
    with pytest.raises(ArgumentError, match=r"plan\.before"):
        trainer.fit(problem.x, problem.y, ledger)  # spent already: it cannot be used for a second training


def test_an_interrupted_run_leaves_exactly_what_was_spent(problem):
    ledger = Ledger()

    def stop(done, total):
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


BAD = [
    (lambda p: (p.x.float(), p.y), "x=torch.float32: the weights are torch.float64"),
    (lambda p: (p.x.long(), p.y), "x=torch.int64"),
    (lambda p: (p.x[:, :3], p.y), r"x='shape \(12, 3\)': the network needs shape \(n, 5\)"),
    (lambda p: (p.x, p.y[:, 0]), "y='shape"),
    (lambda p: (p.x, p.y[:5]), "y='5 rows'"),
    (lambda p: (p.x[:11], p.y[:11]), r"x='11 rows': the plan was made for n=12"),
    (lambda p: (p.x.index_fill(0, torch.tensor([4]), math.nan), p.y), "x=nan: row 4, column 0 is not finite"),
    (lambda p: (p.x, p.y.index_fill(1, torch.tensor([1]), math.inf)), "y=inf: row 0, column 1 is not finite"),
    (lambda p: (p.x, p.y + 1), r"y='entries outside \[0, 1\]'"),
]


@pytest.mark.parametrize(("spoil", "message"), BAD)
def test_bad_rows_are_named_and_nothing_is_spent(problem, spoil, message):
    ledger = Ledger()
    start = flat(problem.network)
    with pytest.raises(ArgumentError, match=message):
        trainer_for(problem).fit(*spoil(problem), ledger)
    assert len(ledger) == 0
    assert torch.equal(flat(problem.network), start)


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


def test_saving_writes_everything_and_never_over_an_old_run(tmp_path, problem):
    from dpmac.nets import DenseNetwork

    problem.network.float()
    run = trainer_for(problem).fit(problem.x.float(), problem.y.float())
    folder = run.save(tmp_path / "run", extra={"answer": 42})
    assert {p.name for p in folder.iterdir()} == {
        "model.safetensors", "plan.json", "ledger.jsonl", "history.json", "statement.txt", "statement.json",
        "result.json",
    }  # fmt: skip
    assert Ledger.load(folder / "ledger.jsonl").entries == run.ledger.entries
    assert torch.equal(flat(DenseNetwork.load(folder / "model.safetensors")), flat(run.model))
    assert json.loads((folder / "statement.json").read_text())["epsilon"] == run.statement().epsilon
    assert json.loads((folder / "plan.json").read_text())["steps"] == 4
    with pytest.raises(FileExistsError):
        run.save(tmp_path / "run")


def test_entries_name_the_layers(problem):
    run = trainer_for(problem, bound=PerLayerClip((1.0, 2.0, 3.0))).fit(problem.x, problem.y)
    entry: Entry = run.ledger.entries[0]
    root = math.sqrt(3)
    assert entry.scales == pytest.approx({"layer 1": root, "layer 2": 2 * root, "layer 3": 3 * root})
    assert entry.seeded


def test_one_row_moves_the_release_by_at_most_its_scale():
    """The whole way, Z-step included: drop a row, keep the noise, and compare what the door lets out."""
    problem = make_problem(rows=16)
    trainer = trainer_for(problem, batch=16.0, zstep=AdamCoordinates(steps=20, lr=0.05), bound=Normalise())
    contribute = functools.partial(trainer._contribute, problem.network, trainer.bound)
    parts = contribute(problem.x, problem.y)
    assert all(isinstance(p, OuterPart) for p in parts)
    partitions = trainer.bound.promise(blocks_of(problem.network.layer_names, [p.shape for p in parts]))

    def out(keep):
        released = release(
            PrivateRows(problem.x[keep], problem.y[keep]).everything(), contribute, partitions,
            noise_multiplier=1.0, source=SeededNoise(3), ledger=Ledger(), label="x",
        )  # fmt: skip
        return torch.cat([r.flatten() / p.scale for r, p in zip(released, partitions, strict=True)])

    everyone = torch.arange(16)
    for row in range(16):
        assert (out(everyone) - out(everyone[everyone != row])).norm() <= 1.0
