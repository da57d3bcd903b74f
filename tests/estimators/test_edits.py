"""Terms made monotone, set, removed and taken back: the model changes, and what it costs does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import isotonic_regression

from additives import BINARY, binary, number, table, three
from dpmac.checks import ArgumentError
from dpmac.estimators.edits import EDITED, Edit
from dpmac.estimators.monotone import isotonic, monotone_values
from dpmac.tables import Category, Number, Schema, TermEncoder

pytestmark = pytest.mark.filterwarnings("ignore:this process has fitted these rows before")
SAID = {"who": "A. Mills, actuary", "why": "agreed with the board"}
GRID = Schema({"a": Number(0, 10, missing=True), "b": Number(0, 1000), "c": Category(["x", "y"], missing=True)})


@pytest.fixture
def model():
    """Fitted once; each test gets a copy."""
    return again("binary")


KEPT = {}


def again(kind):
    import copy

    if kind not in KEPT:
        made = {"binary": binary, "number": number, "three": three}[kind]()
        KEPT[kind] = made.fit(table(target=kind))
    return copy.deepcopy(KEPT[kind])


# --- projections ------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=30), st.sampled_from([1, -1]))
def test_a_line_is_projected_as_scikit_learn_does(values, direction):
    found = isotonic(np.array(values), direction)
    np.testing.assert_allclose(found, isotonic_regression(values, increasing=direction > 0), atol=1e-9)
    assert (direction * np.diff(found) >= 0).all()
    assert found.mean() == pytest.approx(np.mean(values), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from([1, -1]), min_size=1),
    st.sampled_from([(), (("a", "b"),), (("a", "c"),), (("a", "b"), ("a", "c"), ("c", "b"))]),
)
def test_the_sum_is_monotone_whatever_the_pairs(seed, directions, pairs):
    """All else equal, along the whole range; and a second projection changes nothing."""
    encoder, draw = TermEncoder(GRID, 12, pairs=pairs), np.random.default_rng(seed)
    values = draw.normal(size=(1, encoder.n_features_out))
    found = monotone_values(values, encoder, directions)
    fixed = np.stack([draw.uniform(0, 10, 30), draw.uniform(0, 1000, 30), draw.integers(0, 3, 30)], axis=1)
    fixed[::5, 2] = np.nan
    for name, direction in directions.items():
        place, top = list(GRID.features).index(name), {"a": 10, "b": 1000}[name]
        for others in fixed:
            rows = np.tile(others, (200, 1))
            rows[:, place] = np.linspace(0, top, 200)
            totals = encoder(_tensor(rows)).numpy() @ found[0]
            assert (direction * np.diff(totals) >= -1e-9).all(), (name, others)
    np.testing.assert_allclose(monotone_values(found, encoder, directions), found, atol=1e-6)


def _tensor(rows):
    import torch

    return torch.from_numpy(np.ascontiguousarray(rows))


def test_what_is_monotone_already_is_left_as_it_is():
    encoder = TermEncoder(GRID, 12, pairs=[("a", "b")])
    values = np.zeros((1, encoder.n_features_out))
    (first,) = (block for block in encoder.blocks if block.term == "a" and not block.name)
    values[0, first.start : first.stop] = np.arange(first.stop - first.start)
    np.testing.assert_array_equal(monotone_values(values, encoder, {"a": 1}), values)
    flat = monotone_values(values, encoder, {"a": -1})
    np.testing.assert_allclose(flat[0, first.start : first.stop], values[0, first.start : first.stop].mean())


def test_missing_other_and_the_rest_are_not_touched(model):
    before = model.terms()
    model.make_monotone({"age": 1}, **SAID)
    after = model.terms()
    assert after["age"].missing == before["age"].missing
    np.testing.assert_array_equal(after["job"].values, before["job"].values)
    assert (np.diff(after["age"].values) >= 0).all()


def test_a_projection_never_raises_the_price(model):
    statement, ledger = model.privacy_.statement(), model.privacy_.ledger.entries
    fitted = binary(monotone={"age": 1, "since": -1}).fit(table())
    model.make_monotone({"age": 1}, **SAID)
    assert model.privacy_.ledger.entries == ledger
    for one in (model, fitted):
        assert one.privacy_.epsilon == statement.epsilon
        assert one.privacy_.statement().mechanisms == statement.mechanisms
    assert (np.diff(fitted.terms()["since"].values) <= 0).all()


def test_monotone_in_a_fit_is_the_projection_of_the_same_fit():
    """With a seed: what is released is the same."""
    plain, asked = again("binary"), binary(monotone={"age": 1}).fit(table())
    plain.make_monotone({"age": 1}, **SAID)
    np.testing.assert_array_equal(plain.predict_proba(table()), asked.predict_proba(table()))
    assert asked.edits_ == ()


# --- edits ------------------------------------------------------------------------------------------------------------


def test_a_removed_term_adds_nothing(model):
    model.remove_term("job", **SAID)
    assert not np.any(model.explain(table())["job"])
    term = model.terms()["job"]
    assert term.by_hand
    assert term.band is None
    rows = table(50)
    changed = {**rows, "job": np.full(50, "a")}
    model.remove_term("age x job", **SAID)
    np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(changed))


def test_points_are_set_by_label_by_knot_and_in_a_grid(model):
    knots = model.terms()["share"].knots
    model.set_term("share", {float(knots[0]): -1.0, "1": 2.0}, **SAID)
    assert model.terms()["share"].values[[0, -1]].tolist() == [-1.0, 2.0]
    model.set_term("job", {"b": 0.5, "other": 0.25, "(missing)": -0.5}, **SAID)
    assert model.terms()["job"].values[[1, -1]].tolist() == [0.5, 0.25]
    assert model.terms()["job"].missing == -0.5
    model.set_term("age x job", {(17, "b"): 3.0, ("(missing)", "other"): 4.0}, **SAID)
    grid = model.terms()["age x job"].values
    assert (grid[0, 1], grid[-1, 3]) == (3.0, 4.0)
    model.set_term("day", {"month: Jan": 1.5}, **SAID)
    parts = {part.name: part for part in model.terms()["day"].parts}
    assert parts["month"].values[0] == 1.5
    values = np.linspace(-1, 1, len(knots))
    model.set_term("share", values, **SAID)
    np.testing.assert_array_equal(model.terms()["share"].values, values)
    assert len(model.edits_) == 5


def test_terms_of_numbers_and_of_classes_are_set_in_their_own_units():
    amount, classes = again("number"), again("three")
    amount.set_term("job", {"a": 2.5}, **SAID)
    assert amount.terms()["job"].values[0] == pytest.approx(2.5, abs=1e-12)
    classes.set_term("job", {"a": [1.0, 0.0, -1.0]}, **SAID)
    assert classes.terms()["job"].values[0].tolist() == [1.0, 0.0, -1.0]
    with pytest.raises(ArgumentError, match="give 3 numbers"):
        classes.set_term("job", {"a": 1.0}, **SAID)
    with pytest.raises(ArgumentError, match="more than two classes"):
        classes.make_monotone({"age": 1}, **SAID)


def test_undo_takes_back_the_last_edit_bit_for_bit(model):
    rows = table(100)
    states = [model.predict_proba(rows)]
    for change in (
        lambda: model.make_monotone({"age": -1, "share": 1}, **SAID),
        lambda: model.remove_term("age x job", **SAID),
        lambda: model.set_term("age", {17: 0.3}, **SAID),
    ):
        change()
        states.append(model.predict_proba(rows))
    for expected in states[-2::-1]:
        model.undo()
        np.testing.assert_array_equal(model.predict_proba(rows), expected)
    assert not any(note.startswith(EDITED) for note in model.privacy_.notes)
    with pytest.raises(ArgumentError, match="nothing to take back"):
        model.undo()


def test_who_when_and_why_stand_in_the_statement(model):
    epsilon = model.privacy_.epsilon
    model.remove_term("job", who="A. Mills", why="no cause.")
    (edit,) = model.edits_
    said = str(model.privacy_.statement())
    assert f"'job' removed by A. Mills on {edit.when}: no cause" in said
    assert model.privacy_.epsilon == epsilon


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.remove_term("jop", **SAID), "did you mean 'job'"),
        (lambda m: m.remove_term("job", who="", why="x"), "say who edits"),
        (lambda m: m.remove_term("job", who="me", why=" "), "say why"),
        (lambda m: m.set_term("job", {"z": 1.0}, **SAID), "no point of this term"),
        (lambda m: m.set_term("age", {18.123: 1.0}, **SAID), "no point of this term"),
        (lambda m: m.set_term("job", {"a": float("nan")}, **SAID), "give finite numbers"),
        (lambda m: m.set_term("job", [1.0], **SAID), "give a dict of points"),
        (lambda m: m.set_term("job", "a", **SAID), "give a dict of points"),
        (lambda m: m.set_term("share", [np.inf] * 13, **SAID), "give finite numbers"),
        (lambda m: m.make_monotone({"job": 1}, **SAID), "has no order"),
        (lambda m: m.make_monotone({}, **SAID), "name a column"),
    ],
)
def test_an_edit_that_cannot_be_changes_nothing(model, change, said):
    before = model.predict_proba(table(50))
    with pytest.raises(ArgumentError, match=said):
        change(model)
    np.testing.assert_array_equal(model.predict_proba(table(50)), before)
    assert model.edits_ == ()


def test_an_edit_that_is_none_is_refused():
    with pytest.raises(ArgumentError, match="action"):
        Edit("forget", ("a",), "me", "2026-01-01", "x", (np.zeros((2, 1)),))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="isoformat"):
        Edit("remove", ("a",), "me", "yesterday", "x", (np.zeros((2, 1)),))
    assert BINARY.target == "y"
