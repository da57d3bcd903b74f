"""From inputs back to cells: whatever can be encoded comes back, and what lies between becomes what is nearest."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpmac.checks import ArgumentError
from dpmac.tables import Category, Number, Schema, TableEncoder
from dpmac.tables.decoder import cells_near, longest

SCHEMA = Schema(
    {
        "dose": Number(-1, 3, missing=True),
        "income": Number(0, 100_000),
        "sex": Category(["F", "M"]),
        "group": Category(["0", "1"], missing=True),
        "death": Category([0, 1]),
    },
    target="death",
)
ROWS = st.tuples(
    st.none() | st.floats(-5, 5),
    st.floats(-10, 200_000),
    st.sampled_from(["F", "M", "X"]),
    st.sampled_from(["0", "1", "else", None]),
)


def frame(rows):
    return pd.DataFrame(rows, columns=["dose", "income", "sex", "group"], dtype=object)


@given(st.lists(ROWS, min_size=1, max_size=5), st.sampled_from([0, 3]))
def test_cells_come_back_clipped_and_strangers_as_other(rows, bins):
    encoder = TableEncoder(SCHEMA, bins)
    back = cells_near(encoder, torch.from_numpy(encoder.transform(frame(rows))))
    assert list(back) == ["dose", "income", "sex", "group"]
    for place, (dose, income, sex, group) in enumerate(rows):
        if dose is None:
            assert math.isnan(back["dose"][place])
        else:
            assert back["dose"][place] == pytest.approx(min(max(dose, -1), 3), abs=4 / 2048)
        clipped = min(max(income, 0), 100_000)
        assert back["income"][place] == pytest.approx(clipped, rel=0.01, abs=0.01)
        assert back["sex"][place] == (sex if sex in "FM" else "other")
        assert back["group"][place] == (group if group in ("0", "1", None) else "other")
    assert np.allclose(encoder.transform(back), encoder.transform(frame(rows)), atol=2e-3)  # and is a table again


def test_what_lies_between_is_the_nearest_cell_and_stays_within_the_range():
    encoder = TableEncoder(Schema({"a": Number(0, 10), "c": Category(["x", "y"])}), bins=0)
    inputs = torch.tensor([[7.0, 0.6, 0.5, 0.1], [-0.5, 0.1, 0.2, 0.9]])
    back = cells_near(encoder, inputs)
    assert np.allclose(back["a"], [10.0, 2.5], atol=10 / 2048)
    assert back["c"].tolist() == ["x", "other"]


@given(st.lists(ROWS, min_size=1, max_size=20), st.sampled_from([0, 3]))
def test_no_row_is_longer_than_the_schema_allows(rows, bins):
    encoder = TableEncoder(SCHEMA, bins)
    assert np.linalg.norm(encoder.transform(frame(rows)), axis=1).max() <= longest(encoder) + 1e-12
    ends = [-1, 100_000, "F", "0"], [3, 0, "X", "1"]
    lengths = np.linalg.norm(encoder.transform(frame(ends)), axis=1)
    assert np.allclose(lengths, longest(encoder))  # and some are as long


def test_inputs_of_another_width_are_refused():
    with pytest.raises(ArgumentError, match=r"inputs='shape \(2, 3\)'"):
        cells_near(TableEncoder(SCHEMA), torch.zeros(2, 3))
