"""Estimators on tables in files: the model, the ledger and the statement of the table in memory, bit for bit."""

from __future__ import annotations

import io
import math
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from patients import FEATURES
from pyarrow import dataset, parquet

from dpmac import DPMACPCA, DPMACAutoencoder, DPMACClassifier, DPMACRegressor
from dpmac.checks import ArgumentError, PrivacyWarning
from dpmac.estimators import warning
from dpmac.privacy import PrivateRows
from dpmac.tables import Category, Files, Number, Schema

N = 600
DRAW = np.random.RandomState(5)
TABLE = pa.table(
    {
        "age": pa.array(DRAW.uniform(10, 95, N).astype(np.float32)),
        "dose": pa.array(DRAW.uniform(0, 5, N), mask=DRAW.uniform(size=N) < 0.1),
        "sex": pa.array(DRAW.choice(["F", "M", " M"], N)).dictionary_encode(),
        "group": pa.array(DRAW.choice(["a", "b", "stranger"], N), mask=DRAW.uniform(size=N) < 0.1),
        "who": pa.array([f"person {k}" for k in DRAW.randint(0, 150, N)]),
        "died": pa.array(DRAW.randint(0, 3, N).astype(np.int8)),
        "weight": pa.array(DRAW.normal(70, 9, N)),
    }
)
CLASSES = Schema({**FEATURES, "died": Category([0, 1, 2])}, target="died")
NUMBERS = Schema({**FEATURES, "weight": Number(40, 90)}, target="weight")
QUICK = {"epochs": 1, "batch_size": 140, "hidden_layer_sizes": (6,)}
MODELS = {
    "classifier": lambda: DPMACClassifier(schema=CLASSES, random_state=1, epsilon=3, **QUICK),
    "regressor": lambda: DPMACRegressor(schema=NUMBERS, random_state=1, **QUICK),
    "network": lambda: DPMACAutoencoder(3, method="gradient", schema=Schema(FEATURES), random_state=1, **QUICK),
    "closed form": lambda: DPMACAutoencoder(3, method="closed-form", schema=Schema(FEATURES), random_state=1),
    "components": lambda: DPMACPCA(3, schema=Schema(FEATURES), random_state=1),
}
KEPT = {
    "memory": {},
    "held": {"memory": N * 60},
    "scratch": {"memory": 1},
    "row groups": {"memory": 64 * 60, "scratch": None},
}


@pytest.fixture(autouse=True)
def forgetful():
    """No fit is warned of because of another test's."""
    warning.forget()
    yield
    warning.forget()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("patients")
    for part in range(3):
        parquet.write_table(TABLE.slice(part * 200, 200), where / f"{part}.parquet", row_group_size=64)
    return where


def told(model):
    """All numbers of a model, and all that its ledger and statement say, but the time."""
    found = [value for value in vars(model).values() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
    if hasattr(model, "network_"):
        found += [weight.detach().numpy() for weight in model.network_.parameters()]
    if getattr(model, "autoencoder_", None) is not None:
        probe = torch.linspace(-1, 1, 3 * model.autoencoder_.pca.components.shape[0]).reshape(3, -1).double()
        found += [model.autoencoder_.decode(probe).numpy()]
    entries = [(e.label, e.mechanism(), e.scales, e.unit, e.seeded) for e in model.privacy_.ledger.entries]
    extra = {name: getattr(model, name, None) for name in ("residual_std_", "calibration_")}
    return [array.tobytes() for array in found], entries, str(model.privacy_.statement()), extra


@pytest.mark.filterwarnings("ignore::dpmac.checks.PrivacyWarning")
@pytest.mark.parametrize("groups", [None, "who"])
@pytest.mark.parametrize("kind", MODELS)
def test_it_is_the_model_of_the_table_in_memory_bit_for_bit(folder, kind, groups):
    exact = told(MODELS[kind]().fit(TABLE, groups=groups))
    assert exact[0]
    assert exact[1]
    for how in KEPT.values():
        assert told(MODELS[kind]().fit(Files(folder, **how), groups=groups)) == exact


@pytest.mark.filterwarnings("ignore::dpmac.checks.PrivacyWarning")
def test_a_path_and_a_dataset_are_taken_as_well(folder):
    exact = told(MODELS["components"]().fit(TABLE))
    source = dataset.dataset(sorted(folder.glob("*.parquet")))
    for other in (str(folder), folder, source):
        assert told(MODELS["components"]().fit(other)) == exact


@pytest.mark.filterwarnings("ignore::dpmac.checks.PrivacyWarning")
def test_labels_are_called_what_they_are_in_memory(folder, tmp_path):
    found = MODELS["classifier"]().fit(Files(folder, memory=1), groups="who")
    assert found.classes_.tolist() == [0, 1, 2]
    assert found.classes_.dtype.kind == "i"
    texts = TABLE.set_column(5, "died", pa.array([("no", "yes", "late")[k] for k in TABLE["died"].to_pylist()]))
    parquet.write_table(texts, tmp_path / "t.parquet")
    schema = Schema({**FEATURES, "died": Category(["yes", "no", "late"])}, target="died")
    found = DPMACClassifier(schema=schema, random_state=1, **QUICK).fit(tmp_path / "t.parquet", groups="who")
    assert found.classes_.tolist() == ["late", "no", "yes"]
    assert np.array_equal(found.predict(tmp_path / "t.parquet"), found.predict(texts))


@pytest.mark.filterwarnings("ignore::dpmac.checks.PrivacyWarning")
def test_a_large_csv_is_read_as_the_command_line_reads_it(tmp_path):
    TABLE.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    from dpmac.tables.files import read_table

    exact = told(MODELS["regressor"]().fit(read_table(tmp_path / "t.csv", NUMBERS), groups="who"))
    assert told(MODELS["regressor"]().fit(Files(tmp_path / "t.csv", memory=1), groups="who")) == exact


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"died": [7] * N}, "classifier", "not among classes"),
        ({"died": [None if row == 431 else 1 for row in range(N)]}, "classifier", "column 'died', row 431"),
        (
            {"weight": [math.inf if row == 431 else 50.0 for row in range(N)]},
            "regressor",
            "column 'weight', row 431",
        ),
        ({"weight": [None if row == 431 else 50.0 for row in range(N)]}, "regressor", "column 'weight', row 431"),
        ({"age": [None if row == 431 else 50.0 for row in range(N)]}, "components", "column 'age', row 431"),
        ({"dose": ["much" if row == 431 else "1" for row in range(N)]}, "network", "column 'dose', row 431"),
        ({"who": [None if row == 431 else "x" for row in range(N)]}, "network", "groups, row 431"),
    ],
)
@pytest.mark.parametrize("how", KEPT)
def test_a_cell_that_cannot_be_read_is_named_before_anything_is_spent(tmp_path, monkeypatch, change, kind, said, how):
    table = TABLE.to_pydict() | change
    parquet.write_table(pa.table(table), tmp_path / "t.parquet", row_group_size=64)
    monkeypatch.setattr(PrivateRows, "__init__", lambda *_, **__: pytest.fail("it went on"))
    with pytest.raises(ArgumentError, match=said):
        MODELS[kind]().fit(Files(tmp_path / "t.parquet", **KEPT[how]), groups="who")


