"""A classifier of pictures fitted on tables with a column of paths: in memory, and in files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpmac
from cli.albums import drawn, write_pictures
from dpmac import ArgumentError, DPMACImageClassifier, Ledger
from dpmac.pictures import Scattering, read_folder

QUICK = {"feature_map": Scattering(16, 16, side=8), "prior": None, "epsilon": 4.0, "epochs": 2, "random_state": 0}
KINDS = ("strokes", "textures")


@pytest.fixture
def frame(tmp_path):
    """A table of 20 pictures in ``tmp_path``/images, with absolute paths."""
    for kind in KINDS:
        write_pictures(tmp_path / "images" / kind, drawn(kind, 10, 1))
    files = sorted((tmp_path / "images").rglob("*.png"))
    return pd.DataFrame({"kind": [file.parent.name for file in files], "picture": list(map(str, files))})


def as_arrow(frame):
    pa = pytest.importorskip("pyarrow")
    return pa.Table.from_pandas(frame)


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "mapping", "csv", "parquet"])
def test_a_table_gives_what_its_pictures_give(kind, frame, tmp_path, monkeypatch):
    table = frame
    if kind == "pyarrow":
        table = as_arrow(frame)
    elif kind == "mapping":
        table = {name: frame[name].tolist() for name in frame}
    elif kind in ("csv", "parquet"):  # paths are relative to the file
        frame["picture"] = [str(path).removeprefix(f"{tmp_path}/") for path in frame["picture"]]
        table = tmp_path / f"table.{kind}"
        getattr(frame, f"to_{kind}")(table, index=False)
    x, y = read_folder(tmp_path / "images")
    model = DPMACImageClassifier(**QUICK).fit(table, target="kind")
    wanted = DPMACImageClassifier(**QUICK, ledger=Ledger()).fit(x, y).predict_proba(x)
    assert np.array_equal(model.predict_proba(table), wanted)
    assert model.classes_.tolist() == list(KINDS)
    assert model.table_columns_ == ("picture", "kind")
    model.save(tmp_path / "run")
    again = dpmac.load(tmp_path / "run")
    assert again.table_columns_ == ("picture", "kind")
    assert np.array_equal(again.predict_proba(table), wanted)


def test_persons_by_a_column_and_labels_beside_the_table(frame):
    frame["who"] = np.arange(20) // 2
    model = DPMACImageClassifier(**QUICK).fit(frame, target="kind", images="picture", groups="who")
    assert model.plan_.n == 10
    beside = DPMACImageClassifier(**QUICK, ledger=Ledger()).fit(frame[["picture"]], frame["kind"])
    assert beside.table_columns_ == ("picture", None)
    shared = frame.rename(columns={"who": "patient_id"})
    with pytest.warns(dpmac.PrivacyWarning, match="rows share the ids of column 'patient_id'"):
        DPMACImageClassifier(**QUICK, ledger=Ledger()).fit(shared, target="kind", images="picture")


BAD = {
    "no labels": ({}, {"images": "picture"}, "y=None.*target='column'"),
    "two columns left": ({"more": 1}, {"target": "kind"}, "images=None: name the column.*'picture', 'more'"),
    "no such column": ({}, {"target": "sort"}, "images=None|no such column"),
    "labels twice": ({}, {"target": "kind", "y": [0] * 20}, "the labels are in the column 'kind'"),
    "no such file": ({"picture": "x.png"}, {"target": "kind"}, "column 'picture', row 0='x.png': there is no such"),
    "no path": ({"picture": None}, {"target": "kind"}, "column 'picture', row 0.*it is missing"),
    "no label": ({"kind": None}, {"target": "kind"}, "column 'kind', row 0.*it is missing"),
}


@pytest.mark.parametrize("name", BAD)
def test_nothing_is_spent_on_what_cannot_be(name, frame):
    change, given, said = BAD[name]
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=said):
        DPMACImageClassifier(**QUICK, ledger=ledger).fit(frame.assign(**change), **given)
    assert len(ledger) == 0


def test_columns_are_named_of_tables_alone(tmp_path):
    with pytest.raises(ArgumentError, match="X is no table"):
        DPMACImageClassifier(**QUICK).fit(np.zeros((5, 16, 16)), [0, 1, 0, 1, 0], target="kind")


@pytest.mark.parametrize("name", ["x" * 70_000, "x\udc80", 0])
@pytest.mark.parametrize("of", ["picture", "kind"])
def test_a_column_that_no_file_of_a_model_could_name_is_refused_before_anything_is_spent(name, of, frame):
    """The model keeps the names: it would be paid for, and could not be saved, or not be read again."""
    table = {(name if column == of else column): frame[column].tolist() for column in frame}
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=r"rename it|characters are|and 65,536 are the most"):
        DPMACImageClassifier(**QUICK, ledger=ledger).fit(table, target=name if of == "kind" else "kind")
    assert len(ledger) == 0


def test_a_path_that_is_too_long_is_an_error_of_its_row(frame):
    frame.loc[3, "picture"] = "x" * 5_000
    with pytest.raises(ArgumentError, match="column 'picture', row 3="):
        DPMACImageClassifier(**QUICK).fit(frame, target="kind")
