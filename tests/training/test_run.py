"""A run with its feature map: trained on raw rows, saved whole, and used on raw rows again."""

from __future__ import annotations

import json

import pytest
import torch

from conftest import make_images, make_problem
from dpmac.mac import AdamCoordinates, FixedPrediction
from dpmac.methods import DPPCA
from dpmac.nets import Network
from dpmac.nets.feature_maps import Affine, Chain, LowFrequencies, ToRange, load_feature_map
from dpmac.privacy import JointClip, Ledger, Normalise, Plan
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer
from dpmac.training.run import new_folder

RAW = 3 * SeededNoise(4).normal((40, 9))
FEATURE_MAPS = {
    "to range": ToRange(-2.0, torch.arange(1.0, 10.0)),
    "affine": Affine(0.2, 0.5),
    "low frequencies": LowFrequencies(3, 5, 0.1),
    "projection": DPPCA(4, 0.5)
    .fit(RAW, SeededNoise(0), Ledger())
    .feature_map(length=2.0)
    .as_public("a ledger of its own"),
    "chain": Chain((ToRange(-3.0, 3.0), LowFrequencies(3, 6))),
}
each_feature_map = pytest.mark.parametrize("feature_map", FEATURE_MAPS.values(), ids=FEATURE_MAPS)
FILES = {"model.safetensors", "plan.json", "ledger.jsonl", "history.json", "statement.txt", "statement.json"}


def flat(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def trainer_for(problem, feature_map=None, **more):
    plan = Plan(40, 10.0, 8, 1.0, 1e-5)
    usual = {"zstep": FixedPrediction(), "bound": Normalise(), "source": SeededNoise(0)}
    return Trainer(problem.network, problem.loss, plan, feature_map=feature_map, **{**usual, **more})


def problem_for(feature_map, dtype=torch.float64):
    problem = make_problem((feature_map.shape_after((9,))[0], 6, 3), rows=40)
    problem.network.to(dtype)
    problem.y = problem.y.to(dtype)
    return problem


@each_feature_map
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_feature_map_trains_as_rows_that_went_through_it_beforehand(feature_map, dtype):
    """In double, then cast to the network's precision; in whatever precision the raw rows come. Same seed."""
    problem = problem_for(feature_map, dtype)
    for more in ({}, {"bound": JointClip(0.5), "zstep": AdamCoordinates(steps=3, lr=0.05), "micro_batch": 64}):
        ours = trainer_for(problem, feature_map, **more).fit(RAW.float(), problem.y)
        theirs = trainer_for(problem, **more).fit(feature_map(RAW.float().double()).to(dtype), problem.y)
        assert torch.allclose(flat(ours.model), flat(theirs.model), atol=1e-5 if dtype == torch.float32 else 1e-9)
        assert ours.model.dtype == dtype
        assert ours.ledger.entries == theirs.ledger.entries
        assert theirs.feature_map is None


@each_feature_map
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_outputs_take_raw_rows_and_do_not_depend_on_the_rows_beside(feature_map, dtype):
    problem = problem_for(feature_map, dtype)
    run = trainer_for(problem, feature_map).fit(RAW, problem.y)
    outputs = run.outputs(RAW)
    exact = run.model.plain().double()
    with torch.no_grad():
        assert torch.allclose(outputs, exact(feature_map(RAW).to(dtype).double()), atol=1e-12)
    assert outputs.dtype == torch.float64
    assert not outputs.requires_grad
    alone = torch.cat([run.outputs(row[None]) for row in RAW])
    assert torch.allclose(outputs, alone, atol=1e-12 if dtype == torch.float64 else 1e-6)
    assert run.model.dtype == dtype  # looking changes nothing


def test_outputs_without_a_feature_map_are_the_networks():
    problem = make_images(rows=40)
    run = trainer_for(problem).fit(problem.x, problem.y)
    with torch.no_grad():
        assert torch.allclose(run.outputs(problem.x), run.model(problem.x), atol=1e-12)


@each_feature_map
def test_model_and_feature_map_read_back_give_the_same_outputs(feature_map, tmp_path):
    problem = problem_for(feature_map, torch.float32)
    run = trainer_for(problem, feature_map).fit(RAW, problem.y)
    assert run.feature_map is not feature_map  # a copy, as the model is
    folder = run.save(tmp_path / "run")
    assert {p.name for p in folder.iterdir()} == {*FILES, "front.safetensors"}
    back, network = load_feature_map(folder / "front.safetensors"), Network.load(folder / "model.safetensors")
    assert type(back) is type(feature_map)
    with torch.no_grad():
        again = network.plain().double()(back(RAW).float().double())
    assert torch.equal(again, run.outputs(RAW))


def test_saving_writes_everything_and_never_over_an_old_run(tmp_path):
    problem = make_problem(rows=40)
    problem.network.float()
    run = trainer_for(problem).fit(problem.x.float(), problem.y.float())
    folder = run.save(tmp_path / "run", extra={"answer": 42})
    assert {p.name for p in folder.iterdir()} == {*FILES, "result.json"}  # no feature map, no file
    assert Ledger.load(folder / "ledger.jsonl").entries == run.ledger.entries
    assert torch.equal(flat(Network.load(folder / "model.safetensors")), flat(run.model))
    assert json.loads((folder / "statement.json").read_text())["epsilon"] == run.statement().epsilon
    assert (folder / "statement.txt").read_text() == f"{run.statement()}\n"
    assert json.loads((folder / "plan.json").read_text())["steps"] == 8
    assert json.loads((folder / "history.json").read_text())[-1]["step"] == 8
    assert json.loads((folder / "result.json").read_text()) == {"answer": 42}
    with pytest.raises(FileExistsError):
        run.save(tmp_path / "run")


def test_a_new_folder_is_never_an_old_one(tmp_path):
    folders = set()
    for _ in range(4):
        folder = new_folder(tmp_path, "demo")
        folder.mkdir()
        folders.add(folder)
    assert len(folders) == 4
    assert all(folder.name.startswith("demo-") for folder in folders)
