"""A ledger that was opened with a total holds no more than that: whoever releases, and whatever is done to its file."""

from __future__ import annotations

import errno
import json
import re
from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from dpmac import ArgumentError
from dpmac.extensions import rollback_guard
from dpmac.extensions.accounts import Account, Allowance
from dpmac.extensions.ledger_header import account_at
from dpmac.methods import DPMean
from dpmac.privacy import Entry, Ledger, Mechanism, PrivateRows
from dpmac.privacy.accounting import epsilon_of
from dpmac.randomness import SeededNoise

ONE = Entry("mean", 4.0, 1.0)
STEP = Entry("training step", 1.0, 0.4)
NUMBERED = {"plain": "dpmac-ledger-2", "account": "dpmac-ledger-3", "splits": "dpmac-ledger-4"}


def opened(path=None, total=2.0, delta=1e-6, **more):
    return Ledger.init(path, total_epsilon=total, delta=delta, **more)


def filled(ledger, entry, most=1000):
    """As many releases as fit."""
    for made in range(most):
        try:
            ledger.append(entry)
        except ArgumentError:
            return made
    raise AssertionError("it never ends")


@pytest.mark.parametrize(("entry", "total"), [(ONE, 3.0), (STEP, 8.0)])
def test_no_release_exceeds_the_total_whoever_makes_it(entry, total, tmp_path):
    """As many as fit, and not one more: the oracle composes them one by one, without an allowance."""
    ledger = opened(tmp_path / "book", total=total)
    made = filled(ledger, entry)
    assert made > 1
    whole = [epsilon_of([entry.mechanism()] * count, 1e-6) for count in (made, made + 1)]
    assert whole[0] <= total < whole[1]
    assert len(Ledger.read(tmp_path / "book")) == made
    with pytest.raises(
        ArgumentError, match=rf"total_epsilon={total}: the ledger holds [\d.]+ already, and with this it"
    ):
        Ledger.load(tmp_path / "book").append(entry)


def test_a_release_itself_is_refused_before_any_noise_is_drawn():
    rows, ledger = PrivateRows(torch.zeros(50, 3)), opened(total=1.0)
    source = SeededNoise(0)
    before = source.state()
    with pytest.raises(ArgumentError, match="total_epsilon="):
        DPMean(0.5).fit(rows, source, ledger)
    assert (len(ledger), str(source.state())) == (0, str(before))


def test_releases_of_several_kinds_add_up():
    ledger = opened(total=6.0)
    turn = 0
    while turn < 500:
        try:
            ledger.append((ONE, STEP)[turn % 2])
        except ArgumentError:
            break
        turn += 1
    assert 2 < turn < 500
    assert ledger.epsilon(1e-6) <= 6.0
    refused = [entry for entry in (ONE, STEP) if epsilon_of([*ledger.mechanisms(), entry.mechanism()], 1e-6) > 6.0]
    assert (ONE, STEP)[turn % 2] in refused


def test_what_a_plan_was_allowed_is_used_up():
    steps = Mechanism(1.5, 0.05, 20)
    allowance = Allowance(Account(epsilon_of([steps], 1e-6), 1e-6))
    allowance.plan([], [steps])
    one, made = Mechanism(1.5, 0.05), []
    for _ in range(20):
        allowance.admit(made, one)
        made.append(one)
    with pytest.raises(ArgumentError, match="total_epsilon"):
        allowance.admit(made, one)
    with pytest.raises(ArgumentError, match="total_epsilon"):
        allowance.plan(made, [one])


def test_a_plan_is_compared_with_all_that_others_have_released():
    ledger = opened(total=4.0)
    with ledger.noting(run="first"):
        for _ in range(5):
            ledger.append(ONE)
    rest = [Mechanism(4.0, 1.0, filled(opened(total=4.0), ONE) - 5)]
    ledger.check_plan(rest)
    one_more = [Mechanism(4.0, 1.0, rest[0].count + 1)]
    with pytest.raises(ArgumentError, match="total_epsilon"):
        ledger.check_plan(one_more)
    ledger.check_plan([Mechanism(4.0, 1.0, rest[0].count + 5)], run="first")  # resumed: its own five are of its plan
    assert len(ledger) == 5


