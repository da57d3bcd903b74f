"""A classifier behind picture features: saved, loaded and exported as any other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dpmac
from dpmac import DPMACClassifier
from dpmac.nets.feature_maps import Joined
from dpmac.pictures import DrawnEncoder, Scattering
from dpmac.pictures.feature_maps import layout_of
from dpmac.priors import PicturePrior, WhiteningOptions, directions, whitened
from dpmac.randomness import SeededNoise
from dpmac.saving import export_onnx, export_torch
from dpmac.saving.modules import plain_module

WIDTHS = (8, 8, 8, 8, 8)


@pytest.fixture(scope="module")
def fitted():
    draw = SeededNoise(0)
    count = sum(shape.numel() for shape in layout_of(1, WIDTHS).values())
    encoder = DrawnEncoder(0.2 * draw.normal((count,)).half(), WIDTHS, "nothing: drawn numbers", 16, 16)
    both = Joined((encoder, Scattering(16, 16, side=8)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(directions, "WIDE", 100)  # the quick way
        features = whitened(both, PicturePrior(16, 16), WhiteningOptions(directions=9, rows=60))
    x = PicturePrior(16, 16, seed=3).drawn(60).numpy()
    model = DPMACClassifier((), epsilon=2.0, feature_map=features, prior=None, epochs=2, random_state=0)
    return model.fit(x, np.arange(60) % 3), x


def test_the_statement_names_the_encoder_and_the_drawings(fitted):
    said = str(fitted[0].privacy_.statement())
    assert "an encoder of pictures, which has seen nobody's: it was trained on nothing: drawn numbers" in said
    assert "60 rows of pictures (mixed) of 16 x 16 pixels" in said


def test_it_comes_back_bit_for_bit(fitted, tmp_path):
    model, x = fitted
    model.save(tmp_path / "model")
    assert np.array_equal(dpmac.load(tmp_path / "model").predict_proba(x), model.predict_proba(x))


def test_what_is_exported_gives_the_same_numbers(fitted, monkeypatch):
    """The module that an export traces, as it is traced; below, the traced one."""
    model, x = fitted
    program, said = plain_module(model), model.predict_proba(x)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for count in (60, 1):  # features in single precision, by products instead of fast transforms
        np.testing.assert_allclose(program(torch.from_numpy(x[:count])).numpy(), said[:count], atol=2e-5)


@pytest.mark.long
def test_a_torch_program_gives_the_same_numbers(fitted, tmp_path):
    model, x = fitted
    program = torch.export.load(export_torch(model, tmp_path / "model.pt2")).module()
    for count in (60, 1):
        found = program(torch.from_numpy(x[:count])).numpy()
        np.testing.assert_allclose(found, model.predict_proba(x[:count]), atol=2e-5)


@pytest.mark.long
def test_an_onnx_graph_gives_about_the_same(fitted, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model, x = fitted
    export_onnx(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    np.testing.assert_allclose(session.run(None, {"rows": x})[0], model.predict_proba(x), atol=1e-3)
