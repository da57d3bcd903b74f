"""The classifier of pictures: what it takes, what it refuses before anything is spent, what its statement says."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from sklearn.base import clone

import dpmac
from dpmac import ArgumentError, DPMACImageClassifier, Ledger, Schema
from dpmac.estimators import images
from dpmac.nets import Dense, Network
from dpmac.nets.feature_maps import Affine, Chain, Joined, Whitening
from dpmac.nets.folding import folded
from dpmac.pictures import DrawnEncoder, Scattering
from dpmac.priors import PicturePrior, whitened_pictures, whitening
from dpmac.privacy import JointClip, Origin
from dpmac.tables import Number
from dpmac.training.pictures import picture_directions, picture_schedule

QUICK = {"epsilon": 4.0, "epochs": 2, "random_state": 0, "machine": dpmac.Machine(progress=False)}
PLAIN = {"feature_map": Scattering(16, 16, side=8), "prior": None, **QUICK}


def stripes(n, seed=0, side=16):
    """Bytes (n, side, side) and whether their stripes are upright."""
    draw = np.random.RandomState(seed)
    upright = draw.randint(0, 2, n)
    waves = 127 + 100 * np.sin(np.arange(side)[None] + 6 * draw.uniform(size=(n, 1)))
    pictures = np.broadcast_to(waves[:, :, None], (n, side, side)).copy()
    pictures[upright == 1] = pictures[upright == 1].transpose(0, 2, 1)
    return (pictures + draw.uniform(-20, 20, pictures.shape)).astype(np.uint8), upright


@pytest.fixture
def few_drawings(monkeypatch):
    """Twenty drawings in place of 20,000."""
    exact = whitening.WhiteningOptions
    monkeypatch.setattr(whitened_pictures, "WhiteningOptions", lambda **more: exact(**{**more, "rows": 20}))


def test_it_learns_from_pictures_of_any_kind_and_from_a_folder(tmp_path):
    x, y = stripes(120)
    model = DPMACImageClassifier(**{**PLAIN, "epsilon": math.inf, "epochs": 20}).fit(x, y)
    others, right = stripes(60, seed=1)
    assert model.score(others, right) > 0.95
    assert model.image_shape_ == (16, 16, 1)
    assert np.array_equal(model.predict(others[..., None]), model.predict(others))
    image = pytest.importorskip("PIL.Image")
    for place, (pixels, label) in enumerate(zip(x, y, strict=True)):
        path = tmp_path / ("flat", "upright")[label] / f"{place:03}.png"
        path.parent.mkdir(exist_ok=True)
        image.fromarray(pixels).save(path)
    again = clone(model).fit(tmp_path)
    assert again.classes_.tolist() == ["flat", "upright"]
    assert (again.predict(others) == np.array(["flat", "upright"])[right]).mean() > 0.95
    assert np.array_equal(again.predict_proba(tmp_path / "flat"), again.predict_proba(x[y == 0]))


def test_the_public_features_are_whitened_by_drawings_and_the_statement_names_them(few_drawings):
    x, y = stripes(30)
    model = DPMACImageClassifier(directions=7, **QUICK).fit(x, y)
    assert isinstance(model.feature_map_, Joined)  # the whitening is in the first layer now
    assert model.network_.sizes == (*model.feature_map_.shape_after((256,)), 2)
    assert {kind.kind for kind in model.feature_map_.feature_maps} == {"scattering", "drawn-encoder"}
    said = str(model.privacy_.statement())
    assert "an encoder of pictures, which has seen nobody's: it was trained on drawings only" in said
    assert "20 rows of pictures (mixed) of 28 x 28 pixels, drawn by the program dpmac.priors.PicturePrior" in said
    assert model.privacy_.epsilon <= 4.0


def test_what_is_kept_is_small_and_says_what_the_whitened_model_says(few_drawings, monkeypatch, tmp_path):
    x, y = stripes(40)
    with monkeypatch.context() as patch:
        patch.setattr(images, "folded", lambda *_: None)  # as models were kept before
        whole = DPMACImageClassifier(directions=15, features="encoder", **QUICK).fit(x, y)
    assert isinstance(whole.feature_map_, Chain)
    assert isinstance(whole.feature_map_.feature_maps[-1], Whitening)
    model = copy.deepcopy(whole)
    model._fold()
    assert isinstance(model.feature_map_, DrawnEncoder)
    np.testing.assert_allclose(model.predict_proba(x), whole.predict_proba(x), atol=2e-6)
    size = {}
    for name, one in (("small", model), ("whole", whole)):
        folder = one.save(tmp_path / name)
        size[name] = sum(path.stat().st_size for path in folder.iterdir())
        again = dpmac.load(folder)
        assert np.array_equal(again.predict_proba(x), one.predict_proba(x))
        assert str(again.privacy_.statement()) == str(whole.privacy_.statement())
    assert size["small"] < 100_000  # the encoder's 2.5 MB are in the package
    assert size["whole"] < 600_000  # 7,424 x 15 numbers in single precision, which are the same
    whole.network_.origin = Origin.of(whole.privacy_.ledger)
    network, _ = folded(whole.network_, whole.feature_map_)
    assert network.origin == whole.network_.origin
    wide = Network([Dense(15, 20), "relu", Dense(20, 2)], input_shape=(15,), source=None)
    assert folded(wide, whole.feature_map_) is None  # it would hold more numbers
    assert folded(wide, None) is None


def test_how_many_directions_are_kept_follows_from_rows_epsilon_and_features(monkeypatch):
    asked = []

    def picture_features(*_, directions, **__):
        asked.append(directions)
        raise KeyError

    monkeypatch.setattr(images, "picture_features", picture_features)
    x, y = stripes(60)
    x, y = np.tile(x, (200, 1, 1)), np.tile(y, 200)
    for arguments in ({}, {"epsilon": 64.0}, {"directions": 7}, {"features": "scattering", "epsilon": 64.0}):
        with pytest.raises(KeyError):
            DPMACImageClassifier(**{**QUICK, **arguments}).fit(x, y)
    both, scattering = 11_393, 3_969
    wanted = [picture_directions(12_000, epsilon, both) for epsilon in (4.0, 64.0)]
    assert asked == [*wanted, 7, picture_directions(12_000, 64.0, scattering)]
    assert len(set(asked)) == 4


def test_pictures_of_any_size_and_in_colour(few_drawings):
    x, y = stripes(30, side=80)
    coloured = np.repeat(x[..., None], 3, axis=3)
    model = DPMACImageClassifier(features="encoder", directions=5, **QUICK).fit(coloured, y)
    assert model.image_shape_ == (80, 80, 3)
    assert model.n_features_in_ == 64 * 64 * 3
    assert model.predict(coloured[:2]).shape == (2,)


def test_a_feature_map_of_ones_own_sees_pixels_and_is_whitened_by_drawings_of_that_size(monkeypatch):
    exact = whitening.WhiteningOptions
    monkeypatch.setattr(dpmac.estimators.images, "WhiteningOptions", lambda **more: exact(**{**more, "rows": 30}))
    x, y = stripes(30, side=20)
    model = DPMACImageClassifier(feature_map=Affine(0.0, 255.0), directions=9, **QUICK).fit(x, y)
    assert "30 rows of pictures (mixed) of 20 x 20 pixels" in str(model.privacy_.statement())
    assert isinstance(model.feature_map_, Affine)
    assert model.network_.sizes == (400, 2)
    given = clone(model).set_params(prior=PicturePrior(20, 20, style="strokes")).fit(*stripes(31, 6, 20))
    assert "pictures (strokes)" in str(given.privacy_.statement())


BAD = {
    "no labels": ((stripes(9)[0],), {}, "y=None: give a label for each picture"),
    "labels beside a folder": (("images", [1]), {}, "y='list'"),
    "no folder": (("nowhere",), {}, "no such folder"),
    "a table": ((np.zeros((9, 256)), np.arange(9) % 2), {}, r"shape \(9, 256\)"),
    "one class": ((stripes(9)[0], np.zeros(9, int)), {}, "at least two classes"),
    "fewer labels": ((stripes(9)[0], np.arange(8) % 2), {}, "inconsistent|8"),
    "no pictures": ((stripes(9)[0][:0], np.arange(0)), {}, "0 sample"),
    "a schema": (stripes(9), {"schema": Schema({"a": Number(0, 1)})}, "it is for tables"),
    "a range": (stripes(9), {"feature_range": (0, 1)}, "it is for tables"),
    "features": (stripes(9), {"features": "wavelets"}, "features='wavelets': choose 'both', 'scattering' or"),
    "directions": (stripes(9), {"directions": 0}, "directions=0"),
    "a prior": (stripes(9), {"prior": "mine"}, "prior='mine'"),
    "an encoder for other pictures": (stripes(9, side=17), {}, "rows of shape"),
}


@pytest.mark.parametrize("name", BAD)
def test_nothing_is_spent_on_what_cannot_be(name):
    given, arguments, said = BAD[name]
    ledger = Ledger()
    with pytest.raises(ValueError, match=said):
        DPMACImageClassifier(**{**PLAIN, **arguments}, ledger=ledger).fit(*given)
    assert len(ledger) == 0


def test_other_pictures_are_refused():
    x, y = stripes(30)
    model = DPMACImageClassifier(**PLAIN).fit(x, y)
    for other in (x[:, :15], np.repeat(x[..., None], 3, axis=3)):
        with pytest.raises(ArgumentError, match="the model was fitted on pictures of 16 x 16 pixels with 1 channel"):
            model.predict(other)


def test_defaults_follow_from_public_numbers():
    x, y = stripes(200)
    model = DPMACImageClassifier(**{**PLAIN, "epochs": None}).fit(x, y)
    schedule = picture_schedule(200, 4.0)
    assert (model.plan_.batch_size, model.plan_.steps) == (schedule.batch_size, schedule.steps)
    assert model.feature_map_ is not None
    hidden = clone(model).set_params(hidden_layer_sizes=(5,), bound=JointClip(0.5), epochs=1).fit(*stripes(99, seed=5))
    assert tuple(hidden.network_.sizes)[1:] == (5, 2)
