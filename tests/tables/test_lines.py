"""Lines as an editor counts them."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmac.cells import flat
from dpmac.checks import ArgumentError
from dpmac.tables import Files, Number
from dpmac.tables.coding import Reader
from dpmac.tables.files import read_table
from dpmac.tables.kinds.shared import CellError
from dpmac.tables.lines import at_lines, line_of, located

PARTS = st.lists(st.sampled_from(["row", "blank", "two lines"]), max_size=8)


@given(PARTS, st.sampled_from(["\n", "\r\n"]))
def test_a_row_is_found_on_its_line(tmp_path_factory, parts, end):
    """Blank lines are no rows, and a quoted cell may have several lines."""
    path = tmp_path_factory.mktemp("lines") / "t.csv"
    lines, wanted = ["a,b"], []
    for part in parts:
        if part != "blank":
            wanted.append(len(lines) + 1)
        lines += {"row": ["1,2"], "blank": [""], "two lines": ['"1', '2",3']}[part]
    path.write_text(end.join(lines) + end, newline="")
    assert [line_of(path, row) for row in range(len(wanted))] == wanted
    assert line_of(path, len(wanted)) is None
    assert len(read_table(path)["a"]) == len(wanted)


def test_errors_of_rows_name_file_and_line_and_others_are_left(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a\n1\n\nx\n"))
    said = r"^t.csv.gz, line 4, column 'a'='x': .*the only such cell of 2"
    with pytest.raises(ArgumentError, match=said), at_lines(path):
        Number(0, 1).coded("a", flat(read_table(path)["a"]))
    for error in (ArgumentError("epsilon", 0, "fix"), ArgumentError("column 'a', row 9", 1, "beyond the end")):
        assert located(error, path) is error
    assert located(ArgumentError("column 'a', row 0", 1, "fix"), tmp_path).name == "column 'a', row 0"
    assert located(ArgumentError("column 'a', row 0", 1, "fix"), "t.parquet").name == "column 'a', row 0"
    assert located(ArgumentError("groups, row 1", None, "fix"), path).name == "t.csv.gz, line 4, groups"


def test_a_file_read_in_batches_counts_all_its_bad_cells(tmp_path, monkeypatch):
    from dpmac.tables import stored

    monkeypatch.setattr(stored, "ROWS", 3)
    (tmp_path / "t.csv").write_text("a\n" + "1\nx\n" * 10)
    files = Files(tmp_path / "t.csv")
    monkeypatch.setattr(files, "batches", lambda names, rows=3: files._source.batches(names, 0, 20, 3))
    with pytest.raises(CellError, match=r"column 'a', row 1='x'.*10 of 20 cells are so"):
        files.read(Reader({"a": Number(0, 1)}))


def test_a_line_of_another_length_is_named_by_where_it_begins(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\n1,2\n\n"1\n2"\n')
    with pytest.raises(ArgumentError, match="line 4 has 1 cells"):
        read_table(tmp_path / "t.csv")
