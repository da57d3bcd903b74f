"""Settings, budgets and details of fitted models, against what the fits were really given."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import dpmac
from dpmac import DPMACPCA, DPMACClassifier, DPMACRegressor, Ledger
from dpmac.disclosure import details_of, settings_of, spent_by
from dpmac.disclosure.audited import LOOKS, STRONGEST, VERSION, audit_line
from dpmac.disclosure.code import code_digest
from dpmac.report.page import write_report

ROOT = Path(__file__).parents[2]
STEPS = {"batch_size": 200, "epochs": 3}


def rows(seed=0):
    draw = np.random.default_rng(seed)
    X = draw.uniform(-1, 1, (200, 3))
    return X, X[:, 0] > 0


@pytest.fixture(scope="module")
def two():
    """Two models in one ledger, the second of persons' rows no other than the first's."""
    ledger, (X, y) = Ledger(data_set="ward"), rows()
    ids = np.arange(200) // 2
    given = {"feature_range": (-1, 1), "ledger": ledger, "batch_size": 100, "epochs": 3}
    first = DPMACClassifier((), epsilon=1.0, **given).fit(X, y, groups=ids)
    held = ledger.epsilon(first.privacy_.delta)
    second = DPMACRegressor((4,), epsilon=2.0, target_range=(-1, 1), total_epsilon=7.0, **given)
    return first, second.fit(X, X[:, 1], groups=ids), held


def by_name(model):
    return {one.name: one for one in settings_of(model, model.run_.plan, model.privacy_.delta)}


def test_a_setting_is_default_or_by_hand_and_says_what_it_became(two):
    first, second, _ = two
    found = by_name(second)
    assert (found["epochs"].by, found["batch_size"].by, found["total_epsilon"].by) == ("set by hand",) * 3
    assert found["hidden_layer_sizes"].value == "4"
    assert (found["learning_rate"].by, found["residuals"].by, found["residuals"].value) == ("default", "default", "yes")
    rate = second._defaults(second.run_.plan).learning_rate
    assert float(found["learning_rate"].value) == pytest.approx(rate, rel=1e-3)
    assert by_name(first)["epsilon"].by == "set by hand"
    assert found["epsilon"].by == "default"  # 2, which is the default
    assert "max_rows" in found
    assert not {"machine", "ledger", "schema"} & set(found)
    whole = DPMACClassifier(feature_range=(-1, 1), epsilon=2.0, epochs=1).fit(*rows())
    left_out = by_name(whole)
    assert left_out["batch_size"].by == "default"
    assert left_out["batch_size"].value == f"{whole.run_.plan.batch_size:g}, expected"
    assert left_out["hidden_layer_sizes"].value == "auto: none, a linear model"
    assert "max_rows" not in left_out


def test_own_budget_stands_beside_the_ledgers_sum_and_the_total(two):
    first, second, held = two
    delta = second.privacy_.delta
    spent = spent_by(second, second.privacy_.ledger, delta, second.run_.plan)
    assert spent.own == pytest.approx(2.0, rel=0.01)
    assert spent.own <= 2.0
    assert held < spent.whole < held + spent.own
    assert (spent.budget, spent.total) == (2.0, 7.0)
    # asked after the second: the first's own releases are still told apart
    earlier = spent_by(first, first.privacy_.ledger, delta, first.run_.plan)
    assert earlier.own == pytest.approx(held)
    assert earlier.whole == spent.whole
    assert "the ledger of “ward” held" in spent.sentence()
    assert "a total of 7 was allowed" in spent.sentence()


def test_closed_forms_in_one_ledger_in_memory_are_not_told_apart():
    ledger, (X, _) = Ledger(), rows()
    for name in ("a", "b"):
        with ledger.noting(model=name):
            model = DPMACPCA(1, epsilon=1.0, ledger=ledger).fit(X)
    spent = spent_by(model, ledger, model.privacy_.delta, None)
    assert spent.own is None
    assert all(row[0] != "this model alone" for row in spent.rows())
    alone = DPMACPCA(1, epsilon=1.0).fit(X)
    assert spent_by(alone, alone.privacy_.ledger, alone.privacy_.delta, None).own == pytest.approx(1.0, rel=0.01)


def test_details_say_what_was_done(two):
    _, second, _ = two
    ledger, plan = second.privacy_.ledger, second.run_.plan
    spent = spent_by(second, ledger, second.privacy_.delta, plan)
    found = {one.key: one.text for one in details_of(second, ledger, plan, spent, dpmac.__version__, code_digest())}
    threshold = second._defaults(plan).threshold
    assert f"clipped to a norm of {threshold:g}" in found["clipping"]
    assert "averaged" in found["clipping"]
    assert "divided by 100" in found["divisor"]
    assert "zero-out" in found["neighbours"]
    assert "person" in found["neighbours"]
    assert "at most 4 rows of a person" in found["contributions"]
    assert "AES-256" in found["randomness"]
    assert code_digest() in found["code"]
    assert "A SEED" not in found["randomness"]


def test_the_report_has_all_of_it(two, tmp_path):
    _, second, _ = two
    page = write_report(second.save(tmp_path / "run")).read_text("utf-8")
    text = " ".join(re.sub(r"<[^>]+>", " ", page.split("</style>")[1]).split())
    for words in ("this model alone", "total that was allowed 7", "zero-out", "set by hand", "learning rate"):
        assert words in text, words
    assert "set by hand" in (tmp_path / "run" / "README.md").read_text()


ROW = re.compile(r"[^.;:]*\brows?\b[^.;:]*")
FINE = (
    "persons' rows",
    "their rows",
    "rows of a person",
    "your rows",
    "number of rows is not",
    "all rows with the same",
)
ABOUT_ROWS = (
    "synthetic",
    "these rows",
    "each row",
    "rows that are public",
    "private rows",
    "was trained on",
    "real rows",
    "them are rows",
    "max rows",
    "however many rows",
    *("at a reference row", "Around another row", "public rows"),
)


def test_a_report_on_persons_speaks_of_persons(two, tmp_path):
    """Every sentence of it that has the word rows says whose, or is about rows that are no unit of privacy."""
    page = write_report(two[1].save(tmp_path / "run")).read_text("utf-8")
    text = unescape(re.sub(r"<[^>]+>", ". ", page.split("</style>")[1]))
    strange = [said for said in ROW.findall(text) if not any(words in said for words in (*FINE, *ABOUT_ROWS))]
    assert strange == []


def test_the_audit_is_the_one_of_the_page_and_of_this_version():
    page = (ROOT / "docs" / "results" / "audit.md").read_text()
    case, claimed, proved = STRONGEST
    assert re.search(rf"\| {case} \| {claimed:.2f} \| {proved:.2f} \|", page)
    assert f"{LOOKS} looks" in page
    audits = json.loads((ROOT / "docs" / "results" / "audit.json").read_text())["audits"]
    assert audits["all"]["dpmac"] == VERSION
    assert "has not been audited" in audit_line("9.9")
    if dpmac.__version__ != VERSION:  # audit the new version, or own up to it where its changes are listed
        changes = (ROOT / "CHANGELOG.md").read_text().split(f"## {dpmac.__version__} ")[1].split("\n## ")[0]
        assert f"version {dpmac.__version__} has not been audited in full" in " ".join(changes.split())


def test_the_total_of_an_account_is_told(tmp_path):
    ledger = Ledger.init(tmp_path / "book", total_epsilon=4, delta=1e-6, data_set="ward")
    given = {"feature_range": (-1, 1), "ledger": ledger, "batch_size": 100, "epochs": 1, "epsilon": 1.0}
    model = DPMACClassifier((), **given).fit(*rows())
    told = spent_by(model, ledger, 1e-6, model.plan_)
    assert "a total of 4 was allowed." in told.sentence()
    assert told.rows()[-1] == ("total that was allowed", "4", "")
    assert "a total of 4 was allowed, at delta = 1e-06" in spent_by(model, ledger, 1e-5, model.plan_).sentence()
    lower = DPMACClassifier((), total_epsilon=2.5, **given).fit(*rows(1))
    assert spent_by(lower, ledger, 1e-6, lower.plan_).total == 2.5
    page = write_report(dpmac.save(lower, tmp_path / "run")).read_text()
    assert "none was set" not in page