def test_what_rows_in_files_need_is_said(folder, tmp_path):
    with pytest.raises(ArgumentError, match="need a schema"):
        DPMACClassifier().fit(folder)
    with pytest.raises(ArgumentError, match="leave y out"):
        MODELS["classifier"]().fit(folder, TABLE["died"].to_pylist())
    with pytest.raises(ArgumentError, match="names no target"):
        DPMACClassifier(schema=Schema(FEATURES), classes=[0, 1]).fit(folder)
    with pytest.raises(ArgumentError, match="classes of rows in files"):
        DPMACClassifier(schema=NUMBERS).fit(folder)
    with pytest.raises(ArgumentError, match="no such column"):
        DPMACPCA(schema=Schema({"height": Number(0, 3)})).fit(folder)
    with pytest.raises(ArgumentError, match="for a model to see"):
        MODELS["components"]().fit(folder, groups="sex")
    with pytest.raises(ArgumentError, match="600 rows"):
        MODELS["components"]().fit(folder, groups=[1, 2, 3])
    parquet.write_table(TABLE.slice(0, 1), tmp_path / "t.parquet")
    with pytest.raises(ArgumentError, match="at least 2 rows"):
        MODELS["components"]().fit(tmp_path / "t.parquet")
    with pytest.raises(ArgumentError, match="no such file"):
        MODELS["components"]().fit("nowhere.parquet")


@pytest.mark.parametrize("how", KEPT)
def test_the_same_rows_are_known_again_and_ids_are_seen(folder, tmp_path, how):
    named = TABLE.rename_columns(["patient_id" if name == "who" else name for name in TABLE.column_names])
    parquet.write_table(named, tmp_path / "t.parquet", row_group_size=64)
    with pytest.warns(PrivacyWarning, match="share the ids of column 'patient_id'"):
        MODELS["components"]().fit(Files(tmp_path / "t.parquet", **KEPT[how]))
    with pytest.warns(PrivacyWarning, match="fitted these rows before"):
        MODELS["components"]().fit(Files(folder, **KEPT[how]))


def test_rows_of_a_long_table_are_known_again_whether_in_memory_or_not():
    rows = np.random.RandomState(0).normal(size=(9000, 4))
    rows[::50, 1] = np.nan
    few = warning.Few(len(rows))
    for start in range(0, 9000, 700):
        few.add(rows[start : start + 700])
    assert np.array_equal(warning._hashes(few.rows().numpy()), warning._hashes(rows))


def test_the_bar_of_a_long_reading_says_rows_a_second(folder, monkeypatch):
    from dpmac.training import progress

    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    with progress.progress_bar("reading", True, "rows", patience=-1.0) as on_rows:
        on_rows(1000, 2000)
    assert "rows/s" in shown.getvalue()
    assert "1000/2000 rows" in shown.getvalue()


def test_codes_and_predictions_of_a_path_are_those_of_its_table(folder):
    found = MODELS["components"]().fit(folder, groups="who")
    assert np.array_equal(found.transform(str(folder)), found.transform(pd.DataFrame(TABLE.to_pydict())))
