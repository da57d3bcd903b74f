"""The inputs of additive models: weights of points that interpolate, sum to 1, and know "other" and missing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmac.checks import ArgumentError
from dpmac.nets.feature_maps import load_feature_map, save_feature_map
from dpmac.tables import Category, Date, Number, Schema, TermEncoder
from dpmac.tables.kinds import KINDS
from dpmac.tables.terms import MOST_POINTS

COLUMNS = {
    "age": Number(17, 90, missing=True),
    "share": Number(-1, 1),
    "gain": Number(0, 99_999),
    "job": Category(["a", "b"], missing=True),
    "only": Category(["x"]),
    "day": Date("2020-01-01", "2021-01-01", parts=("month", "weekday"), missing=True),
}


def encoder(pairs=(), bins=12):
    return TermEncoder(Schema(COLUMNS), bins, pairs=pairs)


def blocks_of(made, term):
    return [block for block in made.blocks if block.term == term]


@settings(max_examples=40, deadline=None)
@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
    st.integers(1, 30),
    st.lists(st.floats(-2, 3), min_size=1, max_size=8),
    st.integers(0, 2**32),
)
def test_knots_interpolate_as_numpy_does(low, width, bins, places, seed):
    column = Number(low, low + width)
    (basis,) = column.bases(bins)
    knots = basis.places.numpy()
    assert knots[0] == column.low
    assert knots[-1] == column.high
    assert (np.diff(knots) > 0).all()
    values = np.random.default_rng(seed).normal(size=len(knots))
    cells = column.low + np.array(places) * width
    code = torch.from_numpy(cells).reshape(-1, 1)
    weights = basis.weights(code, torch.ones_like(code, dtype=torch.bool)).numpy()
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-9)
    np.testing.assert_allclose(weights @ values, np.interp(cells, knots, values), atol=1e-6)


def test_at_its_points_a_basis_has_the_columns_own_inputs():
    """What is read off a trained layer: the inputs of a column at each of its points."""
    for name, column in COLUMNS.items():
        place = 0
        for basis in column.bases(12):
            width = basis.at.shape[1]
            if basis.places is not None:
                codes = basis.places.reshape(-1, 1)
                found = column.inputs(codes, 12)[:, place : place + width]
                np.testing.assert_allclose(found, basis.at, atol=1e-12, err_msg=name)
            else:
                assert torch.equal(basis.at, torch.eye(width, dtype=torch.float64))
            place += width
        assert place + column.missing == len(column.labels(name, 12))


def test_every_kind_of_column_has_bases_that_cover_its_inputs():
    for kind in KINDS.values():
        for column in kind.samples():
            widths = sum(basis.at.shape[1] for basis in column.bases(6))
            assert widths + column.missing == len(column.labels("", 6)), kind


def test_a_date_is_its_days_its_month_and_its_weekday():
    made = encoder()
    cells = {"age": [None], "share": [0.0], "gain": [0.0], "job": [None], "only": ["x"], "day": [None]}
    rows = made.codes(cells)
    place = list(COLUMNS).index("day")
    rows = rows.repeat(2, 1)
    rows[0, place] = COLUMNS["day"].coded("day", np.array(["2020-07-01"], dtype=object))[0]  # a Wednesday
    weights = made(rows)
    said = {}
    for block in blocks_of(made, "day"):
        own = weights[0, block.start : block.stop]
        said[block.name] = [label for label, weight in zip(block.axes[0].labels, own, strict=True) if weight == 1]
        assert float(own.sum()) == pytest.approx(float(block.name != "missing"))
    assert said["month"] == ["Jul"]
    assert said["weekday"] == ["Wed"]
    days, month, weekday, missing = blocks_of(made, "day")
    assert float(weights[1, missing.start]) == 1
    for block in (days, month, weekday):
        assert not weights[1, block.start : block.stop].any()


def test_other_and_missing_cells_have_points_of_their_own():
    made, place = encoder(), list(COLUMNS).index("job")
    rows = torch.zeros(4, len(COLUMNS), dtype=torch.float64)
    rows[:, place] = torch.tensor([0.0, 1.0, 2.0, math.nan])
    weights = made(rows)
    listed, missing = blocks_of(made, "job")
    assert listed.axes[0].labels == ("a", "b", "other")
    assert listed.axes[0].listed == 2
    assert torch.equal(weights[:3, listed.start : listed.stop], torch.eye(3, dtype=torch.float64))
    assert not weights[3, listed.start : listed.stop].any()
    assert weights[:, missing.start].tolist() == [0, 0, 0, 1]


def test_a_pair_is_the_product_of_its_columns_points():
    made = encoder([("age", "job"), ("share", "day")])
    rows = torch.tensor([[30.0, 0.1, 5.0, 1.0, 0.0, 7400.0], [math.nan, 0.1, 5.0, math.nan, 0.0, math.nan]]).double()
    weights = made(rows)
    for pair in made.pairs:
        (block,) = blocks_of(made, " x ".join(pair))
        grids = weights[:, block.start : block.stop].reshape(2, *block.shape)
        np.testing.assert_allclose(grids.sum(dim=(1, 2)), 1, atol=1e-12)
        for axis, (other, column) in enumerate(zip((2, 1), block.axes, strict=True)):
            marginal = grids.sum(dim=other)
            if column.gap:
                assert marginal[1, -1] == 1, axis  # the missing cell
    (grid,) = blocks_of(made, "age x job")
    assert grid.axes[1].labels == ("a", "b", "other", "(missing)")


def test_coarse_knots_are_among_the_fine_ones():
    """So that what a pair has of one column alone can be given to that column's term, exactly."""
    for column in (COLUMNS["age"], COLUMNS["gain"], COLUMNS["share"]):
        coarse = column.bases(6)[0].places
        for bins in (12, 24, 48):
            fine = column.bases(bins)[0].places
            assert all(float((fine - knot).abs().min()) <= 1e-9 * max(1.0, abs(float(knot))) for knot in coarse)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ("age", "give pairs of columns"),
        (["age"], "give pairs of columns"),
        ([("age", "age")], "two different columns"),
        ([("age", "job"), ("job", "age")], "each pair once"),
        ([("age", "jobs")], "did you mean 'job'"),
        ([("age", "job", "day")], "give pairs of columns"),
    ],
)
def test_pairs_that_cannot_be_are_refused_by_name(pairs, said):
    with pytest.raises(ArgumentError, match=said):
        encoder(pairs)


def test_a_pair_of_huge_categories_is_refused():
    many = Category(range(100))
    with pytest.raises(ArgumentError, match=f"{MOST_POINTS:,} are the most"):
        TermEncoder(Schema({"a": many, "b": many}), pairs=[("a", "b")])


def test_a_text_is_in_no_pair():
    text = KINDS["text"].samples()[0]
    with pytest.raises(ArgumentError, match="a text has no points"):
        TermEncoder(Schema({"a": text, "b": Number(0, 1)}), pairs=[("a", "b")])


def test_it_comes_back_from_a_file(tmp_path):
    made = encoder([("age", "job")], bins=24)
    save_feature_map(made, tmp_path / "map")
    again = load_feature_map(tmp_path / "map")
    rows = torch.rand(5, len(COLUMNS), dtype=torch.float64) * 50
    assert isinstance(again, TermEncoder)
    assert torch.equal(made(rows), again(rows))
    assert again.get_feature_names_out().tolist() == made.get_feature_names_out().tolist()
    assert len(made.get_feature_names_out()) == made.n_features_out