def test_a_resumed_plan_is_allowed_only_what_is_left_of_it():
    """What it had released before is spent: allowed once more, as many releases would exceed the total unnoticed."""
    most = filled(opened(total=4.0), ONE)
    ledger = opened(total=4.0)
    with ledger.noting(run="first"):
        for _ in range(5):
            ledger.append(ONE)
        ledger.append(Entry("calibration", 8.0, 1.0))  # after the plan's own
    with pytest.raises(ArgumentError, match="total_epsilon"):
        ledger.check_plan([Mechanism(4.0, 1.0, most)], run="first")
    while True:
        try:
            ledger.check_plan([Mechanism(4.0, 1.0, most)], run="first")
            break
        except ArgumentError:
            most -= 1
    assert most > 5
    assert filled(ledger, ONE) == most - 5
    assert ledger.epsilon(1e-6) <= 4.0


def test_a_release_without_noise_never_fits():
    with pytest.raises(ArgumentError, match="it would hold inf"):
        opened(total=1e6).append(Entry("mean", 0.0, 1.0))


def test_what_fits_is_composed_ever_more_at_once_and_a_plan_once(monkeypatch):
    """An account must not make a release slower with every release before it."""
    asked, over = [], Account.over

    def counted(account, spent, own):
        asked.append(sum(one.count for one in own))
        return over(account, spent, own)

    monkeypatch.setattr(Account, "over", counted)
    account, one = Account(50.0, 1e-6), Mechanism(20.0)
    allowance = Allowance(account)
    for made in range(127):
        allowance.admit([replace(one, count=made)] if made else [], one)
    assert asked == [1, 2, 4, 8, 16, 32, 64]
    asked.clear()
    allowance = Allowance(account)
    allowance.plan([], [Mechanism(20.0, count=9)])
    for made in range(9):
        allowance.admit([replace(one, count=made)] if made else [], one)
    assert asked == [9]


def test_only_the_resumed_runs_own_releases_are_of_its_plan():
    """Those of other runs, and of lines that name none, are spent and not made."""
    most = filled(opened(total=4.0), ONE)
    ledger = opened(total=4.0)
    ledger._entries = [ONE] * 2  # as a file of version 0.1 has them: of no run
    with ledger.noting(run="other"):
        ledger.append(ONE)
    with ledger.noting(run="mine"):
        ledger.append(ONE)
    for run, own in (("", 0), ("mine", 1), ("other", 1)):
        ledger.check_plan([Mechanism(4.0, 1.0, most - 4 + own)], run=run)
        with pytest.raises(ArgumentError, match="total_epsilon"):
            ledger.check_plan([Mechanism(4.0, 1.0, most - 3 + own)], run=run)


# --- the file ---------------------------------------------------------------------------------------------------------


def test_the_total_is_in_the_file_from_the_first_moment_and_comes_back(tmp_path):
    path = tmp_path / "visits.ledger"
    ledger = opened(path, total=4, unit="person", data_set="visits 2024")
    account = Account(4.0, 1e-6, "person")
    assert ledger.account == account == account_at(path) == Ledger.load(path).account == Ledger.at(path).account
    assert (Ledger.read(path).data_set, Ledger.read(path).unit, len(Ledger.read(path))) == ("visits 2024", "person", 0)
    ledger.append(Entry("mean", 4.0, 1.0, unit="person by patient"))
    for view in (Ledger.load(path), ledger.until(1), ledger.of_others("x"), Ledger.of([], "", "", account)):
        assert view.account == account
    ledger.save(tmp_path / "copy")
    assert Ledger.read(tmp_path / "copy").account == account
    assert account_at(tmp_path / "none") is None
    Ledger(tmp_path / "plain").append(ONE)
    assert account_at(tmp_path / "plain") is None


@pytest.mark.parametrize("releases", [0, 2])
@pytest.mark.parametrize("edit", ["raised", "another delta", "another unit", "taken out"])
def test_an_edit_of_the_total_is_noticed(tmp_path, edit, releases):
    path = tmp_path / "book"
    ledger = opened(path, total=4.0)
    for _ in range(releases):
        ledger.append(ONE)
    (tmp_path / "book.seen").unlink()  # by the chain alone
    lines = path.read_text().splitlines()
    first = json.loads(lines[0])
    if edit == "taken out":
        first = {name: first[name] for name in ("format", "data_set", "created", "entries", "head")}
        first["format"] = "dpmac-ledger-2"
    else:
        first |= {
            "raised": {"total_epsilon": 9.0},
            "another delta": {"delta": 0.01},
            "another unit": {"unit": "person"},
        }[edit]
    path.write_text("\n".join([json.dumps(first), *lines[1:], ""]))
    with pytest.raises(ValueError, match=r"edited|chain is broken"):
        Ledger.load(path)


