"""Private scores from end to end: one release, in the right ledger, close to the exact ones, and nothing for errors."""

from __future__ import annotations

import numpy as np
import pandas
import pyarrow
import pytest
from sklearn.metrics import roc_auc_score

import dpmac
from dpmac.checks import ArgumentError
from dpmac.evaluation import private_score
from dpmac.extensions.rollback_guard import guard_file_of
from dpmac.privacy import Ledger, Mechanism
from dpmac.randomness import SystemNoise
from dpmac.tables import Category, Number, Schema

pytestmark = pytest.mark.usefixtures("repeatable_noise")
QUICK = {"batch_size": 600, "epochs": 4}  # all rows in every step: quickly planned
SCHEMA = Schema(
    {
        "age": Number(0, 100),
        "ward": Category(["a", "b"]),
        "ill": Category(["no", "yes"]),
    },
    target="ill",
)


def table(n=1500, seed=0):
    draw = np.random.default_rng(seed)
    age = draw.uniform(0, 100, n)
    ill = draw.random(n) < 1 / (1 + np.exp(-(age - 60) / 10))
    ward = np.where(draw.random(n) < 0.5, "a", "b")
    return {
        "id": list(range(n)),
        "age": age.tolist(),
        "ward": ward.tolist(),
        "ill": np.where(ill, "yes", "no").tolist(),
    }


@pytest.fixture(scope="module")
def divided():
    """A model of the rows of one split, and the other split."""
    ledger = Ledger(data_set="visits")
    parts = dpmac.split(table(), by="id", ledger=ledger, shares={"train": 0.6, "test": 0.4})
    model = dpmac.DPMACClassifier(epsilon=2.0, schema=SCHEMA, ledger=parts["train"].ledger, random_state=0)
    return model.fit(parts["train"].table), parts, ledger


def test_scores_of_a_split_are_close_to_the_exact_ones_and_cost_nobody_else(divided):
    model, parts, ledger = divided
    before, test = ledger.epsilon(1e-5), parts["test"]
    found = dpmac.evaluate(model, test.table, epsilon=1.0, ledger=test.ledger, by=["ward"])
    assert ledger.epsilon(1e-5) == before  # the training's is larger
    assert ledger.entries[-1].split == "test"
    assert ledger.entries[-1].purpose == "evaluation"
    assert 0.999 < found.epsilon <= 1.0
    assert found.whole == test.ledger.epsilon(found.delta) == found.epsilon
    y = np.array(test.table["ill"]) == "yes"
    p = model.predict_proba(test.table)[:, 1]
    assert found["auroc"].value == pytest.approx(roc_auc_score(y, p), abs=0.06)
    assert found["accuracy"].value == pytest.approx(((p >= 0.5) == y).mean(), abs=0.05)
    assert found["base_rate"].low <= y.mean() <= found["base_rate"].high
    assert set(found.scores.groups["ward"]) == {"a", "b", "other"}
    assert found.scores.groups["ward"]["a"]["share"].value == pytest.approx(0.5, abs=0.15)
    assert f"from {len(y)} rows of the split 'test'" in found.price
    assert "auroc" in str(found)
    with pytest.raises(ArgumentError, match="score='roc_auc': there are auroc, average_precision"):
        found["roc_auc"]
    plain = found.to_dict()
    assert (plain["public"], plain["paid"], plain["positive"]) == (False, True, "yes")
    assert plain["intervals"]["auroc"] == [found["auroc"].low, found["auroc"].high]


def test_the_models_own_ledger_is_the_default_and_adds_up():
    model = dpmac.DPMACClassifier(epsilon=1.0, schema=SCHEMA, random_state=0, **QUICK).fit(table(600, seed=4))
    alone = model.privacy_.epsilon
    found = dpmac.evaluate(model, table(600, seed=4), epsilon=1.0)
    assert found.whole == model.privacy_.ledger.epsilon(found.delta) > max(alone, found.epsilon)


@pytest.mark.parametrize("by", [(), ["ward"]])
def test_tables_of_every_library_are_taken(by):
    """A data frame's ``values`` is no method: without ``by`` its rows were counted wrongly."""
    model = dpmac.DPMACClassifier(epsilon=1.0, schema=SCHEMA, random_state=0).fit(table(600, seed=4))
    given = table(600, seed=4)
    ledger = model.privacy_.ledger
    for rows in (pandas.DataFrame(given), pyarrow.table(given)):
        found = dpmac.evaluate(model, rows, epsilon=1.0, random_state=1, by=by)
        assert "from 600 rows" in found.price
    assert [entry.label for entry in ledger.entries].count(ledger.entries[-1].label) == 2


@pytest.mark.parametrize("wrong", ["fresh", "epsilon", "by", "columns", "label", "split", "delta"])
def test_nothing_is_spent_by_an_error(wrong, divided):
    model, parts, ledger = divided
    test = parts["test"]
    rows, options = dict(test.table), {"epsilon": 1.0, "ledger": test.ledger}
    if wrong == "fresh":
        options["ledger"] = Ledger()
    elif wrong == "epsilon":
        options["epsilon"] = -1.0
    elif wrong == "by":
        options["by"] = ["age"]
    elif wrong == "columns":
        del rows["age"]
    elif wrong == "label":
        rows["ill"] = ["maybe", *rows["ill"][1:]]
    elif wrong == "split":
        options["ledger"] = parts["train"].ledger
    else:
        options["delta"] = 0.9
    before = len(ledger)
    with pytest.raises((ArgumentError, RuntimeError)):
        dpmac.evaluate(model, rows, **options)
    assert len(ledger) == before


