"""Trainings of modules from end to end: books, checkpoints, processes, provenance, files; the same as of a network."""

from __future__ import annotations

import copy
import math
import pickle
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from zoo import CLASSES, CROSS_ENTROPY, Masked, chain, fresh, numbers, squared, whole

from dpmac.bounds.adaptive import AdaptiveQuantile
from dpmac.checks import ArgumentError
from dpmac.extensions.provenance import origin_of
from dpmac.extensions.world import SINGLE_PROCESS, World
from dpmac.mac import Averaged, OptimizerStep, cosine
from dpmac.modules import as_public, load_weights
from dpmac.nets import DenseNetwork, loss
from dpmac.privacy import JointClip, Ledger, Normalise, Plan, PrivateRows
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Trainer
from dpmac.training.checkpoint import Checkpoints
from processes import together_run, values

ROWS, STEPS = 64, 6
TRAINED = ["two layers", "residual", "LSTM", "transformer", "masked attention", "own parameters", "tied words"]


def table(sample, rows=ROWS):
    *inputs, targets = sample.rows(rows, 4)
    if sample.names is not None:
        return dict(zip(sample.names, inputs, strict=True)), targets
    return tuple(inputs), targets


def trainer_of(name="residual", *, sigma=1.0, source=None, bound=None, **more):
    sample = fresh(name)
    plan = Plan(ROWS, 16, STEPS, sigma, 1e-3)
    more = {"wstep": OptimizerStep(0.05), "source": source or SeededNoise(2), **more}
    return Trainer.dp_sgd(sample.module, sample.loss, plan, bound or JointClip(1.0), **more), sample


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])


@pytest.mark.parametrize("name", TRAINED)
def test_a_seeded_training_is_the_same_twice_and_leaves_the_module_alone(name):
    runs = []
    for _ in range(2):
        trainer, sample = trainer_of(name)
        before = copy.deepcopy(sample.module.state_dict())
        runs.append(trainer.fit(*table(sample)))
        assert all(torch.equal(value, before[key]) for key, value in sample.module.state_dict().items())
    assert torch.equal(weights(runs[0]), weights(runs[1]))
    assert type(runs[0].model) is type(sample.module)
    assert len(runs[0].ledger) == STEPS
    assert runs[0].ledger.entries[0].scales.keys() == dict(sample.module.named_parameters()).keys()
    assert len(runs[0].history[-1].released_norms) == len(list(sample.module.parameters()))
    assert math.isfinite(runs[0].statement().epsilon)


def test_a_module_is_trained_as_the_same_network_is():
    """nn.Sequential against our own stack by DP-SGD: other partitions, so without noise; the same clipped gradients."""
    network = DenseNetwork([5, 4, 3], "tanh", source=SeededNoise(1))
    x, y = numbers(ROWS, 3, 5), torch.eye(3)[whole(ROWS, 4, 3)]
    plan = Plan(ROWS, ROWS, 4, 0.0, 1e-3)
    more = {"wstep": OptimizerStep(0.1, torch.optim.SGD), "source": SeededNoise(1)}
    ours = Trainer.dp_sgd(network, loss("softmax"), plan, JointClip(0.3), **more).fit(x, y)
    other = partial(F.cross_entropy, reduction="none")
    theirs = Trainer.dp_sgd(network.plain(), other, plan, JointClip(0.3), **more).fit(x, y.argmax(dim=1))
    torch.testing.assert_close(weights(ours), weights(theirs), atol=1e-5, rtol=1e-4)
    assert not torch.equal(weights(theirs), torch.cat([p.detach().flatten() for p in network.parameters()]))


def test_it_learns():
    x = numbers(600, 1, 6)
    y = (x[:, 0] * x[:, 1] > 0).long()
    plan = Plan(600, 200, 150, 0.5, 1e-4)
    module = chain(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 2))
    trainer = Trainer.dp_sgd(module, CROSS_ENTROPY, plan, JointClip(1.0), wstep=OptimizerStep(0.02))
    run = trainer.fit(x, y)
    assert float((run.outputs(x).argmax(dim=1) == y).float().mean()) > 0.8


def test_frozen_parameters_are_neither_noised_nor_moved():
    trainer, sample = trainer_of("adapters")
    run = trainer.fit(*table(sample))
    assert torch.equal(run.model.frozen.weight, sample.module.frozen.weight)
    assert not any(name.startswith("frozen") for name in run.ledger.entries[0].scales)
    assert not torch.equal(run.model.up, sample.module.up)


def test_micro_batches_change_nothing_beyond_rounding():
    found = []
    for micro_batch in (None, 32):
        trainer, sample = trainer_of("residual", sigma=0.0, micro_batch=micro_batch)
        found.append(weights(trainer.fit(*table(sample))))
    torch.testing.assert_close(*found, atol=2e-3, rtol=1e-2)


def test_without_targets_a_module_gives_back_its_input():
    module = chain(nn.Linear(7, 3), nn.Linear(3, 7))
    run = Trainer.dp_sgd(module, squared, Plan(ROWS, 16, 2, 1.0, 1e-3), Normalise()).fit(numbers(ROWS, 1, 7))
    assert len(run.ledger) == 2


def test_a_learned_threshold_works_with_modules():
    trainer, sample = trainer_of("two layers", bound=AdaptiveQuantile(0.5))
    run = trainer.fit(*table(sample))
    assert len(run.ledger) == STEPS
    assert run.ledger.entries[0].scales != run.ledger.entries[-1].scales


class Killed(BaseException):
    pass


def killing_at(step):
    def on_step(done, _total):
        if done == step:
            raise Killed

    return on_step


