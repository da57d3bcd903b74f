"""Additive models in files: bit for bit, with their edits; and as JSON that a few lines of Python can apply."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
import torch

import dpmac
from additives import COLUMNS, FEW, binary, number, table, three
from dpmac.checks import ArgumentError
from dpmac.report.page import write_report
from dpmac.saving import export_json, export_onnx, export_torch
from dpmac.saving.keys import new_key, private_key
from dpmac.saving.manifest import sealed
from dpmac.saving.signing import sign, verify
from dpmac.saving.terms_json import plain_terms
from dpmac.tables import Category, Number, Schema
from dpmac.tables.kinds import KINDS

pytestmark = pytest.mark.filterwarnings("ignore:this process has fitted these rows before")
SAID = {"who": "A. Mills", "why": "agreed"}
MAKERS = {"binary": binary, "number": number, "three": three}


@pytest.fixture(scope="module")
def fitted():
    made = {}
    for kind, make in MAKERS.items():
        made[kind] = make().fit(table(target=kind))
        made[kind].remove_term("only", **SAID)
    made["binary"].make_monotone({"age": 1}, **SAID)
    return made


def answer(model, rows):
    return model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)


@pytest.mark.parametrize("kind", MAKERS)
def test_it_comes_back_bit_for_bit_with_its_edits(fitted, kind, tmp_path):
    model, rows = fitted[kind], table(100, seed=7, target=kind)
    model.save(tmp_path / "run")
    again = dpmac.load(tmp_path / "run")
    np.testing.assert_array_equal(answer(again, rows), answer(model, rows))
    np.testing.assert_array_equal(again.term_noise_, model.term_noise_)
    assert [edit.sentence() for edit in again.edits_] == [edit.sentence() for edit in model.edits_]
    untouched = copy.deepcopy(model)
    while untouched.edits_:
        untouched.undo()
        again.undo()
        np.testing.assert_array_equal(answer(again, rows), answer(untouched, rows))
    again.save(tmp_path / "undone")
    assert "edits" not in (tmp_path / "undone" / "statement.txt").read_text()


def test_card_statement_and_report_name_the_edits(fitted, tmp_path):
    folder = fitted["binary"].save(tmp_path / "run")
    page = write_report(folder).read_text()
    for text in ((folder / "README.md").read_text(), (folder / "statement.txt").read_text(), page):
        assert "by A. Mills on " in text
        assert "agreed" in text
    assert json.loads((folder / "statement.json").read_text())["epsilon"] == fitted["binary"].privacy_.epsilon
    assert "The model is a sum of terms" in page
    assert "synthetic rows" not in page.partition('id="columns"')[2].partition("</section>")[0]
    for name in (*COLUMNS, "age x job"):
        assert f"<h3>{name} <span>" in page


def test_a_signature_covers_the_edits(fitted, tmp_path):
    folder = fitted["binary"].save(tmp_path / "run", searched="no")
    new_key(tmp_path / "key")
    sign(folder, private_key(tmp_path / "key"), "an officer")
    assert "dpmac.json" in verify(folder).files


@pytest.mark.parametrize(
    "forge",
    [
        lambda fitted: fitted.pop("edits_"),
        lambda fitted: fitted.pop("term_noise_"),
        lambda fitted: fitted["term_noise_"]["array"].update(shape=[2, 1], values=[0.0, 0.0]),
        lambda fitted: fitted["edits_"]["tuple"][0]["object"][1].update(terms={"tuple": ["job"]}),
        lambda fitted: fitted["edits_"]["tuple"][0]["object"][1].update(who=""),
        lambda fitted: fitted["edits_"]["tuple"].append(3),
    ],
)
def test_a_forged_manifest_is_noticed(fitted, tmp_path, forge):
    folder = fitted["binary"].save(tmp_path / "run")
    manifest = json.loads((folder / "dpmac.json").read_text())
    forge(manifest["fitted"])
    manifest.pop("seal")
    (folder / "dpmac.json").write_bytes(sealed(manifest))
    with pytest.raises(ValueError, match=r"dpmac\.json|belong together"):
        dpmac.load(folder)


# --- for other programs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["binary", *(pytest.param(one, marks=pytest.mark.long) for one in ("number", "three"))]
)
def test_a_torch_program_gives_the_same_numbers(fitted, kind, tmp_path):
    export_torch(fitted[kind], tmp_path / "model.pt2")
    rows = table(60, seed=8, target=kind)
    program = torch.export.load(str(tmp_path / "model.pt2")).module()
    found = program(fitted[kind].feature_map_.codes(rows)).numpy()
    np.testing.assert_allclose(found, answer(fitted[kind], rows), atol=1e-12)


@pytest.mark.parametrize("kind", MAKERS)
def test_an_onnx_graph_gives_about_the_same(fitted, kind, tmp_path):
    """Of models with pairs and dates, one of which was made monotone; and of the same after another edit."""
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    rows, edited = table(60, seed=8, target=kind), copy.deepcopy(fitted[kind])
    edited.remove_term("age", **SAID)
    for place, model in enumerate((fitted[kind], edited)):
        session = runtime.InferenceSession(str(export_onnx(model, tmp_path / f"{place}.onnx")))
        (found,) = session.run(None, {"rows": model.feature_map_.codes(rows).numpy()})
        np.testing.assert_allclose(found.reshape(answer(model, rows).shape), answer(model, rows), rtol=1e-5, atol=1e-5)
    assert not np.array_equal(answer(fitted[kind], rows), answer(edited, rows))


def weights(axis, cell):
    """How much of each point's value a cell has: what a spreadsheet does with MATCH and two differences."""
    if cell is None:
        return {axis["missing"]: 1.0} if "missing" in axis else {}
    if axis["kind"] == "line":
        points = axis["points"]
        if cell <= points[0]:
            return {0: 1.0}
        if cell >= points[-1]:
            return {len(points) - 1: 1.0}
        place = max(k for k, point in enumerate(points) if point <= cell)
        part = (cell - points[place]) / (points[place + 1] - points[place])
        return {place: 1.0 - part, place + 1: part}
    if cell in axis["points"]:
        return {axis["points"].index(cell): 1.0}
    return {"other": 1.0} if "other" in axis else {}


