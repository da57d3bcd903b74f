"""The unit of privacy in ledgers and statements: one of them in each, in files too, and in words."""

from __future__ import annotations

import json

import pytest
import torch

from doorway import ONE, ask
from dpmac.checks import ArgumentError
from dpmac.extensions.entries import from_dict, to_dict
from dpmac.extensions.ledger_file import LedgerFile
from dpmac.privacy import Entry, Ledger, Mechanism, PrivateRows, Statement
from dpmac.privacy.accounting import UNIT
from dpmac.privacy.entry import PERSON
from dpmac.privacy.sampling import ROW
from dpmac.privacy.statement import unit_in_words

X = torch.zeros(4, 1, dtype=torch.float64)
PERSONS = PrivateRows(X, groups=[1, 1, 2, 3])


def entry(unit=ROW):
    return Entry("test", 1.0, 1.0, unit=unit)


def test_a_release_writes_down_whose_privacy_it_is(tmp_path):
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    assert ledger.unit == ROW
    ask(ONE, rows=PERSONS, ledger=ledger)
    assert [one.unit for one in ledger.entries] == [PERSON]
    assert Ledger.load(path).entries == ledger.entries
    assert Ledger.load(path).unit == ledger.until(1).unit == PERSON
    assert json.loads(path.read_text().splitlines()[1])["unit"] == PERSON


def test_another_unit_is_refused_before_anything_is_computed(tmp_path):
    for first, second in ((X, PERSONS), (PERSONS, X)):
        ledger = Ledger(tmp_path / f"{len(list(tmp_path.iterdir()))}")
        ask(ONE, rows=first, ledger=ledger)
        asked: list[torch.Tensor] = []
        with pytest.raises(ArgumentError, match=r"ledger=.*unit of privacy is a (row|person), not a"):
            ask(ONE, asked.append, rows=second, ledger=ledger)
        assert not asked
        assert len(ledger) == len(Ledger.load(ledger.path)) == 1


def test_no_ledger_appends_or_reads_two_units(tmp_path):
    for units in ((ROW, PERSON), (PERSON, "person by patient"), ("person by patient", "person by household")):
        ledger = Ledger()
        ledger.append(entry(units[0]))
        with pytest.raises(ArgumentError, match="ledger="):
            ledger.append(entry(units[1]))
        path = tmp_path / "-".join(units)
        LedgerFile.begin(path, "", "").append(*(to_dict(entry(unit)) for unit in units))
        with pytest.raises(ValueError, match=r"line 3: not a ledger entry \(.*unit of privacy"):
            Ledger.load(path)


def test_a_run_that_is_made_again_is_of_the_same_unit():
    ledger = Ledger()
    with ledger.noting(run="r"):
        ledger.append(Entry("test", 1.0, 1.0, seeded=True, unit=PERSON))
        with pytest.raises(RuntimeError, match="not the release that this run makes again"):
            ledger.replaying("r", 0).append(Entry("test", 1.0, 1.0, seeded=True))
        ledger.replaying("r", 0).append(Entry("test", 1.0, 1.0, seeded=True, unit=PERSON))
    assert len(ledger) == 1


def test_lines_of_rows_are_written_as_ever_and_strange_units_are_refused():
    assert "unit" not in to_dict(entry())
    assert from_dict(to_dict(entry())) == entry()
    assert from_dict(to_dict(entry("person by ward, bed"))).unit == "person by ward, bed"
    for strange in ("", "rows", "people", 3, None, "person patient"):
        with pytest.raises(ValueError, match=r"unit|type"):
            from_dict({**to_dict(entry()), "unit": strange})


def test_the_statement_says_whom_it_protects():
    made = (Mechanism(1.0, 0.1, 3, "step"), Mechanism(2.0))
    rows, persons, named = (Statement(made, 1e-5, False, ("a note",), unit) for unit in (ROW, PERSON, "person by id"))
    assert f"Unit of privacy: {UNIT}." in str(rows)
    assert "one person, with all their rows, there or blank (the number of persons is public" in str(persons)
    assert "one person, all rows with the same 'id', there or blank" in str(named)
    assert rows.epsilon == persons.epsilon
    assert "on a Poisson sample of the rows" in str(rows)
    assert "on all rows, once" in str(rows)
    assert "on a Poisson sample of the persons" in str(persons)
    assert "on all persons, once" in str(persons)
    for one in (rows, persons):
        said = one.to_dict()
        assert said["unit"] == unit_in_words(one.unit)
        assert said["not_covered"][0] == "a note"
        assert len(said["not_covered"]) == len(rows.not_covered())
    assert "the number of persons and of columns" in str(persons)
    assert "the number of rows and of columns" not in str(persons)
