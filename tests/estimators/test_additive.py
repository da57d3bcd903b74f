"""Additive models: the terms are the model, whatever the columns are; and what cannot be additive is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from additives import BINARY, COLUMNS, FEW, NUMBER, PAIRS, binary, number, of_row, table, three
from dpmac import DPMACClassifier, DPMACImageClassifier, DPMACRegressor, Machine, Schema
from dpmac.checks import ArgumentError
from dpmac.estimators.term_values import Linear, at_points, noise_at_points, paired, trained
from dpmac.nets.feature_maps import FeatureMap
from dpmac.priors import SchemaPrior, whitened
from dpmac.privacy import Ledger
from dpmac.tables import Category, Number, TableEncoder, TermEncoder
from dpmac.tables.kinds import KINDS

pytestmark = pytest.mark.filterwarnings("ignore:this process has fitted these rows before")


@pytest.fixture(scope="module")
def yes_or_no():
    return binary().fit(table())


@pytest.fixture(scope="module")
def amount():
    return number(monotone={"age": 1}).fit(table(target="number"))


@pytest.fixture(scope="module")
def classes():
    return three().fit(table(target="three"))


# --- terms add up -----------------------------------------------------------------------------------------------------


def test_terms_add_up_to_the_logit(yes_or_no):
    rows = table(200, seed=1)
    said = yes_or_no.explain(rows)
    assert list(said) == ["intercept", *COLUMNS, "age x job", "share x since"]
    np.testing.assert_allclose(sum(said.values()), yes_or_no.decision_function(rows), atol=1e-6)
    p = 1 / (1 + np.exp(-sum(said.values())))
    np.testing.assert_allclose(p, yes_or_no.predict_proba(rows)[:, 1], atol=1e-9)


def test_terms_add_up_to_the_prediction(amount):
    rows = table(200, seed=1, target="number")
    total = sum(amount.explain(rows).values())
    np.testing.assert_allclose(np.clip(total, -5, 15), amount.predict(rows), atol=1e-6)


def test_terms_add_up_for_each_of_several_classes(classes):
    rows, terms = table(200, seed=1, target="three"), classes.terms()
    total = sum(classes.explain(rows).values())
    assert terms.outputs == ("high", "low", "mid")
    np.testing.assert_allclose(total, classes.decision_function(rows), atol=1e-6)
    p = np.exp(total) / np.exp(total).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, classes.predict_proba(rows), atol=1e-9)
    assert terms["age"].values.shape == (len(terms["age"].knots), 3)
    np.testing.assert_allclose(terms["age"].values.sum(axis=1), 0, atol=1e-9)  # only differences count


def test_terms_add_up_for_several_labels():
    rows = table(target="binary")
    rows.pop("y")
    y = np.stack([rows["share"] > 0, rows["day"] > np.datetime64("2021-01-01")], axis=1).astype(int)
    without = Schema(COLUMNS)
    model = DPMACClassifier(schema=without, epsilon=4.0, additive=True, monotone={"share": 1}, **FEW).fit(rows, y)
    total = sum(model.explain(rows).values())
    np.testing.assert_allclose(1 / (1 + np.exp(-total)), model.predict_proba(rows), atol=1e-9)
    assert (np.diff(model.terms()["share"].values, axis=0) >= -1e-12).all()


def test_knots_and_values_say_all_of_a_term(yes_or_no, classes, amount):
    """A cell's number by interpolation and look-up, as somebody with a printed list would find it."""
    for model, target in ((yes_or_no, "binary"), (classes, "three"), (amount, "number")):
        rows, terms = table(40, seed=2, target=target), model.terms()
        said = model.explain(rows)
        for name, column in COLUMNS.items():
            codes = column.coded(name, rows[name])
            pairs = zip(rows[name], codes, strict=True)
            found = [np.reshape(of_row(terms, name, cell, code), -1) for cell, code in pairs]
            expected = np.reshape(said[name], (40, -1))
            np.testing.assert_allclose(np.reshape(np.array(found, dtype=float), (40, -1)), expected, atol=1e-9)


