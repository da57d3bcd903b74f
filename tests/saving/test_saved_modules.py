"""Folders of module estimators: weights and facts come back, code is handed in, and what differs is named."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from saved_models import all_same, answers
from torch import nn
from typer.testing import CliRunner

import dpmac
from dpmac import ArgumentError, DPMACModuleClassifier, DPMACModuleRegressor, Ledger
from dpmac.cli import app
from dpmac.extensions.provenance import origin_of
from dpmac.report.page import write_report
from dpmac.saving import export_torch, open_folder
from small_modules import Small, SmallRegression, Words

N = 60
QUICK = {"epsilon": 2.0, "epochs": 2, "batch_size": N}


def numbers(seed):
    x = np.random.RandomState(seed).uniform(-1, 1, (N, 4)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(int)


def fitted(seed=0, module=Small, **more):
    x, y = numbers(seed)
    return DPMACModuleClassifier(module, **{**QUICK, "classes": [0, 1], **more}).fit(x, y), x


def by_name(seed):
    tokens = np.random.RandomState(seed).randint(0, 20, (N, 5))
    x = {"mask": tokens < 19, "input_ids": tokens}  # not in the order in which the module has them
    x["mask"][:, 0] = True
    return DPMACModuleClassifier(Words, module__width=3, **QUICK).fit(x, tokens[:, 0] > 9), x


def regression(seed):
    x, _ = numbers(seed)
    return DPMACModuleRegressor(SmallRegression, target_range=(-1, 1.5), **QUICK).fit(x, x[:, 0]), x


def several(seed):
    x, y = numbers(seed)
    labels = np.stack([y, 1 - y], axis=1).astype(np.int8)
    return DPMACModuleClassifier(Small, **{**QUICK, "epsilon": math.inf}).fit(x, labels), x


def calibrated(seed):
    return fitted(seed, epsilon=12.0, module__width=3)


MAKERS = {"names": by_name, "regression": regression, "labels": several, "calibrated": calibrated}


@pytest.mark.parametrize("handed", ["class", "instance"])
@pytest.mark.parametrize("name", MAKERS)
def test_it_answers_and_tells_of_itself_as_before(name, handed, tmp_path):
    model, x = MAKERS[name](20 + list(MAKERS).index(name) + 10 * (handed == "class"))
    folder = model.save(tmp_path / "run")
    module = model.module if handed == "class" else model.module(**model._of_module)
    again = dpmac.load(folder, module=module)
    assert all_same(answers(again, x), answers(model, x))
    assert again.module is module
    assert again.module_ is not module
    assert {**again.get_params(), "module": 0} == {**model.get_params(), "module": 0}
    for key in ("plan_", "history_", "inputs_", "calibration_", "residual_std_", "target_range_"):
        assert getattr(again, key, None) == getattr(model, key, None), key
    assert again.privacy_.statement() == model.privacy_.statement()
    assert origin_of(again.module_) == origin_of(model.module_)
    assert all_same(answers(dpmac.load(again.save(tmp_path / "again"), module=module), x), answers(model, x))
    if name == "calibrated":
        assert again.calibration_ is not None


def test_nothing_is_executed_and_no_place_is_told(tmp_path):
    folder = fitted(1, ledger=Ledger(tmp_path / "book"), public_start="the moon")[0].save(tmp_path / "run")
    raw = json.loads((folder / "dpmac.json").read_text())
    assert raw["arguments"]["module"] == {"own": "small_modules.Small"}
    assert str(tmp_path) not in (folder / "dpmac.json").read_text()
    assert sorted(path.suffix for path in folder.iterdir()) == [".json"] * 4 + [".jsonl", ".md", ".safetensors", ".txt"]
    assert "the moon" in (folder / "statement.txt").read_text()


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = Small().layers


class Raising(nn.Module):
    def __init__(self):
        raise RuntimeError("not today")


def double():
    return Small().double()


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (None, r"module=None: the model in this folder is a torch module, small_modules\.Small"),
        (3, r"module=3: give the class of small_modules\.Small"),
        (Other, "holds the weights of a Small"),
        (Raising, "it raised RuntimeError: not today"),
        (dict, "module='dict'"),
        (Small(width=3), r"layers\.0\.bias is \(3,\).*in .*model\.safetensors it is \(6,\)"),
        (double(), "float64"),
    ],
)
def test_a_module_that_is_missing_or_another_is_named(module, said, tmp_path):
    folder = fitted(2)[0].save(tmp_path / "run")
    with pytest.raises(ArgumentError, match=said):
        dpmac.load(folder, module=module)


def test_a_model_that_has_no_module_takes_none(tmp_path):
    x, y = numbers(3)
    folder = dpmac.DPMACClassifier((), **QUICK).fit(x, y).save(tmp_path / "run")
    with pytest.raises(ArgumentError, match="a DPMACClassifier has none"):
        dpmac.load(folder, module=Small)


def test_what_private_rows_have_shaped_is_known_after_loading(tmp_path):
    model, x = fitted(4)
    again = dpmac.load(model.save(tmp_path / "run"), module=Small)
    with pytest.raises(ArgumentError, match="private rows have shaped it"):
        DPMACModuleClassifier(again.module_, **QUICK, ledger=Ledger()).fit(*numbers(5))
    assert again.predict(x).shape == (N,)


def test_card_report_and_inspect_need_no_code(tmp_path):
    folder = by_name(6)[0].save(tmp_path / "run")
    card = (folder / "README.md").read_text()
    for said in ("`input_ids`: (rows, 5) of int64", "`mask`: (rows, 5) of bool", "small_modules.Words", "module=..."):
        assert said in card
    page = write_report(folder).read_text()
    assert "small_modules.Words" in page
    shown = CliRunner().invoke(app, ["inspect", str(folder), "--json"])
    assert json.loads(shown.stdout)["module"] == "small_modules.Words"
    asked = CliRunner().invoke(app, ["export", str(folder), "--torch", str(tmp_path / "a.pt2")])
    assert asked.exit_code == 2
    assert "small_modules.Words" in asked.output


def test_an_export_is_torchs_own_business(tmp_path):
    model, x = fitted(7)
    with pytest.raises(ArgumentError, match=r"torch\.export\.export\(estimator\.module_"):
        export_torch(model, tmp_path / "a.pt2")
    program = torch.export.export(model.module_, (torch.from_numpy(x),))
    assert torch.equal(program.module()(torch.from_numpy(x)), model.module_(torch.from_numpy(x)))


FORGED = {
    "no inputs": {"inputs_": {"tuple": []}},
    "an endless input": {"inputs_": {"tuple": [{"tuple": [None, {"tuple": [2**40]}, "float"]}]}},
    "a type of its own": {"inputs_": {"tuple": [{"tuple": [None, {"tuple": [4]}, "quint"]}]}},
    "one class": {"classes_": {"array": {"dtype": "<i8", "shape": [1], "values": [0]}}},
}


@pytest.mark.parametrize("case", FORGED)
def test_a_manifest_that_was_forged_is_refused(case, tmp_path):
    found = open_folder(fitted(8 + list(FORGED).index(case))[0].save(tmp_path / "run"))
    found.manifest["fitted"].update(FORGED[case])
    with pytest.raises(ValueError, match="do not belong together"):
        found.estimator(module=Small)


class Deep(nn.Module):
    """As many layers, and as wide ones, as its arguments say."""

    def __init__(self, width=3, depth=1):
        super().__init__()
        self.first, self.last = nn.Linear(4, width), nn.Linear(width, 2)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in (self.first, *self.layers):
            x = torch.tanh(layer(x))
        return self.last(x)


class Looking(Small):
    """Cannot be made without memory: it looks at a number of its own."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.scale = float(torch.linspace(0, 1, 3)[1].item())


