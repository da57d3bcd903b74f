"""How files write cells: missing ones, numbers, and what lies below a limit; by a stated rule, or not at all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmac import DPMACClassifier, DPMACRegressor
from dpmac.cells import flat
from dpmac.checks import ArgumentError
from dpmac.privacy import Ledger
from dpmac.tables import Category, Date, Files, Number, Schema, TableEncoder
from dpmac.tables.cell_format import PLAIN, USUAL, CellFormat, hint
from dpmac.tables.coding import Reader
from dpmac.tables.files import read_table

ANY = Number(-1e9, 1e9, missing=True)
SIGNS = [(".", ","), (",", "."), (",", " "), (".", "'"), (",", ""), (".", " ")]


def number(form, text):
    return ANY.coded("a", form.read(ANY, flat([text])))[0]


@given(st.integers(-(10**12), 10**12), st.integers(0, 999), st.sampled_from(SIGNS))
def test_a_number_written_with_any_signs_is_that_number(whole, parts, signs):
    """Against Python's own way to write one."""
    decimal, thousands = signs
    plain = f"{whole}.{parts:03d}"
    text = f"{whole:,}".replace(",", thousands) + f"{decimal}{parts:03d}"
    form = CellFormat(decimal=decimal, thousands=thousands)
    assert number(form, text) == float(plain)
    assert number(form, f" {plain.replace('.', decimal)} ") == float(plain)


@pytest.mark.parametrize(
    ("decimal", "thousands", "text"),
    [
        (".", ",", "1,5"),  # a decimal comma after all: never fifteen
        (".", ",", "12,34,567"),
        (",", ".", "1.5"),
        (",", "", "1.234"),
        (".", "", "1,234"),
        (".", " ", "1  234"),
        (",", ".", "1,234,567"),
    ],
)
def test_a_number_that_is_not_written_so_is_an_error_and_never_another_number(decimal, thousands, text):
    form = CellFormat(decimal=decimal, thousands=thousands)
    with pytest.raises(ArgumentError, match="this column holds numbers") as caught:
        number(form, text)
    assert repr(text) in str(caught.value)


def test_spaces_and_apostrophes_of_spreadsheets_separate_too():
    assert number(CellFormat(thousands=" "), "1\u00a0234\u202f567") == 1234567
    assert number(CellFormat(thousands="'"), "1\u2019234.5") == 1234.5


CENSORED = [("limit", 0.5, 100.0), ("half", 0.25, 100.0), ("missing", math.nan, math.nan)]


@pytest.mark.parametrize(("rule", "below", "above"), CENSORED)
def test_what_lies_beyond_a_limit_counts_by_the_stated_rule(rule, below, above):
    form = CellFormat(censored=rule)
    found = [number(form, text) for text in ("<0.5", "< 0.5", "<=0.5", "\u22640.5", ">100", ">= 100", "7")]
    assert np.array_equal(found, [below] * 4 + [above] * 2 + [7.0], equal_nan=True)
    assert number(CellFormat(decimal=",", censored="limit"), "<0,5") == 0.5
    with pytest.raises(ArgumentError):
        number(form, "<soon")


def test_without_a_rule_it_is_an_error_that_asks_for_one():
    with pytest.raises(ArgumentError, match=r"column 'a', row 0='<0.5'.*--censored limit, half or missing"):
        number(PLAIN, "<0.5")


# --- missing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*USUAL, " NA ", "unknown"])
def test_stated_texts_are_missing_in_every_kind_of_column(text):
    form = CellFormat(na=("unknown",))
    for column in (ANY, Category(["x"], missing=True), Date("2020-01-01", "2021-01-01", missing=True)):
        assert math.isnan(column.coded("a", form.read(column, flat([text])))[0])


def test_a_value_of_a_category_is_never_missing():
    """NA is Namibia, where the schema says so."""
    column = Category(["NA", "DE"], missing=True)
    assert column.coded("a", PLAIN.read(column, flat(["NA", "n/a"])))[0] == 0.0
    assert PLAIN.read(column, flat(["NA", "n/a", "DE"])).tolist() == ["NA", None, "DE"]


def test_what_is_no_text_is_left_alone():
    for cells in (np.array([1.5, 2.5]), flat([1, None, True]), flat(["1", "x"])):
        assert PLAIN.read(ANY, cells) is cells


# --- in a schema, a model and its files -------------------------------------------------------------------------------

FORM = CellFormat(na=("unknown",), decimal=",", thousands=".", censored="half")
SCHEMA = Schema(
    {"costs": Number(0, 5000), "ward": Category(["A"], missing=True), "out": Number(0, 10)}, "out", cells=FORM
)