@pytest.mark.parametrize(("name", "every"), [("LSTM", 0.0), ("LSTM", 1e6), ("residual", 0.0), ("own parameters", 1e6)])
def test_a_seeded_run_that_was_killed_ends_as_if_it_had_not_been(tmp_path, name, every):
    wstep = Averaged(OptimizerStep(0.05, schedule=cosine), 0.9)
    trainer, sample = trainer_of(name, wstep=wstep)
    uninterrupted = trainer.fit(*table(sample))
    trainer, sample = trainer_of(name, wstep=wstep, on_step=killing_at(3))
    with pytest.raises(Killed):
        trainer.fit(*table(sample), Ledger.at(tmp_path / "ledger"), Checkpoints(tmp_path / "kept", every))
    trainer, sample = trainer_of(name, wstep=wstep)
    run = trainer.fit(*table(sample), Ledger.load(tmp_path / "ledger"), Checkpoints(tmp_path / "kept"))
    assert torch.equal(weights(run), weights(uninterrupted))
    assert Ledger.load(tmp_path / "ledger").entries == uninterrupted.ledger.entries


def test_a_checkpoint_of_another_module_is_refused(tmp_path):
    ledger, kept = tmp_path / "ledger", tmp_path / "kept"
    trainer, sample = trainer_of("two layers", on_step=killing_at(3))
    with pytest.raises(Killed):
        trainer.fit(*table(sample), Ledger.at(ledger), Checkpoints(kept))
    trainer, sample = trainer_of("no bias")
    with pytest.raises(ArgumentError, match="another network"):
        trainer.fit(*table(sample), Ledger.load(ledger), Checkpoints(kept))


def test_a_trained_module_carries_its_origin_and_is_refused_without_its_ledger(tmp_path):
    trainer, sample = trainer_of("residual")
    run = trainer.fit(*table(sample))
    again = Trainer.dp_sgd(run.model, sample.loss, trainer.plan, JointClip(1.0))
    for model in (run.model, copy.deepcopy(run.model), pickle.loads(pickle.dumps(run.model))):
        again.network = model
        with pytest.raises(ArgumentError, match=r"private rows have shaped it.*dpmac.modules.as_public\(network"):
            again.fit(*table(sample))
    taken = chain(run.model[0], nn.Flatten(), nn.Linear(256, CLASSES))  # a layer of it, in another module
    again.network = taken
    with pytest.raises(ArgumentError, match="private rows have shaped it"):
        again.fit(*table(sample))
    again.network = as_public(run.model, "rows of other people")
    assert "rows of other people" in str(again.fit(*table(sample)).statement())
    assert origin_of(run.model)
    run.save(tmp_path / "run")
    loaded = load_weights(fresh("residual").module, tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(loaded.state_dict()[key], value) for key, value in run.model.state_dict().items())
    assert origin_of(loaded) == origin_of(run.model)
    assert "differentially private" in (tmp_path / "run" / "statement.txt").read_text()


def test_an_error_leaves_a_model_that_knows_what_shaped_it():
    kept = []

    def evaluate(model):
        kept.append(model)
        return {"norm": float(sum(p.detach().norm() for p in model.parameters()))}

    trainer, sample = trainer_of("two layers", evaluate=evaluate, on_step=killing_at(5))
    with pytest.raises(Killed) as caught:
        trainer.fit(*table(sample))
    assert len(caught.value.ledger) == 5
    assert len(origin_of(kept[-1])) == 5


def trained(world: World, name: str, sigma: float):
    trainer, sample = trainer_of(name, sigma=sigma, source=SeededNoise(3), world=world)
    inputs, targets = table(sample)
    ends = [0, 20, ROWS] if world.size == 2 else [0, ROWS]
    mine = slice(ends[world.rank], ends[world.rank + 1])
    given = {key: x[mine] for key, x in inputs.items()} if isinstance(inputs, dict) else tuple(x[mine] for x in inputs)
    run = trainer.fit(given, targets[mine])
    return {"weights": weights(run).tolist(), "releases": len(run.ledger)}


@pytest.mark.parametrize("name", ["residual", "masked attention"])
def test_two_processes_train_the_model_that_one_trains(name):
    alone = trained(SINGLE_PROCESS, name, 1.0)
    several = values(together_run(2, trained, name, 1.0))
    assert several[0] == several[1]
    assert several[0]["releases"] == STEPS
    torch.testing.assert_close(
        torch.tensor(several[0]["weights"]), torch.tensor(alone["weights"]), atol=5e-3, rtol=0.05
    )


def test_persons_with_several_rows_count_once():
    sample = fresh("two layers")
    x, y = sample.rows(ROWS, 4)
    ids = torch.arange(ROWS) // 4
    rows = PrivateRows(x, y, groups=ids.tolist(), max_rows=4)
    plan = Plan(ROWS // 4, 8, 3, 1.0, 1e-3)
    run = Trainer.dp_sgd(sample.module, sample.loss, plan, JointClip(1.0), source=SystemNoise()).fit(rows)
    assert "person" in str(run.statement())


def test_inputs_by_name_are_those_of_the_module():
    sample = fresh("masked attention")
    inputs, targets = table(sample)
    plan = Plan(ROWS, 16, 2, 0.0, 1e-3)
    found = []
    for given in (inputs, dict(reversed(list(inputs.items()))), tuple(inputs.values())):
        trainer = Trainer.dp_sgd(sample.module, sample.loss, plan, JointClip(1.0), source=SeededNoise(1))
        found.append(weights(trainer.fit(given, targets)))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    assert isinstance(sample.module, Masked)
