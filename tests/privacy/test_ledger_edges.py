"""What is asked of a ledger: parts of it to look at, what is left of a total, copies for other processes."""

from __future__ import annotations

import json

import pytest

from dpmac.checks import ArgumentError
from dpmac.extensions.entries import to_dict
from dpmac.extensions.ledger_file import LedgerFile
from dpmac.planning.calibration import MULTIPLIERS
from dpmac.privacy import Entry, Ledger, Mechanism, epsilon_of
from dpmac.privacy.ledger import Releases

DELTA = 1e-5
STEP = Entry("step", 2.0, 0.5)


def of_two_runs():
    ledger = Ledger(data_set="hospital")
    for run, label in (("a", "first"), ("b", "second"), ("a", "third")):
        with ledger.noting(run=run):
            ledger.append(Entry(label, 2.0, 0.5))
    return ledger


def labels(ledger):
    return [entry.label for entry in ledger.entries]


# --- parts of a ledger, to look at ------------------------------------------------------------------------------------


def test_what_others_released_is_all_but_one_runs():
    """A run that goes on plans with what others spent: its own releases in their place would hide theirs."""
    ledger = of_two_runs()
    assert labels(ledger.of_others("a")) == ["second"]
    assert labels(ledger.of_others("b")) == ["first", "third"]
    assert labels(ledger.of_others("nobody")) == labels(ledger)


def test_the_first_entries_are_the_first():
    ledger = of_two_runs()
    assert [labels(ledger.until(count)) for count in range(4)] == [labels(ledger)[:count] for count in range(4)]


@pytest.mark.parametrize("part", [lambda ledger: ledger.until(2), lambda ledger: ledger.of_others("a")])
def test_a_part_of_a_ledger_records_nothing(part):
    """Its account would go away with it."""
    ledger = of_two_runs()
    view = part(ledger)
    before = view.entries
    with pytest.raises(RuntimeError, match="lost"):
        view.append(STEP)
    assert view.entries == before
    assert view.data_set == "hospital"
    assert len(ledger) == 3


def test_what_goes_on_elsewhere_has_the_entries_the_data_set_and_the_run():
    lines = [to_dict(entry) for entry in of_two_runs().entries]
    ledger = Ledger.of(lines, "hospital", "b")
    assert [to_dict(entry) for entry in ledger.entries] == lines
    assert (ledger.data_set, ledger.run) == ("hospital", "b")
    ledger.append(STEP)
    assert ledger.entries[-1].run == "b"


def test_releases_that_are_made_again_are_of_the_same_data_set():
    assert of_two_runs().replaying("a", 0).data_set == "hospital"


def test_notes_end_where_they_were_taken_also_inside_others():
    ledger = Ledger()
    with ledger.noting(purpose="outer", run="outer"):
        with ledger.noting(run="inner"):
            ledger.append(STEP)
        ledger.append(STEP)
    ledger.append(STEP)
    noted = [(entry.purpose, entry.run) for entry in ledger.entries]
    assert noted[:2] == [("outer", "inner"), ("outer", "outer")]
    assert noted[2][0] == ""
    assert noted[2][1] not in ("outer", "inner", "")


def test_a_ledger_is_begun_once_anything_is_in_it_or_in_its_file(tmp_path):
    memory = Ledger()
    assert not memory.begun
    memory.append(STEP)
    assert memory.begun
    assert not Ledger(tmp_path / "new").begun
    Ledger().save(tmp_path / "none")  # a file of no releases
    assert Ledger.load(tmp_path / "none").begun


def test_a_look_at_a_file_has_no_path_to_write_to(tmp_path):
    Ledger(tmp_path / "ledger").append(STEP)
    assert Ledger.load(tmp_path / "ledger").path == tmp_path / "ledger"
    assert Ledger.read(tmp_path / "ledger").path is None


