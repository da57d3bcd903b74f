"""The encoder: inputs by the schema alone, within [-1, 1] whatever the cells are, and a scikit-learn transformer."""

from __future__ import annotations

import copy
import math
import pickle
import time

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from real_tables import rows_of, schema_files
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from dpmac.checks import ArgumentError
from dpmac.nets.feature_maps import FEATURE_MAPS, Chain, ToRange, load_feature_map, save_feature_map
from dpmac.privacy import PrivateRows
from dpmac.tables import Category, Number, Schema, TableEncoder

SCHEMA = Schema(
    {
        "age": Number(18, 98),
        "dose": Number(-1, 3, missing=True),
        "sex": Category(["F", "M"]),
        "group": Category(["0", "1", "other"], missing=True),
        "death": Category([0, 1]),
    },
    target="death",
)
FRAME = pd.DataFrame(
    {
        "sex": ["M", "F", "X", "M"],
        "dose": [0.0, None, 7.0, 3.0],
        "age": [18, 58, 98, 30],
        "group": [1.0, 0.0, None, 5.0],
        "unasked": ["a", "b", "c", "d"],
    }
)


def pieces(u, bins):
    """The formula, one number at a time."""
    return [(min(max(bins * u - k, 0.0), 1.0) - 0.5) / 2 for k in range(bins)]


def numbers_by_hand(value, low, high, bins):
    value = min(max(value, low), high)
    u = (value - low) / (high - low)
    made = [2 * u - 1, *pieces(u, bins)]
    if high - low > 20:
        v = math.log(1 + value - low) / math.log(1 + high - low)
        made += [2 * v - 1, *pieces(v, bins)]
    return made


# --- what it computes -------------------------------------------------------------------------------------------------


def test_codes_are_the_cells_in_the_schemas_order():
    codes = TableEncoder(SCHEMA).codes(FRAME)
    wanted = [[18, 0, 1, 1], [58, math.nan, 0, 0], [98, 7, 2, math.nan], [30, 3, 1, 3]]
    assert codes.dtype == torch.float64
    assert np.array_equal(codes, wanted, equal_nan=True)
    rows = FRAME[["age", "dose", "sex", "group"]].to_numpy(dtype=object)
    for table in (rows, rows.tolist(), FRAME.to_dict("list")):
        assert np.array_equal(TableEncoder(SCHEMA).codes(table), wanted, equal_nan=True)


@pytest.mark.parametrize("bins", [0, 1, 3, 12])
def test_numbers_are_scaled_clipped_and_cut_into_pieces(bins):
    schema = Schema({"wide": Number(-4, 63), "narrow": Number(0.5, 20.5)})
    values = [(-4.0, 0.5), (63.0, 20.5), (0.0, 1.7), (-9.0, 99.0), (1e9, -1e9), (17.3, 10.5)]
    made = TableEncoder(schema, bins).transform(values)
    by_hand = [numbers_by_hand(a, -4, 63, bins) + numbers_by_hand(b, 0.5, 20.5, bins) for a, b in values]
    assert made.shape == (6, 3 * (bins + 1))
    assert np.allclose(made, by_hand, atol=1e-14)


def test_the_pieces_of_a_number_add_up_to_its_place():
    values = np.linspace(0, 10, 41)[:, None]
    made = TableEncoder(Schema({"a": Number(0, 10)}), 5).transform(values)
    assert np.allclose((2 * made[:, 1:] + 0.5).sum(axis=1) / 5, values[:, 0] / 10)
    assert made[:, 1:].min() == -0.25
    assert made[:, 1:].max() == 0.25


def test_categories_are_pandas_dummies_with_a_place_for_others():
    schema = Schema({"group": SCHEMA.columns["group"]})
    cells = ["1", "other", "0", "stranger", None, "1"]
    made = TableEncoder(schema).transform({"group": cells})
    shown = pd.Categorical([{"stranger": "(other)"}.get(c, c) for c in cells], ["0", "1", "other", "(other)"])
    assert np.array_equal(made, pd.get_dummies(shown, dummy_na=True).to_numpy(dtype=float))


def test_a_missing_cell_is_zeros_and_its_flag():
    encoder = TableEncoder(SCHEMA, bins=2)
    names = encoder.get_feature_names_out().tolist()
    row = dict(zip(names, encoder.transform(FRAME)[1], strict=True))
    assert {name: value for name, value in row.items() if name.startswith("dose")} == {
        **{"dose": 0.0, "dose bin 1": 0.0, "dose bin 2": 0.0, "dose missing": 1.0}
    }
    row = dict(zip(names, encoder.transform(FRAME)[2], strict=True))
    assert [value for name, value in row.items() if name.startswith("group")] == [0, 0, 0, 0, 1]
    unflagged = encoder(torch.tensor([[math.nan, 0.0, math.inf, 0.0]]))[0].tolist()
    assert unflagged[:6] == [0] * 6
    assert unflagged[names.index("sex=F") : names.index("sex=other") + 1] == [0, 0, 0]


