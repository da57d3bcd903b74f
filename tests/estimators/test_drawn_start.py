"""An autoencoder that begins from weights that saw drawings only: better at once, named in the statement, saved."""

from __future__ import annotations

import numpy as np
import pytest

import dpmac
from dpmac import ArgumentError, DPMACAutoencoder, Machine
from dpmac.priors import DrawnStart, PicturePrior, Pretraining, PublicRows
from dpmac.tables import Number, Schema

STROKES = PicturePrior(16, 16, style="strokes", white=1.0)
PICTURES = STROKES.drawn(700)[500:].numpy().astype(np.float64)  # stand for private ones
SHORT = Pretraining(rows=500, steps=150, batch_size=64)
SMALL = {"epsilon": 1.0, "hidden_layer_sizes": (32,), "epochs": 2, "batch_size": 50, "random_state": 0}


def autoencoder(**more):
    return DPMACAutoencoder(8, **{**SMALL, "feature_range": (0.0, 1.0), **more})


def missed(model, rows=PICTURES):
    return float(np.square(model.inverse_transform(model.transform(rows)) - rows).sum(axis=1).mean())


@pytest.fixture(scope="module")
def started():
    return autoencoder(start=DrawnStart(STROKES, SHORT)).fit(PICTURES)


def test_it_is_better_than_a_random_start_and_takes_the_gradient_method_by_itself(started):
    assert started.method_ == "gradient"
    assert missed(started) < 0.8 * missed(autoencoder(method="gradient").fit(PICTURES))


def test_the_statement_names_what_was_drawn_and_a_folder_keeps_it(started, tmp_path):
    said = "500 rows of pictures (strokes) of 16 x 16 pixels, drawn by the program dpmac.priors.PicturePrior, seed 0"
    assert f"the start was trained on, none of them a private row: {said}" in str(started.privacy_.statement())
    started.save(tmp_path / "model")
    loaded = dpmac.load(tmp_path / "model")
    assert said in (tmp_path / "model" / "statement.txt").read_text(encoding="utf-8")
    assert np.array_equal(loaded.transform(PICTURES), started.transform(PICTURES))


def test_the_ledger_has_the_same_entries_as_without_a_start(started):
    plain = autoencoder(method="gradient").fit(PICTURES)
    assert started.run_.ledger.mechanisms() == plain.run_.ledger.mechanisms()


def test_a_style_is_drawn_in_the_size_of_the_rows():
    start = autoencoder(start="textures")._drawn_start(256)
    assert start is not None
    assert start.prior.arguments() == PicturePrior(16, 16, 1, "textures", white=1.0).arguments()


def test_pictures_in_another_range_get_the_same_start(started):
    """Drawn from 0 to 1, private ones from 0 to 255: the network sees both from -1 to 1."""
    wide = autoencoder(start=DrawnStart(PicturePrior(16, 16, style="strokes"), SHORT), feature_range=(0.0, 255.0))
    wide.fit(255.0 * PICTURES)
    assert missed(wide, 255.0 * PICTURES) / 255.0**2 == pytest.approx(missed(started), rel=0.05)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"start": "scribbles"}, "start='scribbles'"),
        ({"start": 3}, "start=3"),
        ({"start": "strokes", "method": "closed-form"}, "only a network begins from one"),
        ({"start": STROKES, "method": "closed-form"}, "only a network begins from one"),
        ({"start": PublicRows([[0.0, 1.0], [1.0, 0.0]], "two rows")}, "rows of 2 inputs"),
    ],
)
def test_starts_that_do_not_fit_are_refused_before_anything_is_spent(wrong, said):
    ledger = dpmac.Ledger()
    with pytest.raises(ArgumentError) as refused:
        autoencoder(ledger=ledger, **wrong).fit(PICTURES)
    assert said in str(refused.value)
    assert not ledger.entries


def test_a_style_needs_square_pictures_and_no_table():
    with pytest.raises(ArgumentError, match="square pictures of 16 to 64"):
        autoencoder(start="strokes").fit(PICTURES[:, :255])
    with pytest.raises(ArgumentError, match="square pictures of 16 to 64"):
        autoencoder(start="strokes").fit(PICTURES[:, :225])
    columns = {f"p{place}": Number(0.0, 1.0) for place in range(256)}
    table = {name: PICTURES[:, place] for place, name in enumerate(columns)}
    with pytest.raises(ArgumentError, match="square pictures of 16 to 64"):
        DPMACAutoencoder(8, schema=Schema(columns), start="strokes", **SMALL).fit(table)


def test_a_bar_is_shown_where_the_start_takes_long(capsys, monkeypatch):
    from dpmac.estimators import autoencoder as of_autoencoders

    asked = []
    real = of_autoencoders.progress_bar

    def bar(what, **more):
        asked.append(what)
        return real(what, **{**more, "show": False})

    monkeypatch.setattr(of_autoencoders, "progress_bar", bar)
    new = DrawnStart(STROKES, Pretraining(rows=100, steps=3))
    autoencoder(start=new, machine=Machine(progress=True)).fit(PICTURES)
    assert "training a start on drawn rows" in asked