def test_a_pair_is_interpolated_along_both_columns(yes_or_no):
    grid = yes_or_no.terms()["age x job"]
    ages, jobs = grid.labels
    assert jobs == ("a", "b", "c", "other", "(missing)")
    assert ages[-1] == "(missing)"
    knots = grid.knots[0]
    rows = {**table(3, seed=4), "age": np.array([knots[1], (knots[1] + knots[2]) / 2, np.nan])}
    rows["job"] = np.array(["b", None, "what?"], dtype=object)
    found = yes_or_no.explain(rows)["age x job"]
    values = grid.values
    expected = [values[1, 1], (values[1, -1] + values[2, -1]) / 2, values[-1, 3]]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_terms_are_zero_on_average_over_their_points(yes_or_no):
    for term in yes_or_no.terms().values():
        for part in term.parts:
            if len(part.labels) == 1 and part.name != "missing":
                listed = part.values
                if part.knots[0] is None and not part.name:
                    listed = part.values[:-1]  # without "other"
                assert abs(listed.mean()) < 1e-9
            elif len(part.labels) == 2:
                inner = [
                    len(knots) if knots is not None else len(labels) - 2
                    for knots, labels in zip(part.knots, part.labels, strict=True)
                ]
                assert np.abs(part.values[:, : inner[1]].mean(axis=1)).max() < 1e-9
                assert np.abs(part.values[: inner[0]].mean(axis=0)).max() < 1e-9


# --- what a linear layer becomes --------------------------------------------------------------------------------------

PLAIN = {name: column for name, column in COLUMNS.items() if name != "age"}  # none of them wide: no logarithm


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_any_linear_layer_is_its_terms(seed, white, with_pairs):
    """Of columns without a logarithm exactly; behind a whitening, too."""
    known, draw = Schema(PLAIN), np.random.default_rng(seed)
    pairs = [("share", "since"), ("job", "share")] if with_pairs else []
    terms, inputs = TermEncoder(known, 12, pairs=pairs), TableEncoder(known, 12)
    whole: FeatureMap = paired(inputs, terms)
    if white:
        whole = WHITE.setdefault(with_pairs, whitened(whole, SchemaPrior(known)))
    rows = {name: cells for name, cells in table(60, seed=seed).items() if name in PLAIN}
    features = whole(inputs.codes(rows)).numpy()
    weight, bias = draw.normal(size=(2, features.shape[1])), draw.normal(size=2)
    found = trained(weight, bias, whole, terms).centred(terms)
    expected = features @ weight.T + bias
    size = 1e-3 if white else 1e-9  # a whitening is computed in single precision
    np.testing.assert_allclose(terms(inputs.codes(rows)).numpy() @ found.values.T + found.constant, expected, atol=size)


WHITE: dict[bool, FeatureMap] = {}


def test_noise_on_weights_becomes_noise_on_terms():
    """Against noise that is drawn."""
    known, draw = Schema({"share": Number(-1, 1), "job": Category(["a", "b"], missing=True)}), np.random.default_rng(0)
    terms, inputs = TermEncoder(known, 12), TableEncoder(known, 12)
    deviation = draw.uniform(0.1, 1.0, size=(1, inputs.n_features_out))
    expected = noise_at_points(deviation, inputs, terms)
    drawn = deviation * draw.normal(size=(4000, inputs.n_features_out))
    found = Linear(drawn @ at_points(inputs, terms).T, np.zeros(4000)).centred(terms).values.std(axis=0)
    np.testing.assert_allclose(found, expected[0], rtol=0.08)


def test_without_noise_there_is_no_band(yes_or_no):
    assert (yes_or_no.terms()["share"].band > 0).all()
    none = binary(epsilon=math.inf).fit(table())
    assert not none.terms()["share"].band.any()
    np.testing.assert_allclose(sum(none.explain(table()).values()), none.decision_function(table()), atol=1e-6)


@pytest.mark.long
def test_the_band_is_about_the_spread_of_repeated_fits():
    """Rather too wide than too narrow; the seeds are fixed."""
    fits = [
        DPMACClassifier(schema=BINARY, epsilon=1.0, additive=True, calibrate=False, random_state=seed).fit(table(1500))
        for seed in range(8)
    ]
    for name in ("age", "share", "job"):
        values = np.array([fit.terms()[name].values for fit in fits])
        band = np.mean([fit.terms()[name].band for fit in fits], axis=0)
        spread = np.sqrt((values.std(axis=0, ddof=1) ** 2).mean())
        assert 0.7 < np.sqrt((band**2).mean()) / spread < 4, name


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"additive": "age"}, "additive='age'"),
        ({"additive": [("age", "jop")]}, "did you mean 'job'"),
        ({"additive": True, "hidden_layer_sizes": (8,)}, "hidden_layer_sizes"),
        ({"additive": False, "monotone": {"age": 1}}, "give additive=True"),
        ({"monotone": {"job": 1}}, "a category has no order"),
        ({"monotone": {"day": 1}}, "parts that come back"),
        ({"monotone": {"age": 2}}, r"monotone\['age'\]"),
        ({"monotone": {"age": True}}, r"monotone\['age'\]"),
        ({"monotone": {"ag": 1}}, "did you mean 'age'"),
        ({"monotone": ["age"]}, "give a dict"),
        ({"schema": None, "additive": True}, "give a schema"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_spent(more, said):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=said):
        binary(ledger=ledger, **more).fit(table(), table()["y"] if more.get("schema", 0) is None else None)
    assert not len(ledger)


