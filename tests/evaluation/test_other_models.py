"""Private scores of pictures, of any torch module, and of tables in files: by one release, what the rows score.

At epsilon 200 the noise is small, so that private scores are the exact ones but for a little.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import log_loss
from torch.utils.data import TensorDataset

import dpmac
from dpmac import DPMACImageClassifier, DPMACModuleClassifier, DPMACModuleRegressor
from dpmac.checks import ArgumentError
from dpmac.evaluation.asked import Asked
from dpmac.pictures import Scattering
from dpmac.privacy import Ledger
from dpmac.tables import Category, Files, Number, Schema
from small_modules import Small, SmallRegression

pytestmark = pytest.mark.usefixtures("repeatable_noise")
LOUD = {"epsilon": 200.0}
QUICK = {"epsilon": 4.0, "random_state": 0}
N = 240


def rows(n=N, seed=0):
    x = np.random.default_rng(seed).uniform(-1, 1, (n, 4)).astype(np.float32)
    return x, (x[:, 0] > x[:, 1]).astype(int)


def close(found, model, x, y):
    p = model.predict_proba(x)
    right = np.asarray(model.classes_)[p.argmax(axis=1)] == y
    assert found["accuracy"].value == pytest.approx(right.mean(), abs=0.02)
    assert found["log_loss"].value == pytest.approx(log_loss(y, p, labels=model.classes_), abs=0.02)
    assert len(found.to_dict()["scores"]) > 5


# --- modules ----------------------------------------------------------------------------------------------------------


def test_a_module_is_scored_as_it_predicts():
    ledger, (x, y) = Ledger(), rows()
    model = DPMACModuleClassifier(Small, classes=[0, 1], ledger=ledger, epochs=4, **QUICK).fit(x, y)
    assert model.calibration_ is not None  # which a plain output of the module would leave out
    before = len(ledger)
    found = dpmac.evaluate(model, x, y, **LOUD)
    assert len(ledger) == before + 1
    close(found, model, x, y)
    again = dpmac.evaluate(model, x.astype(np.float64), y, **LOUD)
    assert again["accuracy"].value == pytest.approx(found["accuracy"].value, abs=0.02)


def test_rows_of_a_dataset_stay_where_they_are():
    x, y = rows()
    data = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    model = DPMACModuleClassifier(Small, classes=[0, 1], epochs=4, **QUICK).fit(data)
    close(dpmac.evaluate(model, data, **LOUD), model, x, y)
    assert Asked.of(model, data).n == N


def test_a_module_of_numbers_and_of_persons():
    x, _ = rows()
    z = 2 * x[:, 0] + 0.5 * x[:, 1]
    ids = np.repeat(np.arange(N // 2), 2)
    model = DPMACModuleRegressor(SmallRegression, target_range=(-4, 4), epochs=4, **QUICK).fit(x, z, groups=ids)
    found = dpmac.evaluate(model, x, z, groups=ids, **LOUD)
    missed = model.predict(x) - z
    assert found.rows == N // 2
    assert found["rmse"].value == pytest.approx(np.sqrt((missed**2).mean()), abs=0.05)
    assert found["mean_absolute_error"].value == pytest.approx(np.abs(missed).mean(), abs=0.05)


@pytest.mark.parametrize("wrong", ["shape", "label", "several", "dataset", "by"])
def test_nothing_is_spent_on_rows_of_another_kind(wrong):
    x, y = rows()
    model = DPMACModuleClassifier(Small, classes=[0, 1], epochs=1, **QUICK).fit(x, y)
    before, asked, labels, options = len(model.privacy_.ledger), x, y, dict(LOUD)
    if wrong == "shape":
        asked, match = np.zeros((N, 4, 2), np.float32), "fitted on rows of shape"
    elif wrong == "label":
        labels, match = np.full(N, 7), "not among classes"
    elif wrong == "several":
        asked, match = {"x": x, "z": x}, "fitted on"
    elif wrong == "dataset":
        asked, match = TensorDataset(torch.zeros(N, 4, 2), torch.zeros(N)), "fitted on rows of shape"
        labels = None
    else:
        options["by"], match = ["ward"], "features of the schema"
    with pytest.raises(ArgumentError, match=match):
        dpmac.evaluate(model, asked, labels, **options)
    assert len(model.privacy_.ledger) == before


def test_several_labels_are_refused_with_what_to_do():
    x, y = rows()
    model = dpmac.DPMACClassifier(feature_range=(-1, 1), epochs=1, **QUICK).fit(x, np.stack([y, 1 - y], axis=1))
    with pytest.raises(ArgumentError, match="fit one model a label, with one ledger for all, and score each"):
        dpmac.evaluate(model, x, np.stack([y, 1 - y], axis=1), **LOUD)


# --- pictures ---------------------------------------------------------------------------------------------------------


def stripes(n, seed=0, side=16):
    draw = np.random.default_rng(seed)
    upright = draw.integers(0, 2, n)
    waves = 127 + 100 * np.sin(np.arange(side)[None] + 6 * draw.uniform(size=(n, 1)))
    pictures = np.broadcast_to(waves[:, :, None], (n, side, side)).copy()
    pictures[upright == 1] = pictures[upright == 1].transpose(0, 2, 1)
    return (pictures + draw.uniform(-20, 20, pictures.shape)).astype(np.uint8), np.array(["flat", "upright"])[upright]


@pytest.fixture(scope="module")
def of_stripes():
    x, y = stripes(N)
    model = DPMACImageClassifier(feature_map=Scattering(16, 16, side=8), prior=None, epochs=4, **QUICK)
    return model.fit(x, y)


def test_pictures_in_arrays_in_folders_and_in_tables_score_the_same(of_stripes, tmp_path):
    image = pytest.importorskip("PIL.Image")
    x, y = stripes(120, seed=1)
    close(dpmac.evaluate(of_stripes, x, y, ledger=of_stripes.privacy_.ledger, **LOUD), of_stripes, x, y)
    for place, (pixels, label) in enumerate(zip(x, y, strict=True)):
        path = tmp_path / label / f"{place:03}.png"
        path.parent.mkdir(exist_ok=True)
        image.fromarray(pixels).save(path)
    close(dpmac.evaluate(of_stripes, tmp_path, ledger=of_stripes.privacy_.ledger, **LOUD), of_stripes, x, y)
    table = {"path": [str(tmp_path / label / f"{k:03}.png") for k, label in enumerate(y)]}
    close(dpmac.evaluate(of_stripes, table, y, ledger=of_stripes.privacy_.ledger, **LOUD), of_stripes, x, y)


def test_pictures_of_another_size_cost_nothing(of_stripes):
    before = len(of_stripes.privacy_.ledger)
    with pytest.raises(ArgumentError, match="16 x 16"):
        dpmac.evaluate(of_stripes, *stripes(20, side=20), **LOUD)
    assert len(of_stripes.privacy_.ledger) == before


# --- files ------------------------------------------------------------------------------------------------------------

SCHEMA = Schema(
    {"ward": Category(["a", "b"], missing=True), "age": Number(0, 100), "ill": Category(["no", "yes"])}, target="ill"
)


def patients(n=600):
    draw = np.random.default_rng(2)
    age = draw.uniform(0, 100, n)
    return {
        "who": [f"p{k // 2}" for k in range(n)],
        "age": age,
        "ward": draw.choice(["a", "b", None], n).tolist(),
        "ill": np.where(draw.random(n) < 1 / (1 + np.exp(-(age - 60) / 10)), "yes", "no"),
    }


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "patients.parquet"
    pq.write_table(pa.table(patients()), path, row_group_size=64)
    return path


@pytest.mark.parametrize("how", [{}, {"memory": 1}, {"memory": 64 * 60, "scratch": None}], ids=str)
@pytest.mark.parametrize("groups", [None, "who"])
def test_rows_beyond_memory_are_tallied_as_rows_in_memory_are(parquet, how, groups):
    """To the last bit: of the same seed the noise is the same, and so is what it is added to."""
    model = dpmac.DPMACClassifier(schema=SCHEMA, epochs=1, **QUICK).fit(patients(), groups=groups)
    found = [
        dpmac.evaluate(model, X, epsilon=1.0, groups=groups, by=["ward"], random_state=3).to_dict()
        for X in (patients(), Files(parquet, **how))
    ]
    for one in found:  # the second is dearer than the first: both are in the ledger
        del one["price"], one["privacy"]
    assert found[0] == found[1]
    assert found[0]["rows"] == (600 if groups is None else 300)
    assert found[0]["groups"]["ward"]["other"]["share"]["value"] == pytest.approx(1 / 3, abs=0.15)


def test_a_path_will_do_and_a_bad_cell_costs_nothing(parquet, tmp_path):
    model = dpmac.DPMACClassifier(schema=SCHEMA, epochs=1, **QUICK).fit(patients())
    assert dpmac.evaluate(model, parquet, epsilon=1.0).rows == 600
    before = len(model.privacy_.ledger)
    wrong = patients()
    wrong["ill"][7] = "maybe"
    pq.write_table(pa.table(wrong), tmp_path / "wrong.parquet")
    with pytest.raises(ArgumentError, match="row 7"):
        dpmac.evaluate(model, tmp_path / "wrong.parquet", epsilon=1.0)
    assert len(model.privacy_.ledger) == before