def test_the_digests_of_a_file_are_those_of_its_first_lines(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    for _ in range(3):
        ledger.append(STEP)
    header, *lines = map(json.loads, (tmp_path / "ledger").read_text().splitlines())
    assert [ledger.head(count) for count in (1, 2, 3)] == [line["chain"] for line in lines]
    assert ledger.head(3) == header["head"]
    assert ledger.head(4) is None
    assert Ledger().head(0) is None


# --- what is left of a total ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spent", [(), (Entry("a", 1.0, 1.0),)], ids=["nothing", "something"])
def test_what_is_left_of_a_huge_total_is_the_largest_release_that_can_be_made(spent):
    """Once the whole total was said to be left, whatever had been spent."""
    ledger = Ledger()
    for entry in spent:
        ledger.append(entry)
    largest = epsilon_of([Mechanism(MULTIPLIERS.low)], DELTA)
    assert ledger.remaining(1e5, DELTA) == largest < 1e5


def test_a_total_that_the_largest_release_just_reaches_is_left_whole():
    largest = epsilon_of([Mechanism(MULTIPLIERS.low)], DELTA)
    assert Ledger().remaining(largest, DELTA) == largest


@pytest.mark.parametrize("total", [0.0, -1.0, 1.5e6, float("inf"), float("nan")])
def test_what_is_no_total_is_refused(total):
    with pytest.raises(ArgumentError, match="give the total"):
        Ledger().remaining(total, DELTA)


# --- numbers that are none, in a file without a chain -----------------------------------------------------------------


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1e999", "NaN", "-1.0", "true", "null"])
def test_a_multiplier_that_is_none_is_refused_with_its_line(tmp_path, value):
    old = '{"label": "a", "noise_multiplier": %s, "sample_rate": 0.5, "seeded": false, "scales": {}}'
    (tmp_path / "ledger").write_text('{"format": "dpmac-ledger-1"}\n' + old % "1.0" + "\n" + old % value + "\n")
    with pytest.raises(ValueError, match=r"ledger, line 3: "):
        Ledger.load(tmp_path / "ledger")


@pytest.mark.parametrize("value", ["1e999", "NaN", "Infinity", "-Infinity"])
def test_a_scale_that_is_none_is_not_taken_for_one_without_a_bound(tmp_path, value):
    old = '{"label": "a", "noise_multiplier": 1.0, "sample_rate": 0.5, "seeded": false, "scales": {"w": %s}}'
    (tmp_path / "ledger").write_text('{"format": "dpmac-ledger-1"}\n' + old % value + "\n")
    with pytest.raises(ValueError, match=r"ledger, line 2: .* is not a finite number"):
        Ledger.load(tmp_path / "ledger")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_line_with_such_a_number_is_not_written(tmp_path, value):
    file = LedgerFile.begin(tmp_path / "ledger", "", "2026-01-31")
    file.append(to_dict(STEP))
    before = (tmp_path / "ledger").read_bytes()
    with pytest.raises(ValueError, match="JSON"):
        file.append({**to_dict(STEP), "noise_multiplier": value})
    assert (tmp_path / "ledger").read_bytes() == before
    file.append(to_dict(STEP))
    assert len(Ledger.load(tmp_path / "ledger")) == 2


def test_a_plain_list_of_releases_keeps_what_it_is_given():
    releases = Releases()
    releases.append(STEP)
    assert releases.entries == (STEP,)
    assert releases.epsilon(DELTA) == epsilon_of([STEP.mechanism()], DELTA)


def test_releases_by_themselves_are_of_one_unit():
    """What the ledger of users builds on: see also its own check, which knows the account."""
    releases = Releases()
    releases.check_unit("person")
    releases.append(STEP)
    releases.check_unit("row")
    with pytest.raises(ArgumentError, match="whose unit of privacy is a row, not a person"):
        releases.append(Entry("step", 2.0, 0.5, unit="person"))
    assert releases.entries == (STEP,)