def test_monotone_is_for_two_classes():
    ledger = Ledger()
    with pytest.raises(ArgumentError, match="more than two classes"):
        three(monotone={"age": 1}, ledger=ledger).fit(table(target="three"))
    assert not len(ledger)


def test_a_model_that_is_not_additive_has_no_terms():
    model = binary(additive=False).fit(table())
    for ask in (model.terms, lambda: model.explain(table()), model.undo):
        with pytest.raises(ArgumentError, match="additive=True"):
            ask()


def test_pictures_are_not_additive():
    with pytest.raises(ArgumentError, match="it is for tables"):
        DPMACImageClassifier(additive=True).fit(np.zeros((8, 6, 6)), np.arange(8) % 2)


def test_scikit_learn_copies_the_arguments(yes_or_no):
    copy = clone(yes_or_no)
    assert copy.get_params()["additive"] == PAIRS
    assert not hasattr(copy, "edits_")
    copy.set_params(additive=True, monotone={"age": -1})
    assert (copy.additive, copy.monotone) == (True, {"age": -1})


# --- everything that a fit can be -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:many values")
def test_texts_and_huge_categories_have_terms():
    draw = np.random.default_rng(0)
    text = KINDS["text"].samples()[0]
    known = Schema({"note": text, "code": Category(range(300)), "y": Category(["0", "1"])}, target="y")
    rows = {
        "note": draw.choice(np.array(["good film", "not good", None], dtype=object), 200),
        "code": draw.integers(0, 400, 200),
        "y": draw.choice(["0", "1"], 200),
    }
    model = DPMACClassifier(schema=known, epsilon=4.0, additive=True, **FEW).fit(rows)
    np.testing.assert_allclose(sum(model.explain(rows).values()), model.decision_function(rows), atol=1e-6)
    assert len(model.terms()["code"].labels) == 301
    assert model.terms()["note"].knots is None


def test_persons_are_protected_as_in_any_fit():
    rows = table()
    model = binary().fit(rows, groups=np.arange(len(rows["y"])) // 3)
    assert "person" in str(model.privacy_.statement())
    np.testing.assert_allclose(sum(model.explain(rows).values()), model.decision_function(rows), atol=1e-6)


def test_a_forced_whitening_is_read_through():
    model = binary(prior=SchemaPrior(BINARY), additive=True).fit(table())
    rows = table(50, seed=5)
    np.testing.assert_allclose(sum(model.explain(rows).values()), model.decision_function(rows), atol=1e-6)
    assert isinstance(model.feature_map_, TermEncoder)


def test_a_resumed_fit_ends_with_the_same_terms(tmp_path, monkeypatch):
    """Killed in the middle: weights and band go on from the checkpoint."""
    whole = binary(ledger=str(tmp_path / "whole")).fit(table())
    machine = Machine(checkpoint=tmp_path / "checkpoint")
    from dpmac.mac.wsteps.gain import NoiseGainUpdater

    apply, count = NoiseGainUpdater.apply, [0]

    def killed(self, polynomials):
        count[0] += 1
        if count[0] == 9:
            raise KeyboardInterrupt
        apply(self, polynomials)

    monkeypatch.setattr("dpmac.training.checkpoint.Checkpoints.due", lambda self: True)
    monkeypatch.setattr(NoiseGainUpdater, "apply", killed)
    half = binary(ledger=str(tmp_path / "ledger"), machine=machine)
    with pytest.raises(KeyboardInterrupt):
        half.fit(table())
    monkeypatch.setattr(NoiseGainUpdater, "apply", apply)
    half.fit(table())
    for name, term in whole.terms().items():
        np.testing.assert_array_equal(half.terms()[name].values, term.values)
        np.testing.assert_array_equal(half.terms()[name].band, term.band)


def test_fitting_again_forgets_edits(amount):
    model = number().fit(table(target="number"))
    model.remove_term("job", who="me", why="to see")
    model.fit(table(target="number"))
    assert model.edits_ == ()
    model.set_params(additive=False).fit(table(target="number"))
    assert not hasattr(model, "edits_")
    assert isinstance(model, DPMACRegressor)
    assert NUMBER.target == "y"