def test_every_input_has_a_name_of_its_own():
    assert TableEncoder(SCHEMA, bins=2).get_feature_names_out().tolist() == [
        *("age", "age bin 1", "age bin 2", "age log", "age log bin 1", "age log bin 2"),
        *("dose", "dose bin 1", "dose bin 2", "dose missing", "sex=F", "sex=M", "sex=other"),
        *("group=0", "group=1", "group=other", "group=(other)", "group missing"),
    ]
    assert TableEncoder(SCHEMA, bins=2).n_features_out == 18


# --- whatever the cells are -------------------------------------------------------------------------------------------

WILD = st.floats(width=64) | st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0, 1.5, 18.0, 98.0, 1e308, -1e308, 5e-324])
BOUNDS = st.floats(-1e300, 1e300)


@given(st.lists(st.lists(WILD, min_size=4, max_size=4), min_size=1, max_size=8), st.integers(0, 5))
def test_inputs_are_never_nan_always_in_range_and_row_by_row(rows, bins):
    encoder, codes = TableEncoder(SCHEMA, bins), torch.tensor(rows, dtype=torch.float64)
    made = encoder(codes)
    assert made.shape == (len(rows), *encoder.shape_after((4,)))
    assert bool(((made >= -1) & (made <= 1)).all())  # false of NaN
    for n in range(len(rows)):
        assert torch.equal(encoder(codes[n : n + 1])[0], made[n])
    assert torch.equal(encoder(codes.flip(0)).flip(0), made)


@given(BOUNDS, BOUNDS, WILD, st.booleans())
def test_any_range_at_all_keeps_inputs_in_range(one, two, value, missing):
    if one != two:
        schema = Schema({"a": Number(min(one, two), max(one, two), missing)})
        made = TableEncoder(schema)(torch.tensor([[value], [one], [two]], dtype=torch.float64))
        assert bool(((made >= -1) & (made <= 1)).all())


@given(st.integers(1, 6), st.lists(WILD, min_size=1))
def test_a_category_has_exactly_one_place_or_none(count, codes):
    schema = Schema({"a": Category(range(count), missing=True)})
    made = TableEncoder(schema)(torch.tensor(codes, dtype=torch.float64)[:, None])
    assert made.sum(dim=1).tolist() == [1.0] * len(codes)
    listed = [math.isfinite(c) and 0 <= c < count and c == int(c) for c in codes]
    assert (made[:, :count].sum(dim=1) == 1).tolist() == listed


def test_single_precision_codes_will_do():
    assert TableEncoder(SCHEMA)(torch.zeros(2, 4)).dtype == torch.float64


def test_no_rows_are_no_trouble():
    assert TableEncoder(SCHEMA).transform(FRAME[:0]).shape == (0, TableEncoder(SCHEMA).n_features_out)


# --- a feature map ----------------------------------------------------------------------------------------------------


def test_saved_and_loaded_also_in_a_chain(tmp_path):
    assert FEATURE_MAPS["table"] is TableEncoder
    encoder = TableEncoder(SCHEMA, 5)
    for feature_map in (encoder, Chain((encoder, ToRange(-2.0, 2.0)))):
        save_feature_map(feature_map, tmp_path / "feature_map")
        again = load_feature_map(tmp_path / "feature_map")
        assert torch.equal(again(encoder.codes(FRAME)), feature_map(encoder.codes(FRAME)))
    save_feature_map(encoder, tmp_path / "feature_map")
    again = load_feature_map(tmp_path / "feature_map")
    assert (again.schema, again.bins) == (SCHEMA, 5)


def test_rows_go_the_private_way_behind_it():
    encoder = TableEncoder(SCHEMA)
    table = PrivateRows(encoder.codes(FRAME)).behind(encoder)
    assert table.shapes == [encoder.shape_after((4,))]
    assert encoder.expensive


def test_it_learns_nothing_from_rows():
    encoder = TableEncoder(SCHEMA)
    before = pickle.dumps(encoder)
    assert encoder.fit(FRAME) is encoder
    encoder.fit_transform(FRAME, [0, 1, 0, 1])
    assert pickle.dumps(encoder) == before
    assert not list(encoder.parameters())
    assert not encoder.state_dict()


# --- a transformer ----------------------------------------------------------------------------------------------------