def test_a_schema_keeps_it():
    raw = SCHEMA.to_dict()
    assert raw["cells"] == {"na": ["unknown"], "decimal": ",", "thousands": ".", "censored": "half"}
    assert Schema.from_dict(raw) == SCHEMA
    assert Schema.from_dict({**raw, "cells": {}}) != SCHEMA
    assert "cells" not in Schema.from_dict({**raw, "cells": {}}).to_dict()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"decimal": ";"}, "cells.decimal=';': give one of"),
        ({"thousands": "."}, "cells.thousands='.': it is the decimal sign as well"),
        ({"na": "NA"}, "cells.na='NA': give a list"),
        ({"missing": ["NA"]}, "cells.missing=.*not known here"),
        ({"censored": "zero"}, "cells.censored='zero'"),
        (["NA"], "cells=.*give an object"),
    ],
)
def test_what_is_wrong_with_it_is_named(cells, said):
    with pytest.raises(ArgumentError, match=said):
        Schema.from_dict({**SCHEMA.to_dict(), "cells": cells})


def test_a_table_is_read_so_in_memory_and_in_files_batch_by_batch(tmp_path):
    (tmp_path / "t.csv").write_text("costs;ward;out\n" + "1.234,5;A;1,5\n<2;unknown;<3\n70;B;9\n" * 5)
    table = read_table(tmp_path / "t.csv", SCHEMA)
    codes = TableEncoder(SCHEMA).codes(table)
    assert np.array_equal(codes[:3].numpy(), [[1234.5, 0], [1.0, math.nan], [70, 1]], equal_nan=True)
    reader = Reader(SCHEMA.features, form=FORM)
    read = Files(tmp_path / "t.csv").read(reader).columns[0]
    assert np.array_equal(read.numpy(), codes.numpy(), equal_nan=True)
    for rows in (table, Files(tmp_path / "t.csv")):
        quick = DPMACRegressor(schema=SCHEMA, epsilon=math.inf, epochs=1)
        assert quick._look_over(rows)[1][:3, 0].tolist() == pytest.approx([-0.7, -0.7, 0.8])


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_error_counts_the_cells_of_its_column():
    with pytest.raises(ArgumentError, match=r"column 'a', row 1='x'.*\(3 of 5 cells are so\)"):
        Number(0, 1).coded("a", flat(["1", "x", "y", "0", "z"]))
    with pytest.raises(ArgumentError, match=r"column 'a', row 1='x'.*\(the only such cell of 2\)"):
        Date("2020-01-01", "2021-01-01").coded("a", flat(["2020-01-01", "x"]))
    with pytest.raises(ArgumentError, match=r"column 'a', row 0=None.*\(2 of 3 cells are so\)"):
        Category(["x"]).coded("a", flat(["", "x", None]))


def test_no_row_and_no_long_text_is_echoed():
    secret = "a note about somebody that is rather long, with a name: Rosalind"
    with pytest.raises(ArgumentError) as caught:
        Number(0, 1).coded("a", flat([secret]))
    assert "Rosalind" not in str(caught.value)
    for rows in ([{"name": "Rosalind"}], ["Rosalind"]):
        with pytest.raises(ArgumentError) as caught:
            TableEncoder(Schema({"a": ANY})).codes(rows)
        assert "Rosalind" not in str(caught.value)
    with pytest.raises(ArgumentError) as caught:
        Number(0, 1).coded("a", flat([["Rosalind"]]))
    assert "Rosalind" not in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("1,234.5", "--thousands ,"),
        ("1.234,5", "--decimal , --thousands ."),
        ("1 234,5", "--thousands ' '"),
        ("12,5", "--decimal ,"),
        ("<0.5", "--censored"),
        ("unknown", "--na"),
        ("12 kg and a bit", ""),
    ],
)
def test_the_advice_is_the_option_that_helps(cell, said):
    assert said in hint(cell)
    assert bool(hint(cell)) == bool(said)


@pytest.mark.parametrize("kind", ["category", "number"])
def test_a_missing_target_is_never_told_to_say_missing(kind):
    """The advice went round in circles: missing=True of a target gives the same error."""
    target = {"category": Category(["0", "1"], missing=True), "number": Number(0, 1, missing=True)}[kind]
    schema = Schema({"a": ANY, "died": target}, "died")
    table = {"a": [1.0] * 20, "died": ["0", "1", "", "NA"] * 5}
    estimator = {"category": DPMACClassifier, "number": DPMACRegressor}[kind]
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=r"column 'died', row 2=None: .*drop the row") as caught:
        estimator(schema=schema, ledger=ledger).fit(table)
    assert "missing=True" not in str(caught.value)
    assert "10 of 20" in str(caught.value)
    assert len(ledger) == 0
