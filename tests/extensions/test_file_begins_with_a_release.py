"""A ledger's file is made by its first release, so nobody has a reason to remove one, and no payment is in the way."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import threading

import pytest

from dpmac.checks import ArgumentError
from dpmac.extensions import ledger_file as chain
from dpmac.extensions import rollback_guard as witness
from dpmac.privacy import Ledger
from dpmac.privacy.entry import Entry

STEP = Entry("training step", 1.0, 0.5)
OLD = {"label": "training step", "noise_multiplier": 2.0, "sample_rate": 0.5, "seeded": False, "scales": {"w": 1.0}}


def old_file(path):
    """A ledger of version 0.1: no chain, no count."""
    path.write_text(json.dumps({"format": "dpmac-ledger-1"}) + "\n" + 2 * (json.dumps(OLD) + "\n"))
    return path


def test_a_ledger_that_nothing_was_released_into_leaves_no_file(tmp_path):
    path = tmp_path / "ledger"
    for begin in (Ledger, Ledger.at):
        ledger = begin(path)
        assert not ledger.begun
        assert list(tmp_path.iterdir()) == []
    ledger.append(STEP)
    assert ledger.begun
    assert Ledger.read(path).entries == ledger.entries


def test_of_two_that_begin_the_same_file_the_second_is_refused_and_the_firsts_payment_stays(tmp_path):
    path = tmp_path / "ledger"
    first, second = Ledger.at(path, "hospital"), Ledger.at(path, "hospital")
    first.append(STEP)
    with pytest.raises(RuntimeError, match="one writer"):
        second.append(STEP)
    assert len(second) == 0
    assert len(Ledger.read(path)) == 1


def test_an_empty_file_is_begun_in_place(tmp_path):
    """It may be another process', which has made it and not yet written: unlinked, that one's payment would be lost."""
    path = tmp_path / "ledger"
    path.touch()
    before = path.stat().st_ino
    with path.open("r+b") as other:
        ledger = Ledger.at(path)
        assert path.stat().st_ino == before
        ledger.append(STEP)
        assert other.read() == path.read_bytes()
    assert len(Ledger.load(path)) == 1


def test_a_first_line_that_fails_leaves_nothing_that_counts(tmp_path, monkeypatch):
    path = tmp_path / "ledger"
    ledger = Ledger(path)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(chain.os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            ledger.append(STEP)
    assert path.read_bytes() == b""
    ledger.append(STEP)
    assert len(Ledger.read(path)) == 1


def test_a_file_begun_where_a_ledger_has_gone_meanwhile_is_refused(tmp_path):
    path = tmp_path / "ledger"
    waiting = Ledger(path)
    Ledger(path).append(STEP)
    path.unlink()
    with pytest.raises(ArgumentError, match="a ledger of 1 releases was here"):
        waiting.append(STEP)
    assert not path.exists()


@pytest.mark.parametrize("where", ["file", "folder"])
def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch, where):
    path = tmp_path / "ledger"
    if where == "file":
        path.touch()
    monkeypatch.setattr(chain.os, "access", lambda asked, _: asked != (path if where == "file" else tmp_path))
    with pytest.raises(PermissionError, match="Permission denied"):
        Ledger(path)


# --- renewing a file of an older version ------------------------------------------------------------------------------


def _appends(path, begin, said):
    begin.wait(30.0)
    try:
        Ledger.load(path).append(STEP)
        said.put("recorded")
    except RuntimeError:
        said.put("refused")


@pytest.mark.skipif(os.name != "posix", reason="locks of files are POSIX's here")
def test_a_file_is_not_renewed_while_another_process_writes_to_it(tmp_path):
    """Real processes. What somebody writes into the old file once a new one is in its place, nobody reads."""
    import fcntl

    path, processes = old_file(tmp_path / "ledger"), multiprocessing.get_context("fork")
    begin, said = processes.Event(), processes.Queue()
    renewing = processes.Process(target=_appends, args=(path, begin, said))
    renewing.start()  # before the lock is taken: a fork would inherit it
    with path.open("r+b") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        begin.set()
        renewing.join(0.5)
        assert renewing.is_alive()
        assert json.loads(path.read_text().splitlines()[0]) == {"format": "dpmac-ledger-1"}
    renewing.join(30.0)
    assert said.get(timeout=5) == "recorded"
    assert len(Ledger.read(path)) == 3
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".part")] == []


def test_a_file_that_was_replaced_while_its_lock_was_waited_for_is_not_written_to(tmp_path, monkeypatch):
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    ledger.append(STEP)
    text, really = path.read_bytes(), chain._locked

    def replaced(handle):
        (tmp_path / "other").write_bytes(text)
        (tmp_path / "other").replace(path)
        return really(handle)

    monkeypatch.setattr(chain, "_locked", replaced)
    with pytest.raises(RuntimeError, match="one writer"):
        ledger.append(STEP)
    assert path.read_bytes() == text


# --- days -------------------------------------------------------------------------------------------------------------


def test_a_ledger_has_no_time_finer_than_a_day(tmp_path):
    """How long reading the rows took can depend on one person's: it would stand between two dates."""
    path = tmp_path / "ledger"
    Ledger(path).append(STEP)
    header, line = map(json.loads, path.read_text().splitlines())
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", header["created"])
    assert line["date"] == header["created"]