def test_cloned_copied_pickled_and_set():
    encoder = TableEncoder(SCHEMA, bins=4)
    assert encoder.get_params() == {"schema": SCHEMA, "bins": 4}
    for again in (clone(encoder), copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert np.array_equal(again.transform(FRAME), encoder.transform(FRAME))
        assert again.get_params() == encoder.get_params()
    assert encoder.set_params(bins=2) is encoder
    assert encoder.transform(FRAME).shape[1] == encoder.n_features_out == 18
    assert TableEncoder(SCHEMA.to_dict()).schema == SCHEMA
    check_is_fitted(encoder)
    assert "TableEncoder(" in repr(encoder)


def test_in_a_pipeline_and_a_search():
    frame = pd.concat([FRAME] * 10, ignore_index=True)
    y = np.tile([0, 1, 1, 0], 10)
    pipe = make_pipeline(TableEncoder(SCHEMA), LogisticRegression())
    assert pipe.fit(frame, y).score(frame, y) == 1.0
    assert pipe.n_features_in_ == 4
    search = GridSearchCV(pipe, {"tableencoder__bins": [1, 3]}, cv=2).fit(frame, y)
    assert search.best_score_ == 1.0
    names = pipe[:-1].get_feature_names_out()
    assert len(names) == pipe[-1].n_features_in_


def test_pandas_output_has_the_names():
    encoder = TableEncoder(SCHEMA, 2).set_output(transform="pandas")
    for made in (encoder.transform(FRAME), encoder.fit_transform(FRAME)):
        assert list(made.columns) == encoder.get_feature_names_out().tolist()
        assert made["sex=M"].tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": [18, "old", 98, 30]}, "column 'age', row 1='old': this column holds numbers"),
        ({"age": [18, 20, None, 30]}, "column 'age', row 2=None: the cell is missing"),
        ({"sex": ["F", "M", "F", None]}, "column 'sex', row 3=None: the cell is missing"),
        ({"dose": [0, 0, 0, math.inf]}, "column 'dose', row 3=inf: give a finite number"),
    ],
)
def test_a_bad_cell_is_named_when_it_is_fitted_or_transformed(change, message):
    table = FRAME.to_dict("list") | change
    for method in (TableEncoder(SCHEMA).fit, TableEncoder(SCHEMA).transform, TableEncoder(SCHEMA).codes):
        with pytest.raises(ArgumentError, match=message):
            method(table)


def test_errors():
    with pytest.raises(ArgumentError, match=r"column='sex': the table has no such column.*did you mean 'Sex'\?"):
        TableEncoder(SCHEMA).transform(FRAME.rename(columns={"sex": "Sex"}))
    with pytest.raises(ArgumentError, match=r"x='rows of shape \(3,\)': the feature map 'table' needs rows of shape"):
        TableEncoder(SCHEMA)(torch.zeros(2, 3))
    with pytest.raises(ArgumentError, match="schema='adult': give a Schema"):
        TableEncoder("adult")
    with pytest.raises(ArgumentError, match="bins=-1: give the number of pieces"):
        TableEncoder(SCHEMA, bins=-1)
    encoder = TableEncoder(SCHEMA)
    with pytest.raises(ArgumentError, match="bins='many': give the number"):
        encoder.set_params(bins="many")
    with pytest.raises(ArgumentError, match="parameter='pieces': this encoder has schema and bins"):
        encoder.set_params(pieces=3)
    assert encoder.bins == 12


# --- real tables ------------------------------------------------------------------------------------------------------


def test_the_tables_at_hand_are_encoded_without_strangers_and_in_time(tmp_path):
    for path in schema_files(tmp_path):
        schema, frame = Schema.load(path), pd.read_csv(rows_of(path))
        encoder = TableEncoder(schema)
        start = time.process_time()
        codes = encoder.codes(frame)
        assert time.process_time() - start < 2.0
        made = encoder(codes)
        assert made.shape == (len(frame), encoder.n_features_out)
        assert float(made.abs().max()) == 1.0
        for place, (name, column) in enumerate(schema.features.items()):
            gone = frame[name].isna().to_numpy()
            assert np.array_equal(torch.isnan(codes[:, place]).numpy(), gone)
            if isinstance(column, Category):
                assert not bool((codes[:, place] == column.other).any())
                shown = np.array([*column.values, "?"])[np.where(gone, 0, codes[:, place].numpy()).astype(int)]
                assert (shown == frame[name].astype(str).to_numpy())[~gone].all()
        target = schema.target_column.coded(schema.target, frame[schema.target].to_numpy())
        assert len(np.unique(target)) > 1
