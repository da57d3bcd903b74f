"""A name that looks mistyped is questioned before a second account begins; one that is meant to differ is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpmac import ArgumentError
from dpmac.extensions import ledger_places
from dpmac.extensions.ledger_places import _distance, check_name, check_place, check_unit_of, similar
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


def test_a_name_is_questioned_unless_a_new_ledger_is_meant(there):
    with pytest.raises(ArgumentError, match=r"begin a second one: Ledger\('.*patient.ledger'\), or dpmac train"):
        check_place(there / "patient.ledger")
    with pytest.raises(ArgumentError, match=r"^--ledger=.*begin a second one: dpmac train .*dpmac ledger init"):
        check_name(there / "patient.ledger", "--ledger")
    check_place(there / "patient.ledger", new=True)
    assert Ledger.init(there / "patient.ledger", total_epsilon=2.0).account is not None


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
    ("name", "likeliest", "other"),
    [
        ("patients-ledger", "patients.ledger", "patient-ledger"),  # the same letters
        ("patients.jsonl", "patients.ledger", "patient.jsonl"),  # another ending
        ("pateints.ledger", "patients.ledger", "aqteints.ledger"),  # one slip, and two
    ],
)
def test_the_likeliest_of_several_is_named(tmp_path, name, likeliest, other):
    for one in (likeliest, other):
        Ledger(tmp_path / one).append(ONE)
        assert similar(tmp_path / name) == tmp_path / one
        if one == likeliest:
            (tmp_path / one).rename(tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / likeliest)
    assert similar(tmp_path / name) == tmp_path / likeliest


@pytest.mark.parametrize(
    ("name", "other", "found"),
    [
        ("maen.ledger", "mean.ledger", True),
        ("maenvalu.ledger", "meanvalu.ledger", True),
        ("aptients-of-htree.ledger", "patients-of-three.ledger", True),
        ("aptients-of-htree-lcinics.ledger", "patients-of-three-clinics.ledger", False),  # three slips
        ("abcd.ledger", "abc.ledger", False),  # the shorter one counts
        ("patients", "patients.ledger.part", False),  # what a crash has left of a copy
    ],
)
def test_how_many_slips_are_one_name_depends_on_its_length(tmp_path, name, other, found):
    Ledger(tmp_path / other).append(ONE)
    assert (similar(tmp_path / name) == tmp_path / other) == found


def test_of_a_huge_folder_the_first_files_are_looked_at(there, monkeypatch):
    for few, found in ((4, there / "patients.ledger"), (3, None)):
        monkeypatch.setattr(ledger_places, "_MOST", few)
        for name in "abc":
            (there / name).touch()
        assert similar(there / "patient.ledger") == found


def test_what_is_no_file_is_not_opened_and_what_cannot_be_opened_is_no_ledger(there, monkeypatch):
    """Opening a pipe would wait for whoever writes to it."""
    (there / "patient.ledgers").mkdir()
    opened = []

    def never(path, *_):
        opened.append(path.name)
        raise PermissionError(path)

    monkeypatch.setattr(Path, "open", never)
    assert similar(there / "patient.ledger") is None
    assert opened == ["patients.ledger"]


def test_advice_about_a_unit_is_that_for_the_units():
    for held, unit, words in (
        ("row", "person", "cannot be counted for one"),
        ("person by patient", "person", "give the column of ids"),
        ("person by patient", "row", "groups='patient'"),
    ):
        with pytest.raises(ArgumentError, match=words):
            check_unit_of([], held, unit, differs=True)


@pytest.mark.parametrize(
    ("one", "other", "slips"),
    [
        *[("", "", 0), ("a", "", 1), ("abc", "acb", 1), ("abc", "abd", 1), ("abcd", "badc", 2), ("abcd", "abd", 1)],
        *[("abc", "ab", 1), ("bc", "abc", 1), ("kitten", "sitting", 3), ("sunday", "saturday", 3)],
    ],
)
def test_slips_are_counted(one, other, slips):
    assert _distance(one, other) == _distance(other, one) == slips
