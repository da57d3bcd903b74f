"""Exports give the estimators' own numbers, in a process that has no dpmac."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from saved_models import COLUMNS, MAKERS, made

from dpmac import ArgumentError
from dpmac.saving import export_onnx, export_torch
from dpmac.saving.modules import Table, plain_module
from dpmac.tables import TableEncoder


def raw(model, x):
    """The rows as an exported model takes them."""
    return model._raw(x)


def expected(model, x):
    if hasattr(model, "predict_proba"):
        return [model.predict_proba(x)]
    if hasattr(model, "predict"):
        return [model.predict(x)]
    codes = model.transform(x)
    again = model._inputs_of(torch.from_numpy(codes)).cpu().numpy()
    return [codes, again if isinstance(model.feature_map_, TableEncoder) else model.inverse_transform(codes)]


def as_arrays(found):
    return [one.numpy() for one in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("name", MAKERS)
def test_a_plain_module_gives_the_same_numbers(name):
    model, x = made(name)
    for found, wanted in zip(as_arrays(plain_module(model)(raw(model, x))), expected(model, x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    for found, wanted in zip(
        as_arrays(plain_module(model, single=True)(raw(model, x))), expected(model, x), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def every_kind():
    """An encoder with columns of every kind, and codes of them, ordinary and odd."""
    encoder, (width,) = TableEncoder.sample()
    odd = [math.nan, math.inf, -math.inf, -1.0, 0.0, -0.0, 0.5, 1.0, 2.0, 3.0, 54.0, 1e17, 1e300, -1e300, 5e-324]
    rows = torch.tensor(odd, dtype=torch.float64)[:, None].repeat(1, width)
    drawn = [column.coded("", column.drawn(np.linspace(0, 0.99, 99))) for column in encoder.schema.features.values()]
    return encoder, torch.cat([rows, torch.from_numpy(np.concatenate([x.reshape(99, -1) for x in drawn], axis=1))])


def program_of(encoder, rows):
    shapes = ({0: torch.export.Dim("rows")},)
    return torch.export.export(Table(encoder), (rows[:3],), dynamic_shapes=shapes, strict=False)


def test_an_exported_program_gives_the_inputs_of_every_kind_of_column_bit_for_bit():
    encoder, rows = every_kind()
    program = program_of(encoder, rows).module()
    for n in (len(rows), 1, 0):
        assert torch.equal(program(rows[:n]), encoder(rows[:n]))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning")  # of torch's exporter, on itself
def test_an_onnx_graph_gives_the_inputs_of_every_kind_of_column(tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    encoder, rows = every_kind()
    found = torch.onnx.export(
        program_of(encoder, rows), dynamo=True, input_names=["rows"], verbose=False, optimize=False
    )
    found.save(str(tmp_path / "feature_map.onnx"))
    session = runtime.InferenceSession(str(tmp_path / "feature_map.onnx"))
    np.testing.assert_allclose(session.run(None, {"rows": rows.numpy()})[0], encoder(rows).numpy(), atol=1e-12)


ELSEWHERE = """
import json, sys
sys.modules["dpmac"] = None  # whoever imports it fails
import numpy as np
import torch
torch.set_num_threads(1)
for path in sys.argv[1:]:
    extra = {"dpmac.json": ""}
    module = torch.export.load(path, extra_files=extra).module()
    about = json.loads(extra["dpmac.json"])
    assert about == json.load(open(f"{path}.json"))
    with np.load(f"{path}.npz") as kept:
        rows, wanted = kept["rows"], [kept[f"out{k}"] for k in range(len(about["outputs"]))]
        close = float(kept["close"])
    for n in (len(rows), 1, 0):
        found = module(torch.from_numpy(rows[:n]))
        found = found if isinstance(found, tuple) else (found,)
        for one, two in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), two[:n], rtol=0, atol=close)
