"""Tables as CSV text: what is written is what a reader gets, cell by cell."""

from __future__ import annotations

import csv
import io

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from dpmac.cells import is_missing
from dpmac.tables.files import csv_text, for_spreadsheets

CELLS = st.text(st.sampled_from("ab,;'\"\r\n\t=+-@ 1"), max_size=6)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_cells_come_back_whatever_is_in_them(rows):
    text = csv_text({"a": [row[0] for row in rows], "b": [row[1] for row in rows]})
    found = list(csv.reader(io.StringIO(text, newline="")))
    kept = [["" if is_missing(cell) else cell for cell in row] for row in rows]
    assert found == [["a", "b"], *kept]


def test_a_carriage_return_makes_no_cell_of_its_own():
    """Found in an attack: ``x\\r=1+1`` was written as it is, and readers took ``=1+1`` for a cell, a formula."""
    text = csv_text(for_spreadsheets({"id": ["x\r=1+1", "y"], "p": [0.5, 0.25]}))
    assert pd.read_csv(io.StringIO(text, newline=""))["id"].tolist() == ["x\r=1+1", "y"]
    assert not any(line.startswith("=") for line in text.replace('"', "\n").split("\n"))