CLAIMS = [
    ({"module__width": 10**6}, "first.bias is"),
    ({"module__depth": 10**9}, "more than 1,600 layers and parameters"),
]


@pytest.mark.parametrize(("claims", "said"), CLAIMS, ids=["width", "depth"])
def test_arguments_in_a_folder_are_compared_with_its_file_before_memory_is_spent(claims, said, tmp_path, monkeypatch):
    """A folder of 9 KB asked for a layer of 20,000 by 20,000, and 2 GB were taken before it was refused."""
    model, x = fitted(12, Deep, module__depth=1)
    found = open_folder(model.save(tmp_path / "run"))
    assert np.array_equal(found.estimator(module=Deep).predict_proba(x), model.predict_proba(x))
    found.manifest["arguments"].update(claims)
    monkeypatch.setattr("dpmac.saving.module_model._made", lambda *_: pytest.fail("memory was spent"))
    with pytest.raises(ValueError, match=said):
        found.estimator(module=Deep)


def test_a_module_that_cannot_be_made_without_memory_is_handed_in_as_an_instance(tmp_path):
    model, x = fitted(13, Looking, module__width=3)
    folder = model.save(tmp_path / "run")
    with pytest.raises(ArgumentError, match="Hand in an instance"):
        dpmac.load(folder, module=Looking)
    assert np.array_equal(dpmac.load(folder, module=Looking(width=3)).predict(x), model.predict(x))
