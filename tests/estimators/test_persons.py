"""``fit(..., groups=...)``: the unit of privacy is a person. What follows from it, what is said, what is refused."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, cross_validate

import dpmac
from dpmac import DPMACPCA, ArgumentError, DPMACAutoencoder, DPMACClassifier, DPMACRegressor, Ledger, PrivacyWarning
from dpmac.estimators import ESTIMATORS, base, ids
from dpmac.privacy.statement import unit_in_words
from dpmac.tables import Category, Number, Schema
from dpmac.training.defaults import safe_delta, schedule_for
from pictured import as_given, quickly
from small_modules import Small, SmallRegression

PEOPLE, EACH = 60, 5
QUICK = {"epsilon": 2.0, "epochs": 2, "batch_size": PEOPLE, "random_state": 0, "target_range": (-3, 3)}
QUICK |= {"feature_range": (-3, 3), "classes": (0, 1)}


def visits(people=PEOPLE, each=EACH, seed=0, features=4):
    """Rows of persons who have something of their own; the target is of the row."""
    draw = np.random.RandomState(seed)
    who = np.repeat(np.arange(people), each)
    draw.shuffle(who)
    x = 0.6 * draw.normal(size=(people, features))[who] + 0.8 * draw.normal(size=(len(who), features))
    return x, x @ np.linspace(1, -1, features) + 0.3 * draw.normal(size=len(who)), who


X, Y, WHO = visits()
AGAIN = pytest.mark.filterwarnings("ignore:this process has fitted these rows before")  # on purpose
SCHEMA = Schema({"a": Number(-3, 3), "b": Number(-3, 3), "ill": Category(["no", "yes"])}, target="ill", positive="yes")
TABLE = pd.DataFrame({"patient": [f"p{w}" for w in WHO], "a": X[:, 0], "b": X[:, 1]})
TABLE["ill"] = np.where(Y > 0, "yes", "no")


def quick(kind, **more):
    wanted = {"module": Small if is_classifier(kind()) else SmallRegression, **QUICK, **quickly(kind), **more}
    return kind(**{name: value for name, value in wanted.items() if name in kind().get_params()})


def targets(model):
    return (Y > 0).astype(int) if is_classifier(model) else Y


@pytest.fixture(autouse=True)
def _each_test_by_itself():
    dpmac.estimators.warning.forget()


# --- what follows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_everything_follows_from_the_number_of_persons(kind):
    model = quick(kind)
    model.fit(as_given(model, X), targets(model), groups=WHO)
    assert model.privacy_.delta == safe_delta(PEOPLE)
    assert model.privacy_.epsilon <= 2.0
    assert {entry.unit for entry in model.privacy_.ledger.entries} == {"person"}
    statement = str(model.privacy_.statement())
    assert (
        "Unit of privacy: one person, with all their rows, there or blank (the number of persons is public" in statement
    )
    assert "the number of persons and of columns" in statement
    assert " rows," not in statement.split("Not covered")[0].replace("all their rows,", "")
    if hasattr(model, "plan_"):
        assert (model.plan_.n, model.plan_.batch_size) == (PEOPLE, PEOPLE)


@AGAIN
def test_plans_and_defaults_are_those_of_so_many_rows():
    """Of 500 persons with 1,500 rows: what 500 rows would have, but for the noise that is the same anyway."""
    x, y, who = visits(500, 3)
    models = [DPMACClassifier(classes=(0, 1), random_state=0, epochs=1) for _ in range(2)]
    models[0].fit(x, y > 0, groups=who)
    models[1].fit(x[:500], y[:500] > 0)
    assert models[0].plan_ == models[1].plan_
    assert models[0].plan_.batch_size == schedule_for(500).batch_size
    assert [len(m.privacy_.ledger) for m in models] == [len(models[0].privacy_.ledger)] * 2
    assert models[0].network_.sizes == models[1].network_.sizes


@AGAIN
@pytest.mark.long
def test_a_model_of_persons_is_a_sensible_model():
    """Five rows a person: groups cost what fewer rows cost, not five times the noise; and more rows a person help."""
    x, y, who = visits(2000, 5, seed=1)
    test, truth, _ = visits(400, 5, seed=2)
    scores = []
    for most in (1, 4):
        model = DPMACClassifier((), epsilon=1.0, classes=(0, 1), feature_range=(-3, 3), max_rows=most, random_state=0)
        model.set_params(batch_size=2000, epochs=60).fit(x, y > 0, groups=who)
        scores.append(model.score(test, truth > 0))
    plain = DPMACClassifier((), epsilon=math.inf, classes=(0, 1), feature_range=(-3, 3), batch_size=2000, epochs=60)
    best = plain.fit(x, y > 0).score(test, truth > 0)
    assert min(scores) > best - 0.05
    assert best > 0.85


def test_without_noise_every_person_has_the_same_say():
    """One person with a thousand rows does not outvote a hundred persons with one."""
    x = np.concatenate([np.full((1000, 1), 0.9), np.full((100, 1), -0.5)])
    who = np.concatenate([np.zeros(1000), np.arange(1, 101)])
    model = DPMACPCA(1, epsilon=math.inf, random_state=0)
    assert model.fit(x, groups=who).mean_[0] == pytest.approx((0.9 - 0.5 * 100) / 101)
    assert clone(model).fit(x).mean_[0] == pytest.approx((900 - 50) / 1100)


# --- tables, names, saving ------------------------------------------------------------------------------------------


@AGAIN
def test_a_column_of_a_table_can_be_named(tmp_path):
    models = [
        quick(DPMACClassifier, schema=SCHEMA, feature_range=None, classes=None).fit(TABLE, groups=groups)
        for groups in ("patient", TABLE["patient"])
    ]
    assert np.array_equal(*(m.predict_proba(TABLE) for m in models))
    words = unit_in_words("person by patient")
    assert "all rows with the same 'patient'" in words
    again = dpmac.load(models[0].save(tmp_path / "run"))
    assert again.max_rows == 4
    assert words in str(again.privacy_.statement())
    assert again.privacy_.statement().to_dict()["unit"] == words
    card = (tmp_path / "run" / "README.md").read_text()
    assert words in card
    assert f"of {PEOPLE} persons" in card
    assert "A person brings 4 rows at most" in card
    assert json.loads((tmp_path / "run" / "ledger.jsonl").read_text().splitlines()[1])["unit"] == "person by patient"
    everything = "".join(path.read_text(errors="replace") for path in (tmp_path / "run").iterdir())
    assert "p17" not in everything  # no id
    assert str(len(TABLE)) not in card  # nor the number of rows


def test_a_report_speaks_of_persons(tmp_path):
    from dpmac.report.page import write_report

    model = quick(DPMACRegressor).fit(X, Y, groups=WHO)
    page = write_report(model.save(tmp_path / "run")).read_text()
    assert "knows every other person of the table" in page
    assert unit_in_words("person") in page
    assert page.count("the number of persons and of columns") == 1
    assert "a Poisson sample of the rows" not in page


def test_ranges_are_estimated_for_persons_too():
    ledger = Ledger()
    schema = Schema.estimate(
        TABLE,
        epsilon=50.0,
        delta=1e-3,
        categories={"ill": ["no", "yes"]},
        target="ill",
        ledger=ledger,
        groups="patient",
    )
    assert set(schema.columns) == {"a", "b", "ill"}
    assert ledger.unit == "person by patient"
    assert f"from {PEOPLE} persons" in schema.about
    quick(DPMACClassifier, schema=schema, feature_range=None, classes=None, ledger=ledger).fit(TABLE, groups="patient")
    with pytest.raises(ArgumentError, match=r"delta=.*1/n"):
        Schema.estimate(TABLE[["a", "b"]], epsilon=1.0, delta=1 / 60, groups=WHO)


@AGAIN
def test_scikit_learn_hands_groups_on():
    with sklearn.config_context(enable_metadata_routing=True):
        ledger = Ledger()
        model = quick(DPMACClassifier, batch_size=40, ledger=ledger).set_fit_request(groups=True)
        cross_validate(model, X, Y > 0, params={"groups": WHO}, cv=GroupKFold(3))
    assert ledger.unit == "person"
    codes = quick(DPMACAutoencoder, method="closed-form").fit_transform(X, groups=WHO)
    assert len(codes) == len(X)


# --- what is refused and what is warned of --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_one_ledger_has_one_unit(kind):
    """A guarantee for single rows says little of a person who has many, so the two are not added up."""
    for first, second in ((WHO, None), (None, WHO), (pd.Series(WHO, name="patient"), WHO)):
        ledger, model = Ledger(), quick(kind)
        rows = as_given(model, X)
        model.set_params(ledger=ledger).fit(rows, targets(model), groups=first)
        spent = len(ledger)
        with pytest.raises(ArgumentError, match=r"ledger=.*whose unit of privacy is a (person|row)"):
            clone(model).fit(rows, targets(model), groups=second)
        assert len(ledger) == spent
        clone(model).fit(rows, targets(model), groups=first)


def test_what_cannot_be_is_said_before_anything_is_spent():
    ledger = Ledger()
    model = quick(DPMACClassifier, ledger=ledger)
    cases = [
        (WHO[:-1], "groups='299 ids': there are 300 rows"),
        (np.zeros(len(WHO)), "groups='1 person'"),
        (np.where(WHO == 3, np.nan, WHO), "groups, row .*no id"),
        ("patient", "groups='patient': give the ids themselves"),
        (7, "groups=7"),
    ]
    for groups, said in cases:
        with pytest.raises(ArgumentError, match=said):
            clone(model).fit(X, Y > 0, groups=groups)
    for bad in (0, 300, 1.5, None):
        with pytest.raises(ArgumentError, match="max_rows="):
            clone(model).set_params(max_rows=bad).fit(X, Y > 0)
    named = quick(DPMACClassifier, schema=SCHEMA, feature_range=None, classes=None, ledger=ledger)
    with pytest.raises(ArgumentError, match="groups='a': the schema has it"):
        clone(named).fit(TABLE, groups="a")
    with pytest.raises(ArgumentError, match=r"column='patiant'.*did you mean 'patient'"):
        clone(named).fit(TABLE, groups="patiant")
    with pytest.raises(ArgumentError, match=r"delta=.*1/n"):
        clone(model).set_params(delta=1 / 60).fit(X, Y > 0, groups=WHO)
    with pytest.raises(ArgumentError, match=r"delta=.*1/n"):
        clone(model).set_params(delta=1 / 61).fit(X, Y > 0)
    assert len(ledger) == 0
    clone(model).set_params(delta=1 / 61).fit(X, Y > 0, groups=WHO)


def test_more_rows_than_a_calibration_takes_are_refused_before_the_training_is_paid_for(monkeypatch):
    monkeypatch.setattr(base, "MAX_ROWS", 239)
    ledger = Ledger()
    model = quick(DPMACRegressor, ledger=ledger, epsilon=20.0)
    for groups, most in ((WHO, 4), (None, 4)):  # 60 persons at 4 spots each, and 300 rows
        with pytest.raises(ArgumentError, match=r"X='(240|300) rows'.*after the training.*max_rows"):
            clone(model).set_params(max_rows=most).fit(X, Y, groups=groups)
    assert len(ledger) == 0
    clone(model).set_params(max_rows=2).fit(X, Y, groups=WHO)
    clone(model).set_params(residuals=False).fit(X, Y, groups=WHO)


@pytest.mark.parametrize("name", ["patient", "patient_id", "PatientID", "customer number", "id", "userId", "MEMBER_NO"])
def test_rows_that_share_ids_are_warned_of(name):
    model = quick(DPMACClassifier, schema=SCHEMA, feature_range=None, classes=None)
    with pytest.warns(PrivacyWarning, match=f"rows share the ids of column '{name}'.*groups=") as told:
        model.fit(TABLE.rename(columns={"patient": name}))
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("patient", np.arange(300)),  # all different
        ("subject", np.arange(300) % 8),  # taught at school
        ("product_id", WHO),
        ("identity", WHO),
        ("member_since", WHO),
        ("code", WHO),
        ("patient", [[1]] * 300),  # cannot be told apart
    ],
)
def test_columns_that_are_no_shared_ids_of_persons_are_not_warned_of(name, values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ids.warn_of_ids({"a": np.zeros(300), name: values})


def test_nothing_is_warned_of_where_nothing_is_promised_or_persons_are_protected():
    model = quick(DPMACClassifier, schema=SCHEMA, feature_range=None, classes=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(model).fit(TABLE, groups="patient")
        clone(model).set_params(epsilon=math.inf).fit(TABLE)
        ids.warn_of_ids(X)
        ids.warn_of_ids(X.tolist())