def test_a_total_is_held_to_before_anything_is_spent():
    ledger = Ledger.init(total_epsilon=1.5, delta=1e-5)
    model = dpmac.DPMACClassifier(epsilon=1.0, schema=SCHEMA, ledger=ledger, random_state=0, **QUICK)
    model.fit(table(600, seed=2))
    before = len(ledger)
    with pytest.raises(ArgumentError, match="total_epsilon"):
        dpmac.evaluate(model, table(600, seed=2), epsilon=1.4)
    assert len(ledger) == before
    dpmac.evaluate(model, table(600, seed=2), epsilon=ledger.remaining())
    assert ledger.epsilon(1e-5) <= 1.5


def test_a_loaded_model_needs_the_ledger_and_gives_the_same(tmp_path):
    path = tmp_path / "book"
    model = dpmac.DPMACClassifier(epsilon=1.0, schema=SCHEMA, ledger=path, random_state=0, **QUICK).fit(table(600))
    model.save(tmp_path / "model")
    again = dpmac.load(tmp_path / "model")
    with pytest.raises(ArgumentError, match="the model's own is a copy"):
        dpmac.evaluate(again, table(600), epsilon=1.0)
    found = dpmac.evaluate(again, table(600), epsilon=1.0, ledger=path, random_state=5)
    assert found.seeded
    assert len(Ledger.load(path)) == len(again.privacy_.ledger) + 1
    assert guard_file_of(path).exists()


def test_more_classes_and_numbers_and_persons():
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (800, 2))
    y = np.digitize(x[:, 0], [-0.3, 0.3])
    usual = {"epsilon": 4.0, "feature_range": (-1, 1), "epochs": 20, "random_state": 0}
    model = dpmac.DPMACClassifier(classes=[0, 1, 2], batch_size=800, **usual).fit(x, y)
    found = dpmac.evaluate(model, x, y, epsilon=4.0)
    assert found["accuracy"].value == pytest.approx((model.predict(x) == y).mean(), abs=0.05)
    assert "auroc" not in found.scores.figures
    x = draw.uniform(-1, 1, (800, 2))
    z = 3 * x[:, 0] + draw.normal(0, 0.3, 800)
    regressor = dpmac.DPMACRegressor(target_range=(-4, 4), batch_size=800, **usual).fit(x, z)
    scored = dpmac.evaluate(regressor, x, z, epsilon=4.0)
    missed = regressor.predict(x) - z
    assert scored["rmse"].value == pytest.approx(np.sqrt((missed**2).mean()), rel=0.25)
    assert scored["r2"].value == pytest.approx(1 - (missed**2).mean() / z.var(), abs=0.1)
    assert scored["mean_absolute_error"].value == pytest.approx(np.abs(missed).mean(), rel=0.25)
    persons = dpmac.DPMACClassifier(classes=[0, 1, 2], batch_size=400, **usual)
    groups = np.repeat(np.arange(400), 2)
    x = draw.uniform(-1, 1, (800, 2))
    persons.fit(x, y, groups=groups)
    assert dpmac.evaluate(persons, x, y, epsilon=4.0, groups=groups).rows == 400
    with pytest.raises(ArgumentError, match="whose unit of privacy is a person"):
        dpmac.evaluate(persons, x, y, epsilon=4.0)


@pytest.mark.parametrize("metric", ["accuracy", "log_loss", "brier_score"])
def test_one_score_is_one_plain_gaussian_release(metric, divided):
    model, parts, _ = divided
    test, ledger = parts["test"], parts["test"].ledger
    before = len(ledger)
    found = private_score(model, test.table, metric=metric, noise_multiplier=1e-2, ledger=ledger, source=SystemNoise())
    assert ledger.entries[-1].mechanism() == Mechanism(1e-2, 1.0, 1, "scores")
    assert len(ledger) == before + 1
    y = np.array(test.table["ill"]) == "yes"
    p = model.predict_proba(test.table)[:, 1]
    said = np.where(y, p, 1 - p)
    exact = {"accuracy": (said >= 0.5).mean(), "log_loss": (-np.log(said)).clip(0, 5).mean() / 5}
    exact["brier_score"] = ((1 - said) ** 2).mean()
    assert found == pytest.approx(exact[metric], abs=3e-4)
    with pytest.raises(ArgumentError, match="choose one of accuracy"):
        private_score(model, test.table, metric="f1", noise_multiplier=1.0, ledger=ledger, source=SystemNoise())


def test_a_split_of_a_table_keeps_its_kind_and_everybody():
    import pandas as pd

    ledger, whole = Ledger(), table(200)
    parts = dpmac.split(pd.DataFrame(whole), by="id", ledger=ledger)
    assert sorted([*parts["train"].table["id"], *parts["test"].table["id"]]) == whole["id"]
    plain = dpmac.split(whole, by="id", ledger=ledger)
    assert plain["test"].table["id"] == parts["test"].table["id"].tolist()
    with pytest.raises(ArgumentError, match="the data set was divided into"):
        dpmac.split(whole, by="age", ledger=ledger)
    with pytest.raises(ArgumentError, match="give a mapping of columns"):
        dpmac.split(np.zeros((3, 2)), by="id", ledger=ledger)