def applied(terms, row):
    """The sum of terms, by the file alone."""
    total = np.array(terms["intercept"], dtype=float)
    for term in terms["terms"]:
        for part in term["parts"]:
            if part["kind"] == "missing":
                if row[part["column"]] is None:
                    total = total + np.array(part["value"])
            elif part["kind"] == "grid":
                one, other = (weights(axis, row[axis["column"]]) for axis in part["axes"])
                places = [
                    {axis["other"] if p == "other" else p: w for p, w in found.items()}
                    for axis, found in zip(part["axes"], (one, other), strict=True)
                ]
                for a, first in places[0].items():
                    for b, second in places[1].items():
                        total = total + first * second * np.array(part["values"][a][b])
            else:
                cell = row[part["column"]]
                if cell is not None and "of the date" in part:
                    day = np.datetime64("2000-01-01") + int(cell)
                    cell = {"month": "%b", "weekday": "%a"}[part["of the date"]]
                    cell = day.astype(object).strftime(cell)
                for place, weight in weights({**part, "missing": None} if cell is None else part, cell).items():
                    if place is not None:
                        total = total + weight * np.array(part["other"] if place == "other" else part["values"][place])
    return total


def plain_rows(rows, names):
    """Cells as somebody would type them into a spreadsheet: numbers, texts, days since 2000."""
    made = []
    for place in range(len(next(iter(rows.values())))):
        row = {}
        for name in names:
            cell = rows[name][place]
            if isinstance(cell, np.datetime64):
                row[name] = None if np.isnat(cell) else float((cell - np.datetime64("2000-01-01")).astype(int))
            elif cell is None or cell != cell:
                row[name] = None
            else:
                row[name] = float(cell) if isinstance(cell, float) else str(cell)
        made.append(row)
    return made


@pytest.mark.parametrize("kind", MAKERS)
def test_the_json_alone_gives_the_models_answers(fitted, kind, tmp_path):
    model, rows = fitted[kind], table(80, seed=9, target=kind)
    terms = json.loads(export_json(model, tmp_path / "terms.json").read_text())
    totals = np.array([applied(terms, row) for row in plain_rows(rows, COLUMNS)])
    if kind == "number":
        found = np.clip(totals, *terms["limits"])
    elif kind == "binary":
        found = np.stack([1 / (1 + np.exp(totals)), 1 / (1 + np.exp(-totals))], axis=1)
    else:
        found = np.exp(totals) / np.exp(totals).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, answer(model, rows), atol=1e-9)
    assert len(terms["edits"]) == len(model.edits_)


def test_its_worked_example_works(fitted):
    terms = plain_terms(fitted["binary"])
    example = terms["example"]
    assert math.isclose(sum(example["adds"].values()), example["sum"], abs_tol=1e-12)
    assert math.isclose(1 / (1 + math.exp(-example["sum"])), example["answer"], abs_tol=1e-12)
    row = {
        name: float((np.datetime64(cell) - np.datetime64("2000-01-01")).astype(int))
        if COLUMNS[name].kind == "date"
        else cell
        for name, cell in example["row"].items()
    }
    assert math.isclose(float(applied(terms, row)), example["sum"], abs_tol=1e-9)


def test_what_no_spreadsheet_can_read_is_refused(tmp_path):
    text = KINDS["text"].samples()[0]
    known = Schema({"note": text, "size": Number(0, 1), "y": Category(["0", "1"])}, target="y")
    rows = {"note": ["good film", "bad"] * 60, "size": [0.5, 0.1] * 60, "y": ["0", "1"] * 60}
    model = dpmac.DPMACClassifier(schema=known, additive=True, **FEW).fit(rows)
    with pytest.raises(ArgumentError, match="note"):
        export_json(model, tmp_path / "terms.json")
    with pytest.raises(ArgumentError, match="additive=True"):
        export_json(dpmac.DPMACClassifier(schema=known, **FEW).fit(rows), tmp_path / "terms.json")
    assert not list(tmp_path.iterdir())
