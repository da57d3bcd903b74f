"""The report of every kind of model: what stands on it, what must not, and that files cannot speak as HTML."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest

from dpmac import DPMACPCA, DPMACAutoencoder, DPMACClassifier, DPMACRegressor, Ledger, Schema
from dpmac.checks import ArgumentError
from dpmac.disclosure.spent import said
from dpmac.privacy.accounting import UNIT
from dpmac.privacy.statement import NOT_COVERED, round_up
from dpmac.report.on_privacy import bound_above, bound_below
from dpmac.report.page import write_report
from dpmac.saving import save
from dpmac.tables import Category, Number

UGLY = "<img src=x onerror=alert(1)>"
ROWS = 300
BINS = [{"low": 0.0, "high": 0.5, "rows": 60, "predicted": 0.25, "observed": 0.3}]


def people(target, seed=0):
    draw = np.random.default_rng(seed)
    table = {"age": draw.uniform(20, 90, ROWS), "town": draw.choice(["A", UGLY], ROWS)}
    table["death"] = np.where(draw.random(ROWS) < table["age"] / 100, "yes", "no")
    table["cost"] = 10 * table["age"]
    columns = {"age": Number(20, 90), "town": Category(["A", UGLY], missing=True)}
    columns |= {"death": Category(["no", "yes"])} if target == "death" else {}
    columns |= {"cost": Number(0, 1000)} if target == "cost" else {}
    return table, Schema(columns, target=target, positive="yes" if target == "death" else None, name=UGLY)


STEPS = {"batch_size": ROWS, "epochs": 4}  # on all rows: the accountant then has a closed form, which is quick


def made(kind, ledger=None):
    table, schema = people({"classifier": "death", "regressor": "cost"}.get(kind), KINDS.index(kind))
    X = np.stack([table["age"], table["cost"]], axis=1)
    if kind == "classifier":
        return DPMACClassifier((4,), epsilon=2.0, schema=schema, ledger=ledger, **STEPS).fit(table)
    if kind == "regressor":
        return DPMACRegressor((), epsilon=2.0, schema=schema, **STEPS).fit(table)
    if kind == "autoencoder":
        return DPMACAutoencoder(2, epsilon=2.0, schema=schema, method="closed-form").fit(table)
    if kind == "network autoencoder":
        return DPMACAutoencoder(1, epsilon=2.0, feature_range=(0, 900), method="gradient", **STEPS).fit(X)
    if kind == "pca":
        return DPMACPCA(1, epsilon=2.0).fit(X / 1000)
    if kind == "not private":
        return DPMACClassifier((), epsilon=float("inf"), feature_range=(0, 900), **STEPS).fit(X, table["death"])
    assert kind == "seeded"
    return DPMACClassifier((), epsilon=2.0, feature_range=(0, 900), random_state=0, **STEPS).fit(X, table["town"])


KINDS = ("classifier", "regressor", "autoencoder", "network autoencoder", "pca", "not private", "seeded")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    parent = tmp_path_factory.mktemp("runs")
    models = {kind: made(kind) for kind in KINDS}
    return {kind: (model, save(model, parent / kind.replace(" ", "-"))) for kind, model in models.items()}


def words(page):
    return unescape(re.sub(r"<[^>]+>", " ", page.split("</style>")[1]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_is_one_page_by_itself_with_all_its_sections(folders, kind):
    model, folder = folders[kind]
    where = write_report(folder)
    assert where == folder / "report.html"
    page = where.read_text("utf-8")
    sections = re.findall(r'<section id="(\w+)"', page)
    stepped = kind in ("classifier", "regressor", "network autoencoder", "seeded")
    signal = ["signal"] if stepped else []
    chosen = ["schema"] * (kind in ("classifier", "regressor", "autoencoder")) + ["settings", "details"]
    assert sections == ["scores", "statement", "attack", "spending", *signal, "columns", *chosen, "ledger"]
    assert not re.search(r"https?:|//|url\(|@import|<script|<iframe|<object|javascript:", page.lower())
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["data:,"]
    assert not re.search(r"\b(nan|None|inf)\b", words(page).replace("DPMAC", ""))
    text = " ".join(words(page).split())
    assert all(note in text for note in NOT_COVERED)
    assert "There are no scores here" in text
    if kind == "not private":
        assert "NOT PRIVATE" in text
        assert "There is no bound" in text
    else:
        assert f"epsilon = {said(model.privacy_.epsilon)}" in text
        assert UNIT in text
        assert "can become at most" in text
    assert ("SEEDED RUN" in text) == (kind == "seeded")
    assert ("no rows can be made up" in text) == (kind == "pca")
    assert write_report(folder).read_text("utf-8") == page  # the same again


def test_files_cannot_speak_as_html(folders):
    page = write_report(folders["classifier"][1]).read_text("utf-8")
    assert UGLY in words(page)
    assert "<img" not in page
    page = write_report(folders["seeded"][1]).read_text("utf-8")  # a class of that name
    assert "<img" not in page


def test_scores_stand_there_only_of_public_rows(folders):
    _, folder = folders["classifier"]
    kept = folder / "evaluation.json"
    found = {"rows": 60, "file": UGLY, "scores": {"auroc": 0.8125, UGLY: UGLY}, "reliability": BINS, "positive": "yes"}
    try:
        kept.write_text(json.dumps({**found, "public": False}))
        page = write_report(folder).read_text("utf-8")
        assert "0.8125" not in page
        assert "There are no scores here" in page
        assert "calibration" not in re.findall(r'<section id="(\w+)"', page)
        kept.write_text(json.dumps({**found, "public": True}))
        page = write_report(folder).read_text("utf-8")
        assert "0.8125" in page
        assert "60 rows" in page
        assert "predicted probability of “yes”" in page
        assert "<img" not in page
        assert "calibration" in re.findall(r'<section id="(\w+)"', page)
        kept.write_text(json.dumps({**found, "public": True, "reliability": [{"rows": 3}]}))
        with pytest.raises(ValueError, match=r"evaluation\.json"):
            write_report(folder)
    finally:
        kept.unlink()


def test_earlier_releases_and_their_purpose_are_told(tmp_path):
    ledger = Ledger(data_set="ward 7")
    table, schema = people(None)
    with ledger.noting(purpose="a first look <b>", model="look"):
        DPMACPCA(1, epsilon=0.5, schema=schema, ledger=ledger).fit(table)
    page = write_report(save(made("classifier", ledger), tmp_path / "run"), tmp_path / "r.html").read_text("utf-8")
    text = " ".join(words(page).split())
    assert "“ward 7”" in text
    assert "a first look <b>" in text
    assert f"The first 2 of them were made before this model was trained, and cost {round_up(0.5, 1)}" in text
    assert not (tmp_path / "run" / "report.html").exists()


def test_errors_name_what_is_wrong_and_leave_what_was_there(folders, tmp_path):
    model, folder = folders["pca"]
    with pytest.raises(ArgumentError, match="out="):
        write_report(folder, tmp_path)
    with pytest.raises(ArgumentError, match="out="):
        write_report(folder, tmp_path / "not" / "there.html")
    with pytest.raises((ValueError, FileNotFoundError), match=r"dpmac\.json"):
        write_report(tmp_path)
    copy = save(model, tmp_path / "copy")
    before = write_report(copy).read_text("utf-8")
    (copy / "ledger.jsonl").write_bytes((copy / "ledger.jsonl").read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"ledger\.jsonl"):
        write_report(copy)
    assert (copy / "report.html").read_text("utf-8") == before
    assert not list(copy.glob(".*"))


@pytest.mark.parametrize("part", [0.0, 1e-9, 0.000908, 0.0346, 0.5, 0.91774, 0.995301, 0.99999, 1 - 1e-12, 1.0])
def test_printed_bounds_are_bounds(part):
    above, below = (float(text.removesuffix(" %")) / 100 for text in (bound_above(part), bound_below(part)))
    assert below - 1e-15 <= part <= above + 1e-15
    assert above - below <= max(0.0101 * part if part < 0.99 else 0.1 * (1 - part), 1.1e-5)
