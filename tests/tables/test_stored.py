"""Tables in files: every row once, in one order, in bounded memory; and every way of keeping them gives them back."""

from __future__ import annotations

import gzip
import os
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import dataset, parquet

from dpmac.checks import ArgumentError
from dpmac.tables import Category, Files, Number
from dpmac.tables import scratch as on_disk
from dpmac.tables import stored as module
from dpmac.tables.coding import Reader
from dpmac.tables.files import guessed_kind, read_table, rows_in
from dpmac.tables.keeping import Grouped, Held, InMemory
from dpmac.tables.scratch import Scratch
from dpmac.tables.stored import files_of, open_table

COLUMNS = {"a": Number(0, 1000), "b": Category(["x", "y"], missing=True)}
N = 500
TABLE = pa.table(
    {"a": pa.array(np.arange(N, dtype=np.int16)), "b": ["x", None, "y", "z", " "] * 100, "y": np.arange(N) / 7}
)
READER = Reader(COLUMNS, "y", lambda cells: cells.to_numpy().astype(np.float32)[:, None])
EXACT = READER.read({name: TABLE[name].combine_chunks() for name in TABLE.column_names}, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of different lengths whose paths are not in the order of their making; and some that are none of it."""
    where = tmp_path_factory.mktemp("table")
    (where / "sub").mkdir()
    (where / "_temporary").mkdir()
    parts = [("c.pq", 350, 150), ("sub/d.parquet", 500, 0), ("b.parquet", 200, 150), ("a.PARQUET", 0, 200)]
    for name, start, rows in parts:
        parquet.write_table(TABLE.slice(start, rows), where / name, row_group_size=64)
    for name in (".hidden.parquet", "_temporary/e.parquet"):
        parquet.write_table(TABLE, where / name)
    (where / "_SUCCESS").write_text("")
    (where / "readme.txt").write_text("not a table")
    return where


KEPT = {
    "memory": {},
    "held": {"memory": N * 30},
    "scratch": {"memory": 1},
    "row groups": {"memory": 64 * 20, "scratch": None},
}


def kept(folder, how, part=None):
    files = Files(folder, **KEPT[how])
    read = (files if part is None else files.part(*part)).read(READER, beside=100)
    return read.rows


def test_each_way_of_keeping_is_taken_where_it_should_be(folder):
    everything = Files(folder, memory=N * 1000).read(READER, beside=100).rows
    assert isinstance(everything, tuple)
    found = [type(kept(folder, how)) for how in KEPT]
    assert found == [tuple, Held, Scratch, Grouped]


@given(rows=st.sets(st.integers(0, N - 1)), how=st.sampled_from(list(KEPT)[1:]))
def test_a_store_gives_back_the_rows_that_it_is_asked_for(folder, rows, how):
    store, wanted = kept(folder, how), torch.tensor(sorted(rows), dtype=torch.int64)
    for _ in range(2):
        got = store.fetch(wanted)
        for column, exact, blank in zip(got, EXACT, store.blank, strict=True):
            assert column.dtype == blank.dtype == torch.from_numpy(exact).dtype
            assert blank.shape == (0, *exact.shape[1:])
            assert column.numpy().tobytes() == exact[wanted.numpy()].tobytes()
    assert len(store) == N


@pytest.mark.parametrize("how", KEPT)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_parts_are_the_table_one_after_the_other(folder, how, size):
    found = [kept(folder, how, (rank, size)) for rank in range(size)]
    lengths = [len(part[0]) if isinstance(part, tuple) else len(part) for part in found]
    assert lengths == [N * (rank + 1) // size - N * rank // size for rank in range(size)]
    columns = [part if isinstance(part, tuple) else part.fetch(torch.arange(len(part))) for part in found]
    for place, exact in enumerate(EXACT):
        assert torch.cat([c[place] for c in columns]).numpy().tobytes() == exact.tobytes()


def test_a_part_of_a_part_is_within_it(folder):
    piece = Files(folder).part(1, 3).part(1, 2)
    assert piece["a"] == list(range(N // 3 + (N * 2 // 3 - N // 3) // 2, N * 2 // 3))
    with pytest.raises(ArgumentError, match="rank"):
        Files(folder).part(3, 3)


def test_only_row_groups_that_a_sample_touches_are_read_and_few_are_kept(folder, monkeypatch):
    store = kept(folder, "row groups")
    asked = []
    read = store._read
    monkeypatch.setattr(store, "_read", lambda *where: asked.append(where) or read(*where))
    store.fetch(torch.tensor([3, 5, 199, 499]))
    assert asked == [(0, 64), (192, 200), (478, 500)]
    store.fetch(torch.tensor([498]))
    assert len(asked) == 3  # the last one is still there
    store.fetch(torch.tensor([0]))
    assert asked[3:] == [(0, 64)]
    assert sum(len(group[0]) for group in store._kept.values()) <= 64


def test_a_mapping_of_files_is_the_table(folder):
    files = Files(folder)
    assert list(files) == ["a", "b", "y"]
    assert dict(files) == TABLE.to_pydict() == read_table(folder)
    assert (files.n, rows_in(files), len(files)) == (N, N, 3)
    assert list(files.only(["y"])) == ["y"]
    assert [guessed_kind(files.different(name)) for name in files] == ["number", "category", "number"]
    with pytest.raises(ArgumentError, match="no such column"):
        files.only(["z"])


@given(
    rows=st.lists(st.tuples(st.text('a,;"\n é0', max_size=4), st.text("x1", min_size=1, max_size=3)), max_size=9),
    size=st.integers(1, 4),
)
def test_a_csv_file_is_read_as_it_is_in_memory(tmp_path_factory, rows, size):
    from dpmac.tables.files import csv_text

    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text(csv_text({"a": [r[0] for r in rows], "b": [r[1] for r in rows]}), "utf-8", newline="")
    files = Files(path)
    whole = read_table(path)
    assert dict(files) == whole
    assert files.n == rows_in(whole)
    batches = list(files.batches(["b"], size))
    assert [cell for batch in batches for cell in batch["b"]] == whole["b"]
    assert all(len(batch["b"]) <= size for batch in batches)


def test_large_csv_files_are_opened_and_small_ones_read(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,x\n2,\n"))
    assert isinstance(open_table(path), dict)
    monkeypatch.setattr(module, "LARGE", 1)
    opened = open_table(path)
    assert isinstance(opened, Files)
    assert dict(opened) == read_table(path)
    with pytest.raises(ArgumentError, match="no such file"):
        open_table(tmp_path / "nothing.csv")


def test_nothing_is_left_of_the_scratch_file_and_nobody_else_sees_it(folder, tmp_path):
    writing = Scratch(N, EXACT, tmp_path)
    seen = [os.fstat(file.fileno()) for file in writing._files]
    assert all(stat.st_mode & 0o77 == 0 for stat in seen)
    assert list(tmp_path.iterdir()) == []  # it has no name
    del writing  # before it was finished
    store = Files(folder, memory=1, scratch=tmp_path).read(READER).rows
    store.fetch(torch.arange(N))
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_noticed_before_anything_is_read(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(on_disk, "SPARE", 2**60)
    with pytest.raises(ArgumentError, match=r"the rows need 0 MiB there .* are free"):
        Files(folder, memory=1, scratch=tmp_path).read(READER)
    with pytest.raises(ArgumentError, match="no such folder"):
        Files(folder, memory=1, scratch=tmp_path / "x").read(READER)


def test_what_cannot_be_addressed_is_refused_with_the_fix(folder, tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    for source in (tmp_path / "t.csv", dataset.dataset(tmp_path / "t.csv", format="csv")):
        with pytest.raises(ArgumentError, match="rewrite it as Parquet with row groups, or give a scratch folder"):
            Files(source, scratch=None)
    parquet.write_table(TABLE, tmp_path / "one.parquet")
    with pytest.raises(ArgumentError, match="smaller row groups"):
        Files(tmp_path / "one.parquet", memory=64 * 20, scratch=None).read(READER)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArgumentError, match="no Parquet file"):
        Files(tmp_path / "empty")
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(ArgumentError, match=r"bad.parquet.*cannot be read"):
        Files(tmp_path / "bad.parquet")
    with pytest.raises(ArgumentError, match="pyarrow Dataset"):
        Files(3)


def test_without_pyarrow_the_error_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ArgumentError, match=r"pip install 'dpmac\[parquet\]'"):
        Files(folder)


def test_rows_that_change_while_they_are_read_are_noticed(folder, monkeypatch):
    files = Files(folder)
    monkeypatch.setattr(type(files._source), "rows", N + 1)
    with pytest.raises(ArgumentError, match="written to while it was read"):
        files.read(READER)


def test_only_tables_in_files_are_taken_for_them():
    assert files_of(TABLE) is None
    assert files_of({"a": [1]}) is None
    assert isinstance(InMemory(2, (np.zeros((2, 1)),), whole=True).finished(), tuple)
