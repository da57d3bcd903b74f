"""A name that looks mistyped is questioned before a second account begins; one that is meant to differ is not."""

from __future__ import annotations

import pytest

from dpmac import ArgumentError
from dpmac.extensions.ledger_places import _distance, similar
from dpmac.privacy import Entry, Ledger

ONE = Entry("mean", 4.0, 1.0)


@pytest.fixture
def there(tmp_path):
    Ledger(tmp_path / "patients.ledger").append(ONE)
    return tmp_path


@pytest.mark.parametrize(
    "slip",
    [
        "patient.ledger",
        "pateints.ledger",
        "Patients.ledger",
        "patients.ledgr",
        "patients",
        "patients.jsonl",
        "patiens.ledger",
    ],
)
def test_a_slip_of_the_keys_is_questioned_and_can_be_insisted_on(there, slip):
    with pytest.raises(
        ArgumentError, match=r"there is no such ledger, and patients.ledger is beside it: .*--new-ledger"
    ):
        Ledger.at(there / slip)
    assert len(Ledger.at(there / slip, new=True)) == 0
    Ledger(there / slip).append(ONE)
    assert len(Ledger.at(there / slip)) == 1  # it is there by now


@pytest.mark.parametrize("other", ["visits.ledger", "hospital", "patients-2023.ledger", "outpatients.ledger", "p"])
def test_another_name_is_another_ledger(there, other):
    assert len(Ledger.at(there / other)) == 0


def test_names_that_differ_in_a_number_are_meant_to_differ(tmp_path):
    Ledger(tmp_path / "visits-2023.ledger").append(ONE)
    assert similar(tmp_path / "visits-2024.ledger") is None
    assert similar(tmp_path / "visit-2023.ledger") == tmp_path / "visits-2023.ledger"


def test_only_ledgers_count(tmp_path):
    (tmp_path / "patients.csv").write_text("a,b\n")
    (tmp_path / "patients.ledger").mkdir()
    Ledger(tmp_path / "a").append(ONE)
    assert similar(tmp_path / "patients") is None
    assert similar(tmp_path / "b") is None
    assert similar(tmp_path / "no folder" / "b") is None


@pytest.mark.parametrize(
    ("one", "other", "slips"), [("", "", 0), ("a", "", 1), ("abc", "acb", 1), ("abc", "abd", 1), ("abcd", "badc", 2)]
)
def test_slips_are_counted(one, other, slips):
    assert _distance(one, other) == _distance(other, one) == slips
