"""Answers that no program can find: kept with the model, and said in statement, card and report; so is their lack."""

from __future__ import annotations

import json

import pytest

import dpmac
from dpmac import DPMACClassifier, Ledger, Schema
from dpmac.checks import ArgumentError
from dpmac.disclosure import NOBODY_SAID, SEARCHED, Declared, declared_notes
from dpmac.privacy import Entry
from dpmac.report.page import write_report
from dpmac.saving import open_folder
from dpmac.tables import Category, Number

SCHEMA = Schema({"age": Number(0, 120), "sex": Category(["F", "M"])}, target="sex")


def ledger_of(*runs):
    ledger = Ledger()
    for run in runs:
        with ledger.noting(run=run):
            ledger.append(Entry("training step", 4.0, 1.0))
    return ledger


def test_every_answer_has_its_line_and_none_has_one_too():
    lines = {answer: declared_notes(Declared(answer), SCHEMA, ledger_of("a", "b"), None)[0] for answer in SEARCHED}
    assert len(set(lines.values())) == 4
    assert "it holds 1 releases of other runs" in lines["ledger"]
    alone = declared_notes(Declared("ledger"), SCHEMA, ledger_of("a"), None)[0]
    assert "but it holds no release of another run" in alone
    assert "not covered by the figure" in lines["private"]
    assert declared_notes(Declared(), SCHEMA, ledger_of("a"), None)[0] == NOBODY_SAID


def test_where_ranges_came_from_is_said_of_each_way():
    ledger = ledger_of("a")

    def said(schema=SCHEMA, declared=None, feature_range=None, held=ledger):
        return " ".join(declared_notes(declared or Declared(), schema, held, feature_range)[1:])

    assert "nobody has said where they came from" in said()
    assert "come from “code book, p. 12”" in said(declared=Declared(ranges_from="code book,\np. 12"))
    assert "feature_range" in said(schema=None, feature_range=(0, 1))
    assert said(schema=None) == ""
    estimated = dpmac.Schema.from_dict({**SCHEMA.to_dict(), "origin": origin_of(ledger)})
    assert "paid for in this ledger (one release)" in said(estimated)
    assert "in ANOTHER ledger" in said(estimated, held=ledger_of("b"))
    assert "called public: other patients" in said(estimated.as_public("other patients"))


def origin_of(ledger):
    from dpmac.extensions.provenance import Origin

    return Origin.of(ledger).to_dict()


@pytest.mark.parametrize("raw", [{"searched": "perhaps"}, {"ranges_from": " "}, {"other": "x"}, [], {"searched": 1}])
def test_what_is_no_answer_is_refused(raw):
    with pytest.raises((ArgumentError, ValueError)):
        Declared.from_dict(raw)


def test_answers_are_in_statement_card_report_and_come_back(tmp_path):
    table = {"age": [20.0, 90.0] * 40, "sex": ["F", "M"] * 40}
    model = DPMACClassifier((), schema=SCHEMA, epsilon=2.0, batch_size=80, epochs=2).fit(table)
    with pytest.raises(ArgumentError, match="searched='maybe'"):
        model.save(tmp_path / "no", searched="maybe")
    assert not (tmp_path / "no").exists()
    folder = model.save(tmp_path / "run", searched="no", ranges_from="code book")
    report = write_report(folder).read_text("utf-8")
    for text in ((folder / "statement.txt").read_text(), (folder / "README.md").read_text(), report):
        assert "hyper-parameters were not searched" in text
        assert "come from “code book”" in text
        assert NOBODY_SAID not in text
    assert open_folder(folder).declared() == Declared("no", "code book")
    assert json.loads((folder / "declared.json").read_text()) == {"searched": "no", "ranges_from": "code book"}
    silent = model.save(tmp_path / "silent")
    assert NOBODY_SAID in (silent / "statement.txt").read_text()
    assert NOBODY_SAID in write_report(silent).read_text("utf-8")
    assert not (silent / "declared.json").exists()
