"""Columns of texts: their own promises beside those of every kind; paths, digests, files of schemas and of encoders."""

from __future__ import annotations

import copy
import gc
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from dpmac import ArgumentError, Schema
from dpmac.nets.feature_maps import load_feature_map, save_feature_map
from dpmac.priors import SchemaPrior
from dpmac.tables import Category, Number, TableEncoder, Text, WordVectors
from dpmac.tables.coding import Reader, unreadable
from dpmac.tables.words import reading

LISTED = ["the", "of", "a", "good", "bad", "film", "plot", "not", "very", "actors"]
NUMBERS = np.random.default_rng(3).normal(size=(len(LISTED), 5))


def forget():
    """As in another process, which has read no list yet."""
    reading._recent.clear()
    gc.collect()


@pytest.fixture
def path(tmp_path):
    np.savez(tmp_path / "words.npz", words=np.array(LISTED), vectors=NUMBERS)
    return tmp_path / "words.npz"


def schema_of(vectors, **more):
    columns = {"age": Number(0, 100), "said": Text(vectors, **more), "again": Category(["no", "yes"])}
    return Schema(columns, target="again")


def table(n=6):
    said = ["A good film.", "a bad plot; bad actors!", "", "good", "not the film", "very very good"]
    return {"age": np.arange(n), "said": [said[k % 6] or None for k in range(n)], "again": ["yes", "no"] * (n // 2)}


def test_texts_stand_among_other_columns(path):
    encoder = TableEncoder(schema_of(path, missing=True, features=4), bins=2)
    codes = encoder.codes(table())
    assert codes.shape == (6, encoder.code_width) == (6, 1 + 5 + 4 + 2)
    assert torch.isnan(codes[2, 1:]).all()
    inputs = encoder(codes)
    names = encoder.get_feature_names_out().tolist()
    assert inputs.shape == (6, len(names))
    assert names[-4:] == ["said sum 9", "said length", "said unknown words", "said missing"]
    assert inputs[2, names.index("said missing")] == 1.0
    assert inputs[3, names.index("said unknown words")] == -1.0  # as places go: none of its words
    frame = pd.DataFrame(table())
    assert torch.equal(encoder.codes(frame).nan_to_num(-9), codes.nan_to_num(-9))
    read = Reader(encoder.schema.features).read({name: list(cells) for name, cells in table().items()}, 0)[0]
    assert np.array_equal(np.nan_to_num(read, nan=-9), codes.nan_to_num(-9).numpy())
    rows = [[age, said] for age, said in zip(table()["age"], table()["said"], strict=True)]
    assert torch.equal(encoder.codes(rows).nan_to_num(-9), codes.nan_to_num(-9))


def test_missing_texts_are_errors_where_none_may_be(path):
    schema = schema_of(path)
    with pytest.raises(ArgumentError, match="column 'said', row 2=None: the cell is missing"):
        TableEncoder(schema).codes(table())
    wrong = unreadable(Reader(schema.features), [{k: list(v) for k, v in table().items()}])
    assert "column 'said', row 2" in str(wrong[0])


def test_a_schema_says_which_list_it_means(path, tmp_path):
    raw = {"columns": {"said": {"kind": "text", "vectors": "words.npz"}}}
    (tmp_path / "a.schema.json").write_text(json.dumps(raw))
    schema = Schema.load(tmp_path / "a.schema.json")  # a path leads from the schema's own folder
    column = schema.columns["said"]
    assert column.vectors == str(path)
    assert len(column.sha256) == 64
    schema.save(tmp_path / "b.schema.json")
    assert Schema.load(tmp_path / "b.schema.json") == schema == Schema({"said": Text(path)})
    before = column.sha256
    np.savez(path, words=np.array(LISTED), vectors=NUMBERS[::-1])
    del schema, column
    forget()
    with pytest.raises(ArgumentError, match="its words are not those that were meant"):
        TableEncoder(Schema.load(tmp_path / "b.schema.json")).codes({"said": ["good"]})
    assert Schema.load(tmp_path / "a.schema.json").columns["said"].sha256 != before
    path.unlink()
    with pytest.raises(ArgumentError, match="no such file of word vectors"):
        Schema.load(tmp_path / "a.schema.json")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"vectors": 3}, "give the path"),
        ({"vectors": "nowhere.npz"}, "no such file"),
        ({"features": -1}, "from 0"),
        ({"words": 1}, "from 2"),
        ({"sha256": "abc"}, "64 hexadecimal digits"),
        ({"missing": 1}, "true or false"),
        ({"vectors": "x" * 10**6}, "characters"),
    ],
)
def test_a_bad_argument_is_named(path, arguments, said):
    with pytest.raises(ArgumentError, match=said):
        Text(**{"vectors": path, **arguments})


def test_columns_are_copied_and_pickled_by_their_list(path):
    schema = schema_of(path)
    for again in (copy.deepcopy(schema), pickle.loads(pickle.dumps(schema))):
        assert again == schema
    assert len(pickle.dumps(schema)) < 2_000
    raw = pickle.dumps(schema)
    del schema, again
    forget()
    assert TableEncoder(pickle.loads(raw)).code_width > 5  # read anew


def test_vectors_in_memory_are_in_one_process_alone():
    column = Text(WordVectors.of(LISTED, NUMBERS))
    raw = Schema({"said": column}).to_dict()
    assert Schema.from_dict(raw).columns["said"] == column
    del column
    forget()
    with pytest.raises(ArgumentError, match="never in a file"):
        TableEncoder(Schema.from_dict(raw)).codes({"said": ["good"]})


def test_an_encoder_holds_its_words(path, tmp_path):
    encoder = TableEncoder(schema_of(path, missing=True))
    save_feature_map(encoder, tmp_path / "map.safetensors")
    raw = (tmp_path / "map.safetensors").read_bytes()
    assert str(path.parent).encode() not in raw  # no place on this machine
    before = encoder.codes(table())
    path.unlink()
    del encoder
    forget()
    again = load_feature_map(tmp_path / "map.safetensors")
    assert torch.equal(again.codes(table()).nan_to_num(-9), before.nan_to_num(-9))


def test_an_encoder_with_another_list_is_refused(path):
    one, other = TableEncoder(schema_of(path)), TableEncoder(schema_of(WordVectors.of(LISTED, NUMBERS**2)))
    mixed = {**one.arguments(), "vectors": other.arguments()["vectors"]}
    with pytest.raises(ArgumentError, match="not the word lists of the schema"):
        TableEncoder(**mixed)


def test_drawn_texts_are_by_zipfs_law_and_the_same_everywhere(path):
    drawn = SchemaPrior(schema_of(path, features=0)).drawn(4_000)
    again = SchemaPrior(schema_of(path, features=0)).drawn(4_000)
    assert torch.equal(drawn, again)
    sums, lengths, unknown = drawn[:, 1:6], drawn[:, 6], drawn[:, 7]
    assert float(sums.mean().abs()) < 0.05  # centred on what the law says
    assert float(lengths.min()) == pytest.approx(np.log1p(5) / np.log1p(1000), abs=1e-6)
    assert float(lengths.max()) == pytest.approx(np.log1p(40) / np.log1p(1000), abs=1e-6)
    assert 0.05 < float(unknown.mean()) < 0.15


def test_a_digest_is_of_the_first_words_alone(path):
    assert Text(path, words=4).word_vectors().words == tuple(LISTED[:4])
    assert Text(path, words=4) != Text(path)
    assert Text(path, words=4).fields()["words"] == 4
