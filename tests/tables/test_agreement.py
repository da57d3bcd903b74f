"""Where rows and schema disagree: counts that are right, for the one who holds the rows alone."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmac import DPMACAutoencoder, DPMACClassifier, DPMACRegressor
from dpmac.privacy import Ledger
from dpmac.tables import Category, Date, Files, Number, Schema, TableEncoder
from dpmac.tables.agreement import FEWEST, NEARLY_ALL, Agreement, Counts, SchemaWarning
from dpmac.tables.files import csv_text
from dpmac.tables.kinds import KINDS

ROWS = 60
COLUMNS = {
    "age": Number(0, 120, missing=True),
    "ward": Category(["A", "B"], missing=True),
    "day": Date("2020-01-01", "2024-12-31"),
}
SCHEMA = Schema({**COLUMNS, "died": Category(["0", "1"])}, "died")


def people(**cells):
    """Rows that agree with the schema, but for the columns given: one cell for all."""
    table = {
        "age": [float(row % 90) for row in range(ROWS)],
        "ward": ["AB"[row % 2] for row in range(ROWS)],
        "day": ["2021-05-01"] * ROWS,
        "died": [str(row % 2) for row in range(ROWS)],
    }
    return {**table, **{name: [cell] * ROWS for name, cell in cells.items()}}


def fitting(estimator=DPMACClassifier, **more):
    return estimator(**{"schema": SCHEMA, "epsilon": 1.0, "epochs": 2, "random_state": 0, "ledger": Ledger(), **more})


@given(st.lists(st.sampled_from([1.0, 2.0, 500.0, math.nan]), max_size=60), st.integers(1, 7))
def test_counts_are_those_of_the_cells_however_they_come(cells, size):
    column = Number(0, 120, missing=True)
    whole, seen = np.array(cells)[:, None], Agreement({"age": column})
    for start in range(0, len(cells), size):
        seen.add(whole[start : start + size])
    count = seen.counts["age"]
    assert (count.cells, count.missing) == (len(cells), sum(map(math.isnan, cells)))
    assert count.beyond == sum(cell == 500.0 for cell in cells)
    odd = count.missing + count.beyond
    if len(cells) >= FEWEST and odd >= NEARLY_ALL * len(cells):
        assert count.disagree
    if odd < NEARLY_ALL * count.there:
        assert not count.disagree


def test_nearly_all_of_the_cells_that_are_there_is_enough():
    assert Counts(cells=100, missing=50, beyond=46).disagree
    assert not Counts(cells=100, missing=50, beyond=20).disagree
    assert not Counts(cells=FEWEST - 1, beyond=FEWEST - 1).disagree


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_column_can_hold_is_not_beyond_it(kind):
    for column in KINDS[kind].samples():
        cells = column.examples(9)
        codes = column.coded("a", cells)
        assert not column.beyond(codes.reshape(len(codes), -1)).any()
        assert column.beyond_words


DISAGREE = [
    ({"age": 1500.0}, "column 'age': of 60 cells 60 lie outside 0 to 120 and are clipped"),
    ({"age": None}, "column 'age': of 60 cells 60 are missing"),
    ({"ward": "a"}, "column 'ward': of 60 cells 60 are none of its values and count as 'other'"),
    ({"day": "1921-05-01"}, "column 'day': of 60 cells 60 lie outside 2020-01-01 to 2024-12-31 and are clipped"),
]


@pytest.mark.parametrize(("cells", "said"), DISAGREE, ids=[s for _, s in DISAGREE])
def test_fit_and_predict_say_what_disagrees_and_that_it_is_not_covered(cells, said, tmp_path):
    with pytest.warns(SchemaWarning, match=said) as seen:
        fitting().fit(people(**cells))
    assert "outside the guarantee" in str(seen[0].message)
    assert seen[0].filename == __file__  # the line that called fit
    (tmp_path / "t.csv").write_text(csv_text(people(**cells)))
    with pytest.warns(SchemaWarning, match=said):
        fitting().fit(Files(tmp_path / "t.csv"))
    fitted = fitting().fit(people())
    with pytest.warns(SchemaWarning, match=said):
        fitted.predict(people(**cells))
    fitted.predict({name: cells[:5] for name, cells in people(**cells).items()})  # of five rows a share says little


def test_rows_that_agree_are_not_spoken_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitting(ledger=Ledger()).fit(people()).predict(people())


def test_a_regressors_target_and_an_autoencoders_columns_are_looked_at():
    schema = Schema({**COLUMNS, "stay": Number(0, 30)}, "stay")
    stays = {**people(), "stay": [float(1000 + row) for row in range(ROWS)]}
    with pytest.warns(SchemaWarning, match="column 'stay': of 60 cells 60 lie outside 0 to 30"):
        DPMACRegressor(schema=schema, epsilon=1.0, epochs=2).fit(stays)
    with pytest.warns(SchemaWarning, match="column 'age'"):
        fitting(DPMACAutoencoder).fit(people(age=-5))


def test_a_warning_that_is_an_error_stops_before_anything_is_spent():
    ledger = Ledger()
    with warnings.catch_warnings():
        warnings.simplefilter("error", SchemaWarning)
        with pytest.raises(SchemaWarning):
            fitting(ledger=ledger).fit(people(ward="a"))
    assert len(ledger) == 0


def test_many_columns_make_one_warning():
    columns = {f"c{place}": Number(0, 1) for place in range(20)}
    seen = Agreement(columns)
    seen.add(np.full((30, 20), 5.0))
    with pytest.warns(SchemaWarning, match="and 12 more columns") as said:
        seen.warn(1)
    assert len(said) == 1


def test_several_numbers_of_a_code_stay_with_their_column():
    from dpmac.tables.kinds import Text

    text = Text.samples()[1]
    schema = Schema({"said": text, "age": Number(0, 120)})
    codes = TableEncoder(schema).codes({"said": ["qqq zzz"] * 30, "age": [20] * 30}).numpy()
    seen = Agreement(schema.features)
    seen.add(codes)
    assert [count.beyond for count in seen.counts.values()] == [30, 0]
