"""Prefixes and hashes: what a cell counts as, against Python's own slices and hashlib."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from dpmac import ArgumentError, Schema
from dpmac.cells import flat
from dpmac.tables import Category, Hash, Number, Prefix


def test_a_prefix_is_the_first_characters_of_the_text():
    column = Prefix(3)
    texts = [f"{number:05d}" for number in range(0, 100_000, 977)]
    assert column.coded("zip", flat(texts)).tolist() == [int(text[:3]) for text in texts]
    assert column.coded("zip", flat([90210, 90210.0, " 90210 "])).tolist() == [902] * 3
    listed = Prefix(2, ["SW", "EC"])
    assert listed.coded("zip", flat(["SW1A 1AA", "EC4", "N1", ""[:0] or "E"])).tolist() == [0, 1, 2, 2]
    assert listed.beyond(listed.coded("zip", flat(["SW1", "N1"]))[:, None]).tolist() == [False, True]
    assert len(Prefix(2).labels("zip", 0)) == 101


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ((0,), "length=0: give how many"),
        ((4,), "prefixes=None: give the public prefixes"),
        ((2, ["SW", "E"]), "prefixes='E': give prefixes of 2 characters"),
    ],
)
def test_prefixes_that_are_none_are_refused(given, fix):
    with pytest.raises(ArgumentError, match=fix):
        Prefix(*given)


def test_a_hash_is_the_documented_one_and_the_same_for_all_forms_of_a_value():
    column = Hash(64)
    cells = ["A07.1", "K35", "7", "é"]
    right = [int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) % 64 for text in cells]
    assert column.coded("code", flat(cells)).tolist() == right
    assert len(set(column.coded("code", flat([7, 7.0, "7", " 7 ", "7.0"])).tolist())) == 1
    spread = np.bincount(column.coded("code", flat([f"K{k}" for k in range(6400)])).astype(int), minlength=64)
    assert (spread.min(), spread.max()) > (50, 100)
    assert spread.max() < 150
    assert len(column.labels("code", 0)) == 64
    for bad in (1, 5000, 2.5, "many"):
        with pytest.raises(ArgumentError, match="buckets="):
            Hash(bad)


def test_values_may_lie_in_a_file_beside_the_schema(tmp_path):
    (tmp_path / "codes.txt").write_text("\ufeffA00\r\n\r\n  B01 \nC02", encoding="utf-8")
    raw = '{"columns": {"code": {"kind": "category", "values": "codes.txt"}}}'
    (tmp_path / "schema.json").write_text(raw)
    schema = Schema.load(tmp_path / "schema.json")
    assert schema.columns["code"] == Category(["A00", "B01", "C02"])
    assert "codes.txt" not in schema.written()  # a model's folder holds the values themselves
    with pytest.raises(ArgumentError, match="give a list"):  # read by nobody who has no folder
        Schema.from_dict({"columns": {"code": {"kind": "category", "values": "codes.txt"}}})
    (tmp_path / "schema.json").write_text(raw.replace("codes.txt", "cods.txt"))
    with pytest.raises(ArgumentError, match=r"columns\.code\.values='cods\.txt'.*there is no such file"):
        Schema.load(tmp_path / "schema.json")
    (tmp_path / "codes.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "schema.json").write_text(raw)
    with pytest.raises(ArgumentError, match="UTF-8"):
        Schema.load(tmp_path / "schema.json")


def test_neither_can_be_a_target():
    for column in (Prefix(1), Hash(2)):
        with pytest.raises(ArgumentError, match="cannot be predicted"):
            Schema({"a": column, "b": Number(0, 1)}, target="a")