def test_a_copy_of_an_older_ledger_has_days_too_and_is_the_same_ledger(tmp_path):
    ledger = Ledger(tmp_path / "old")
    ledger.append(STEP)
    ledger._entries = [Entry(**{**vars(ledger.entries[0]), "date": "2026-03-01T10:11:12+00:00"})]
    ledger.save(tmp_path / "copy")
    copy = Ledger.read(tmp_path / "copy")
    assert copy.entries == ledger.entries
    assert [entry.date for entry in copy.entries] == ["2026-03-01"]


# --- threads ----------------------------------------------------------------------------------------------------------


def test_what_a_thread_notes_is_of_its_own_releases(tmp_path):
    ledger, turn = Ledger(), threading.Barrier(2)

    def worked(word):
        with ledger.noting(purpose=word, run=word):
            turn.wait(10)
            ledger.append(STEP)
            turn.wait(10)
        turn.wait(10)
        ledger.append(STEP)

    with ledger.noting(model="both"):
        threads = [threading.Thread(target=worked, args=(word,)) for word in ("one", "other")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert {(e.purpose, e.run) for e in ledger.entries[:2]} == {("one", "one"), ("other", "other")}
    assert [(e.purpose, e.run) for e in ledger.entries[2:]] == [("", ledger.run)] * 2
    assert {entry.model for entry in ledger.entries} == {"both"}


def test_nobody_else_records_while_one_is_alone_with_a_ledger():
    ledger, recorded = Ledger(), threading.Event()

    def other():
        ledger.append(STEP)
        recorded.set()

    thread = threading.Thread(target=other)
    with ledger.exclusive():
        thread.start()
        assert not recorded.wait(0.2)
        ledger.append(STEP)  # whoever is alone may
        assert len(ledger) == 1
    thread.join(10)
    assert len(ledger) == 2


def test_the_witness_is_not_ahead_of_a_ledger_that_is_begun(tmp_path):
    path = tmp_path / "ledger"
    Ledger(path)
    assert not witness.guard_file_of(path).exists()


def test_a_file_of_version_0_1_is_not_renewed_under_one_of_two_names(tmp_path):
    """The other name would keep the old file, and go on as a second ledger."""
    path, other = old_file(tmp_path / "ledger"), tmp_path / "other"
    other.hardlink_to(path)
    before = path.read_bytes()
    for name in (path, other):
        with pytest.raises(ArgumentError, match=r"second name \(a hard link\)"):
            Ledger.load(name).append(STEP)
    assert path.samefile(other)
    assert path.read_bytes() == before
    other.unlink()
    Ledger.load(path).append(STEP)
    assert len(Ledger.load(path)) == 3