def test_a_header_with_an_account_fits_into_a_sector(tmp_path):
    """512 bytes are written at once: the header's count must never be torn."""
    path = tmp_path / "book"
    opened(path, total=123456.78901234567, delta=1.2345678901234567e-12, unit="person", data_set="x" * 198)
    first = path.read_bytes().partition(b"\n")[0]
    assert len(first) < 512
    ledger = Ledger.load(path)
    ledger.append(Entry("mean", 4.0, 1.0, unit="person"))
    assert len(path.read_bytes().partition(b"\n")[0]) == len(first)


def test_a_total_that_was_opened_stays(tmp_path):
    path = tmp_path / "book"
    opened(path, total=4.0)
    for other in (9.0, 4.0, 1.0):
        with pytest.raises(
            ArgumentError,
            match=r"it was opened with a total of epsilon 4 at delta 1e-06",
        ):
            opened(path, total=other)
    assert Ledger.load(path).account.total_epsilon == 4.0


def test_a_ledger_that_has_none_gets_an_account_and_what_it_holds_counts(tmp_path):
    path = tmp_path / "book"
    plain = Ledger(path, "visits")
    with plain.noting(model="first", purpose="a trial"):
        for _ in range(3):
            plain.append(ONE)
    spent = plain.epsilon(1e-6)
    with pytest.raises(ArgumentError, match="total_epsilon="):
        opened(path, total=spent - 0.01)
    with pytest.raises(ArgumentError, match="unit='person': the ledger holds releases whose unit of privacy is a row"):
        opened(path, total=spent + 1, unit="person")
    assert Ledger.load(path).account is None
    ledger = opened(path, total=spent + 0.1)
    assert ledger.entries == Ledger.load(path).entries == plain.entries
    assert [entry.model for entry in Ledger.load(path).entries] == ["first"] * 3
    with pytest.raises(RuntimeError, match="changed by someone else"):
        plain.append(Entry("mean", 1e6, 1.0))  # held to no total
    for entry in (ONE, Entry("mean", 1e6, 1.0)):
        if entry is ONE:
            with pytest.raises(ArgumentError, match="total_epsilon="):
                ledger.append(entry)
        else:
            ledger.append(entry)
    assert len(Ledger.load(path)) == 4


def test_an_account_is_not_opened_under_one_of_two_names(tmp_path):
    """The other name would keep the old file: a second ledger of the same rows, held to no total."""
    path, other = tmp_path / "book", tmp_path / "other"
    Ledger(path).append(ONE)
    other.hardlink_to(path)
    for name in (path, other):
        with pytest.raises(ArgumentError, match=r"second name \(a hard link\)"):
            opened(name, total=4.0)
    assert path.samefile(other)
    assert (tmp_path / "book.seen").exists()
    other.unlink()
    assert opened(path, total=4.0).account == Ledger.load(path).account


def test_an_account_that_is_refused_leaves_the_rollback_guard_alone(tmp_path, monkeypatch):
    """For as long as it were away, an old copy could be put back."""
    path = tmp_path / "book"
    Ledger(path).append(ONE)
    (tmp_path / "other").hardlink_to(path)
    noted = []
    monkeypatch.setattr(rollback_guard, "note", lambda *given: noted.append(given))
    with pytest.raises(ArgumentError, match="second name"):
        opened(path, total=4.0)
    assert noted == []
    assert (tmp_path / "book.seen").exists()


def test_a_kill_between_an_account_and_the_guards_note_loses_neither(tmp_path, monkeypatch):
    path = tmp_path / "book"
    Ledger(path).append(ONE)
    monkeypatch.setattr(rollback_guard, "note", lambda *_: None)  # as if killed just before
    account = opened(path, total=4.0).account
    found = Ledger.load(path)
    assert (found.account, len(found)) == (account, 1)


