"""Tables with a column of texts in the estimators: from a data frame to predictions, files and exports."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import roc_auc_score

import dpmac
from dpmac.data.comments import made_comments
from dpmac.estimators.rows import raw_width
from dpmac.nets.feature_maps import Chain, Whitening
from dpmac.report.page import write_report
from dpmac.saving.export import export_torch
from dpmac.tables import Category, Number, Schema, TableEncoder, Text
from dpmac.tables.agreement import SchemaWarning
from dpmac.tables.words import reading

QUICK = {"epochs": 5, "epsilon": 8.0, "random_state": 0, "calibrate": False}


@pytest.fixture(scope="module")
def comments(tmp_path_factory):
    made = made_comments()
    path = tmp_path_factory.mktemp("comments") / "vectors.txt"
    path.write_text(made.vectors)
    columns = {
        "age": Number(18, 90),
        "comment": Text(path, features=20, missing=True),
        "again": Category(["no", "yes"]),
    }
    return Schema(columns, target="again", positive="yes"), pd.DataFrame(made.train), pd.DataFrame(made.test)


@pytest.fixture(scope="module")
def fitted(comments):
    schema, train, _ = comments
    return dpmac.DPMACClassifier(schema=schema, **QUICK).fit(train)


def test_a_table_with_comments_just_works(comments, fitted):
    _, _, test = comments
    better = roc_auc_score(test["again"] == "yes", fitted.predict_proba(test)[:, 1])
    assert better > 0.85
    blank = test.assign(comment=None)
    with pytest.warns(SchemaWarning, match="column 'comment': of 500 cells 500 are missing"):
        worse = roc_auc_score(test["again"] == "yes", fitted.predict_proba(blank)[:, 1])
    assert worse < better - 0.1
    assert fitted.n_features_in_ == 2
    assert raw_width(fitted) > 20


def test_it_is_whitened_and_the_statement_names_the_words(comments, fitted):
    assert isinstance(fitted.feature_map_, Chain)
    assert isinstance(fitted.feature_map_.feature_maps[-1], Whitening)
    said = str(fitted.privacy_.statement())
    assert "the word vectors 'vectors.txt' (sha256 " in said
    assert "on the word of whoever named them" in said
    assert "drawn from the schema alone" in said
    schema, train, _ = comments
    few = dpmac.DPMACClassifier(schema=schema, **QUICK).fit(train[:300])
    assert isinstance(few.feature_map_, TableEncoder)


def test_the_statement_names_this_file_though_the_same_list_was_read_from_another(tmp_path):
    made, named = made_comments().vectors, {}
    for name in ("first.txt", "second.txt"):
        (tmp_path / name).write_text(made)
        named[name] = Schema({"comment": Text(tmp_path / name)})  # both stay alive
    for name, schema in named.items():
        (said,) = TableEncoder(schema).notes()
        assert f"the word vectors {name!r} (sha256 " in said


def test_a_saved_model_needs_no_file_of_vectors(comments, fitted, tmp_path, monkeypatch):
    _, _, test = comments
    fitted.save(tmp_path / "model")
    wanted = fitted.predict_proba(test)
    folder = str(Path(comments[0].columns["comment"].vectors).parent)
    assert not [path for path in (tmp_path / "model").iterdir() if folder.encode() in path.read_bytes()]
    reading._recent.clear()
    gc.collect()

    def unread(*_):
        raise AssertionError("a loaded model must not look for files")

    monkeypatch.setattr("dpmac.tables.kinds.text.read_vectors", unread)
    again = dpmac.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(test), wanted)
    assert np.array_equal(again.predict(test), fitted.predict(test))
    assert write_report(tmp_path / "model", tmp_path / "report.html").exists()
    assert "vectors.txt" in (tmp_path / "model" / "README.md").read_text()


def test_an_export_takes_the_numbers_of_texts(comments, fitted, tmp_path):
    _, _, test = comments
    path = export_torch(fitted, tmp_path / "model.pt2")
    codes = TableEncoder(comments[0]).codes(test)
    found = torch.export.load(path).module()(codes)
    assert np.allclose(found.numpy(), fitted.predict_proba(test), atol=1e-12)
    about = (tmp_path / "model.pt2.json").read_text()
    assert "no graph can read texts" in about
    assert '"numbers": 31' in about


def test_numbers_can_be_predicted_from_texts(comments):
    schema, train, test = comments
    columns = {name: schema.columns[name] for name in ("age", "comment")}
    model = dpmac.DPMACRegressor(schema=Schema(columns, target="age"), epsilon=8.0, epochs=2, random_state=0)
    model.fit(train.assign(age=train["age"].astype(float)))
    assert model.predict(test).shape == (len(test),)


def test_texts_have_codes_and_components(comments):
    schema, train, _ = comments
    features = Schema({name: schema.columns[name] for name in ("age", "comment")})
    pca = dpmac.DPMACPCA(n_components=2, schema=features, epsilon=8.0, random_state=0).fit(train)
    codes = pca.transform(train)
    assert codes.shape == (len(train), 2)
    again = pca.inverse_transform(codes)
    assert set(map(type, again["comment"])) <= {str, type(None)}


def test_a_table_in_files_is_read_batch_by_batch(comments, fitted, tmp_path):
    schema, train, test = comments
    train.to_parquet(tmp_path / "rows.parquet")
    model = dpmac.DPMACClassifier(schema=schema, **QUICK).fit(str(tmp_path / "rows.parquet"))
    assert np.array_equal(model.predict_proba(test), fitted.predict_proba(test))
