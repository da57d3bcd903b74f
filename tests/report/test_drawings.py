"""The report on a classifier of pictures: drawings that nobody is on, what the model says of them, and its priors."""

from __future__ import annotations

import base64
import io
import re
from html import unescape

import numpy as np
import pytest

import dpmac
from cli.albums import drawn, few_drawings
from dpmac import DPMACImageClassifier
from dpmac.nets.feature_maps import Affine
from dpmac.report.drawings import CAPTION, png
from dpmac.report.page import write_report

QUICK = {"epsilon": 4.0, "epochs": 2, "random_state": 0, "machine": dpmac.Machine(progress=False)}


def images_on(page):
    """The pictures on a page, decoded by another program."""
    image = pytest.importorskip("PIL.Image")
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    return [np.asarray(image.open(io.BytesIO(base64.b64decode(one)))) for one in found]


@pytest.mark.parametrize("channels", [1, 3])
def test_a_png_is_what_another_program_reads(channels):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.RandomState(0).randint(0, 256, (5, 7, channels), dtype=np.uint8)
    read = np.asarray(image.open(io.BytesIO(png(pixels))))
    assert np.array_equal(read.reshape(pixels.shape), pixels)


def test_the_page_has_drawings_and_what_the_model_says_of_them_and_no_private_picture(tmp_path, monkeypatch):
    few_drawings(monkeypatch)
    x = np.concatenate([drawn("strokes", 10, 1), drawn("textures", 10, 1)])
    y = np.repeat(["<b>line", "cloth"], 10)
    model = DPMACImageClassifier(**QUICK).fit(x, y)
    model.save(tmp_path / "run")
    page = write_report(tmp_path / "run").read_text()
    shown = images_on(page)
    assert len(shown) == 12
    assert all(one.shape == (16, 16) for one in shown)
    assert not any(np.array_equal(one, private) for one in shown for private in x)
    assert CAPTION in unescape(page)
    says = re.findall(r"<span>([^<]+), (\d+)%</span>", page)
    p = dpmac.load(tmp_path / "run").predict_proba(np.stack(shown))
    assert [unescape(name) for name, _ in says] == model.classes_[p.argmax(axis=1)].tolist()
    assert "<b>line" not in page
    assert "A classifier of pictures: it takes pictures of 16 x 16 pixels with 1 channel." in page
    card = (tmp_path / "run" / "README.md").read_text()
    statement = (tmp_path / "run" / "statement.txt").read_text()
    known = "20 rows of pictures (mixed) of 28 x 28 pixels, drawn by the program dpmac.priors.PicturePrior, seed 0"
    for text in (unescape(page).split("Not covered")[0], unescape(page).split('id="pictures"')[1]):
        assert (known in text) == ("What it knew before" in text)
    assert known in statement
    assert card.count(known) == 2
    assert "Pictures of 16 x 16 pixels with 1 channel" in card


def test_a_model_of_pictures_that_no_drawing_fits_shows_drawings_and_is_not_asked(tmp_path):
    x = np.random.RandomState(0).randint(0, 256, (20, 8, 9, 3), dtype=np.uint8)
    model = DPMACImageClassifier(feature_map=Affine(0.0, 255.0), prior=None, **QUICK).fit(x, np.arange(20) % 2)
    model.save(tmp_path / "run")
    page = write_report(tmp_path / "run").read_text()
    assert {one.shape for one in images_on(page)} == {(32, 32, 3)}
    assert "Under each" not in page
    assert "What it knew before" not in page