def test_files_say_by_their_format_what_older_versions_would_overlook(tmp_path):
    Ledger(tmp_path / "plain").append(ONE)
    opened(tmp_path / "account")
    Ledger(tmp_path / "splits").divide({"train": 0.7, "test": 0.3})
    formats = {name: json.loads((tmp_path / name).read_text().splitlines()[0])["format"] for name in NUMBERED}
    assert formats == NUMBERED


@pytest.mark.parametrize("begun", [True, False])
def test_an_account_that_cannot_be_written_changes_nothing(tmp_path, monkeypatch, begun):
    path = tmp_path / "book"
    ledger = Ledger(path)
    if begun:
        ledger.append(ONE)
    there = sorted((found.name, found.read_bytes()) for found in tmp_path.iterdir())

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr("dpmac.extensions.ledger_file._write_all", full)
        with pytest.raises(OSError, match="no space"):
            opened(ledger, total=4.0)
    if begun:
        assert sorted((found.name, found.read_bytes()) for found in tmp_path.iterdir()) == there
    assert ledger.account is None
    ledger.append(ONE)
    assert len(Ledger.load(path)) == 1 + begun


# --- units and arguments ----------------------------------------------------------------------------------------------


def test_an_account_of_persons_takes_persons_alone_and_says_what_to_do():
    ledger = opened(unit="person")
    with pytest.raises(
        ArgumentError, match=r"opened for releases whose unit of privacy is a person, not a row: .*groups"
    ):
        ledger.append(ONE)
    rows = opened(unit="row")
    with pytest.raises(ArgumentError, match="opened for releases whose unit of privacy is a row, not a person"):
        rows.append(Entry("mean", 4.0, 1.0, unit="person"))
    assert (len(ledger), len(rows)) == (0, 0)


@pytest.mark.parametrize("first", ["row", "person", "person by patient"])
@pytest.mark.parametrize("second", ["row", "person", "person by patient"])
def test_no_advice_about_units_sends_anybody_to_another_ledger(first, second):
    """Another ledger would forget what these people have given."""
    ledger = Ledger()
    ledger.append(Entry("mean", 4.0, 1.0, unit=first))
    if first == second:
        ledger.check_unit(second)
        return
    with pytest.raises(ArgumentError) as error:
        ledger.check_unit(second)
    text = str(error.value)
    assert f"is a {first}, not a {second}: " in text
    assert not re.search(r"another ledger|new ledger|second ledger", text)
    if second == "row":
        assert "--groups" in text
        assert ("'patient'" in text) == (first == "person by patient")


@pytest.mark.parametrize(
    "bad",
    [
        *({"total_epsilon": value} for value in (0, -1.0, float("inf"), float("nan"), "4", True)),
        *({"delta": value} for value in (0, 0.5, 1e-13, "x")),
        {"unit": "patient"},
    ],
)
def test_a_bad_account_is_refused_by_name_and_leaves_no_file(bad, tmp_path):
    with pytest.raises(ArgumentError, match=f"^{next(iter(bad))}="):
        Ledger.init(tmp_path / "book", **{"total_epsilon": 4.0, **bad})
    assert list(tmp_path.iterdir()) == []


def test_an_account_holds_plain_numbers_within_its_limits():
    account = Account(Fraction(3, 2), Fraction(1, 1000))
    assert (type(account.total_epsilon), type(account.delta)) == (float, float)
    assert Account(1e6, 0.1).to_dict() == {"total_epsilon": 1e6, "delta": 0.1, "unit": "row"}
    assert Account(1.0).delta == 1e-5
    for bad in ((1.000001e6, 1e-5), (1.0, 0.100001), (1.0, 9e-13)):
        with pytest.raises(ArgumentError, match=r"total_epsilon=|delta="):
            Account(*bad)


def test_what_is_left_is_asked_of_the_account():
    ledger = opened(total=2.0, delta=1e-6)
    ledger.append(ONE)
    assert ledger.remaining() == ledger.remaining(2.0, 1e-6) < 2.0
    assert ledger.remaining(1.8) == ledger.remaining(1.8, 1e-6)
    for half in ({}, {"epsilon": 2.0}, {"delta": 1e-6}):
        with pytest.raises(ArgumentError, match="no account: give a total"):
            Ledger().remaining(**half)
