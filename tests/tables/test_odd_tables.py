"""Tables, schemas and files that once ended in somebody else's traceback."""

from __future__ import annotations

import gzip
import json

import pandas as pd
import pytest

from dpmac import ArgumentError, Schema
from dpmac.tables import Category, Number
from dpmac.tables.files import read_table
from dpmac.tables.frames import cells


@pytest.mark.parametrize("name", [("a", "age"), 3, None, b"age"])
def test_a_column_that_is_not_there_beside_names_that_are_no_texts(name):
    with pytest.raises(ArgumentError, match="the table has no such column"):
        cells({name: [1, 2]}, ["age"])
    frame = pd.DataFrame({"age": [1]}).set_axis(pd.MultiIndex.from_tuples([("a", "age")]), axis=1)
    with pytest.raises(ArgumentError, match="the table has no such column"):
        cells(frame, ["age"])


@pytest.mark.parametrize("target", [["a"], {"a": 1}, 3, True])
def test_a_target_that_is_no_name(target):
    with pytest.raises(ArgumentError, match="target="):
        Schema({"a": Number(0, 1), "b": Number(0, 1)}, target=target)


@pytest.mark.parametrize("raw", [b"[" * 100_000, b'{"columns": ' * 20_000])
def test_a_schema_that_is_nested_without_end(raw, tmp_path):
    (tmp_path / "s.json").write_bytes(raw)
    with pytest.raises(ArgumentError, match="not JSON"):
        Schema.load(tmp_path / "s.json")


def test_half_a_character_is_refused_before_a_file_is_begun(tmp_path):
    raw = {"columns": {"a": {"kind": "category", "values": ["x", "\ud800"]}}}
    (tmp_path / "s.json").write_text(json.dumps(raw))
    with pytest.raises(ArgumentError, match="half a character"):
        Schema.load(tmp_path / "s.json")
    with pytest.raises(ArgumentError, match="half a character"):
        Schema({"\udcff": Category(["x"])})


def test_a_schema_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    schema = Schema({"a": Number(0, 1)})
    schema.save(tmp_path / "s.json")
    before = (tmp_path / "s.json").read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        Schema({"b": Number(0, 1)}).save(tmp_path / "s.json")
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]
    assert (tmp_path / "s.json").read_bytes() == before


def test_a_packed_file_with_any_byte_wrong_is_read_or_refused(tmp_path):
    whole = gzip.compress(b"a,b\n" + b"1,2\n3,4\n" * 40, mtime=0)
    path, refused = tmp_path / "t.csv.gz", 0
    for place in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[place] ^= 0x55
        path.write_bytes(spoilt)
        try:
            read_table(path)
        except ArgumentError:
            refused += 1
    assert refused > len(whole) // 2
