"""An old copy of a ledger that is put back is noticed; a witness is never ahead, and never stops a release."""

from __future__ import annotations

import shutil

import pytest

from dpmac.checks import ArgumentError
from dpmac.extensions.rollback_guard import guard_file_of
from dpmac.privacy import Entry, Ledger

ONE = Entry("mean", 2.0, 1.0)


@pytest.fixture
def path(tmp_path):
    ledger = Ledger(tmp_path / "hospital.ledger", "patients")
    for _ in range(2):
        ledger.append(ONE)
    return tmp_path / "hospital.ledger"


def test_an_older_copy_is_refused_and_the_error_says_what_to_do(path, tmp_path):
    shutil.copy(path, tmp_path / "backup")
    ledger = Ledger.load(path)
    ledger.append(ONE)
    shutil.copy(tmp_path / "backup", path)
    for opened in (Ledger.load, Ledger.read, Ledger.at):
        with pytest.raises(
            ValueError, match=r"older copy: .*hospital.ledger.seen saw 3 releases, and it has 2: put .* delete"
        ):
            opened(path)
    guard_file_of(path).unlink()  # on purpose
    assert len(Ledger.load(path)) == 2


def test_a_ledger_that_is_gone_is_not_begun_anew(path):
    path.unlink()
    with pytest.raises(ArgumentError, match=r"a ledger of 2 releases was here, .* and is gone"):
        Ledger.at(path)
    assert not path.exists()


def test_another_ledger_in_its_place_or_another_history(path, tmp_path):
    shutil.copy(path, tmp_path / "backup")
    other = Ledger(tmp_path / "other", "other patients")
    for _ in range(5):
        other.append(ONE)
    shutil.copy(tmp_path / "other", path)
    with pytest.raises(ValueError, match="another ledger than the one"):
        Ledger.load(path)
    shutil.copy(tmp_path / "backup", path)
    shutil.copy(path, tmp_path / "aside")
    aside = Ledger.load(tmp_path / "aside")
    Ledger.load(path).append(Entry("mean", 3.0, 1.0))
    for _ in range(3):
        aside.append(ONE)
    shutil.copy(tmp_path / "aside", path)
    with pytest.raises(ValueError, match="has other releases than"):
        Ledger.load(path)


def test_a_witness_that_lags_is_damaged_or_cannot_be_written_stops_nothing(path, tmp_path):
    shutil.copy(guard_file_of(path), tmp_path / "lagging")
    Ledger.load(path).append(ONE)
    shutil.copy(tmp_path / "lagging", guard_file_of(path))  # as after a crash between the two
    assert len(Ledger.load(path)) == 3
    for damaged in (b"", b"{", b"[]", b'{"entries": "many"}', b"\xff"):
        guard_file_of(path).write_bytes(damaged)
        assert len(Ledger.load(path)) == 3
    guard_file_of(path).unlink()
    guard_file_of(path).mkdir()
    ledger = Ledger.load(path)
    ledger.append(ONE)
    assert len(Ledger.load(path)) == 4


def test_it_is_told_after_the_ledger_and_by_no_release_that_failed(path, monkeypatch):
    from dpmac.extensions import ledger_file as chain
    from dpmac.extensions import rollback_guard as witness

    told = []
    monkeypatch.setattr(witness, "note", lambda place, heads: told.append((len(heads) - 1, place.read_bytes())))
    ledger = Ledger.load(path)
    ledger.append(ONE)
    ((count, there),) = told
    assert count == 3
    assert there.count(b"\n") == 4  # the line was on the disk by then

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(chain, "_write_all", full)
    with pytest.raises(OSError, match="no space"):
        ledger.append(ONE)
    assert len(told) == 1


def test_copies_to_look_at_and_links_have_none_of_their_own(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    Ledger.load(tmp_path / "link").append(ONE)
    Ledger.load(path).save(tmp_path / "copy")
    seen = {p.name for p in tmp_path.iterdir() if p.name.endswith(".seen")}
    assert seen == {"hospital.ledger.seen"}
    assert len(Ledger.load(path)) == 3


def test_what_a_killed_process_left_of_a_guard_is_removed_with_the_next_one(path):
    from dpmac.files import part_of

    guard_file_of(path).unlink()
    part_of(guard_file_of(path)).write_bytes(b"{")
    Ledger.load(path).append(ONE)
    assert sorted(found.name for found in path.parent.iterdir()) == ["hospital.ledger", "hospital.ledger.seen"]


def test_what_another_process_has_removed_by_then_does_not_keep_a_guard_from_being_written(path, monkeypatch):
    from dpmac.extensions import rollback_guard

    guard_file_of(path).unlink()
    monkeypatch.setattr(rollback_guard, "parts_of", lambda place: [place.with_name("gone")])
    Ledger.load(path).append(ONE)
    assert guard_file_of(path).exists()