"""


IN_SINGLE_PRECISION = {"pictures"}  # whose features are; everything else is in double


@pytest.mark.long
def test_torch_programs_give_the_same_numbers_without_dpmac(tmp_path):
    paths = []
    for name in MAKERS:
        model, x = made(name)
        path = export_torch(model, tmp_path / f"{name}.pt2")
        wanted = {f"out{k}": value for k, value in enumerate(expected(model, x))}
        close = 1e-6 if name in IN_SINGLE_PRECISION else 1e-12
        np.savez(f"{path}.npz", rows=raw(model, x).numpy(), close=close, **wanted)
        paths.append(str(path))
    subprocess.run([sys.executable, "-W", "ignore", "-c", ELSEWHERE, *paths], check=True, cwd=tmp_path)


def test_a_torch_program_says_what_it_takes_and_gives(tmp_path):
    model, x = made("table")
    program = torch.export.load(export_torch(model, tmp_path / "table.pt2")).module()
    for n in (len(x["age"]), 1, 0):
        found = as_arrays(program(raw(model, x)[:n]))
        np.testing.assert_allclose(found[0], expected(model, x)[0][:n], rtol=0, atol=1e-12)
    about = json.loads((tmp_path / "table.pt2.json").read_text())
    sex = next(column for column in about["input"]["columns"] if column["name"] == "sex")
    assert sex == {
        "name": "sex",
        "kind": "category",
        "codes": {"F": 0, "M": 1},
        "any other": 2,
        "missing": "not allowed",
    }
    assert [column["name"] for column in about["input"]["columns"]] == list(COLUMNS)
    assert about["outputs"] == [{"name": "probabilities", "of": "each class", "classes": ["0", "1"]}]
    assert about["privacy"]["epsilon"] == made("table")[0].privacy_.epsilon
    assert str(tmp_path).encode() not in (tmp_path / "table.pt2").read_bytes()


def test_a_folder_is_exported_too_and_nothing_is_written_over(tmp_path):
    folder = made("strings")[0].save(tmp_path / "run")
    path = export_torch(folder, folder / "model.pt2")
    assert {p.name for p in folder.iterdir()} >= {"model.pt2", "model.pt2.json"}
    before = path.read_bytes()
    with pytest.raises(ArgumentError, match="nothing is written over it"):
        export_torch(folder, path)
    assert path.read_bytes() == before
    with pytest.raises(ArgumentError, match=r"ends in \.pt2"):
        export_torch(folder, tmp_path / "model.txt")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        export_torch(tmp_path / "nowhere", tmp_path / "x.pt2")


def test_onnx_says_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setattr("dpmac.saving.export.find_spec", lambda name: None)
    with pytest.raises(ArgumentError, match=r"pip install 'dpmac\[onnx\]'"):
        export_onnx(made("strings")[0], tmp_path / "model.onnx")


SAME_GRAPH = {
    "ints",
    "bools",
    "floats",
    "named columns",
    "table, schema as a dictionary",
}  # as others; torch has all


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in MAKERS if name not in SAME_GRAPH])
def test_an_onnx_graph_gives_the_same_numbers_to_six_digits(name, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model, x = made(name)
    session = runtime.InferenceSession(str(export_onnx(model, tmp_path / "model.onnx")))
    about = json.loads(session.get_modelmeta().custom_metadata_map["dpmac"])
    assert about == json.loads((tmp_path / "model.onnx.json").read_text())
    assert [one.name for one in session.get_outputs()] == [one["name"] for one in about["outputs"]]
    rows = raw(model, x).numpy()
    assert rows.dtype == about["input"]["dtype"]
    for n in (len(rows), 1, 0):
        for found, wanted in zip(session.run(None, {"rows": rows[:n]}), expected(model, x), strict=True):
            np.testing.assert_allclose(found, wanted[:n], rtol=1e-4, atol=1e-4)
    assert b"/saving/modules.py" not in (tmp_path / "model.onnx").read_bytes()
