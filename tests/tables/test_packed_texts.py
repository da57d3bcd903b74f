"""A Parquet file names a text once however many rows hold it: reading it takes no copy for each."""

from __future__ import annotations

import pytest

from dpmac.tables import sources
from dpmac.tables.files import read_table
from dpmac.tables.stored import Files

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
LONG = "a" * 10**6
CELLS = [LONG, None, "b"] * 200  # 200 MB as texts


@pytest.fixture
def packed(tmp_path):
    path = tmp_path / "packed.parquet"
    parquet.write_table(pa.table({"text": CELLS, "n": list(range(600))}), path, compression="zstd")
    assert path.stat().st_size < 50_000
    return path


def test_batches_are_smaller_where_their_texts_are_long(packed):
    """Found in an attack: 982 bytes, one text of a megabyte in 60,000 rows, asked for 60 GB."""
    before, cells, numbers = pa.total_allocated_bytes(), [], []
    for batch in Files(packed).batches(["n", "text"]):
        assert pa.types.is_string(batch["text"].type)
        assert batch["text"].nbytes <= sources.EXPANDED + 2**16
        assert pa.total_allocated_bytes() - before < 2.5 * sources.EXPANDED
        cells += [cell and cell[:2] for cell in batch["text"].to_pylist()]
        numbers += batch["n"].to_pylist()
    assert cells == ["aa", None, "b"] * 200
    assert numbers == list(range(600))


def test_a_text_longer_than_a_batch_comes_by_itself(packed, monkeypatch):
    monkeypatch.setattr(sources, "EXPANDED", 10**5)
    sizes = [len(batch["text"]) for batch in Files(packed).batches(["text"])]
    assert sum(sizes) == 600
    assert max(sizes) <= 2


def test_a_table_in_memory_has_one_copy_of_a_text(packed):
    found = read_table(packed)
    assert found == {"text": CELLS, "n": list(range(600))}
    assert len({id(cell) for cell in found["text"] if cell == LONG}) == 1


def test_a_column_that_is_a_text_in_some_files_only_is_read_as_before(tmp_path):
    """Dictionaries are for texts: arrow makes none of a number or of a long text."""
    for name, cells in (("a", pa.array(["x", "y"])), ("b", pa.array(["z"], pa.large_string())), ("c", pa.array([7]))):
        parquet.write_table(pa.table({"text": cells, "same": ["s"] * len(cells)}), tmp_path / f"{name}.parquet")
    assert dict(Files(tmp_path)) == {"text": ["x", "y", "z", "7"], "same": ["s"] * 4}
