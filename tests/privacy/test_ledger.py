"""The ledger on paper and on disk."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import shutil
import signal
import threading
from contextlib import suppress

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.privacy import (
    DensePart,
    Entry,
    Ledger,
    Mechanism,
    Partition,
    PrivateRows,
    Query,
    epsilon_of,
    release,
)
from dpmac.randomness import SystemNoise
from processes import forked

STEP = Entry("training step", 1.5, 0.1, False, {"layer 1": 0.7, "layer 2": 0.9})
PCA = Entry("DP-PCA", 8.0, 1.0)


def filled(path=None):
    ledger = Ledger(path)
    for entry in (PCA, STEP, STEP, STEP):
        ledger.append(entry)
    return ledger


def test_it_is_composed_by_the_one_accountant():
    ledger = filled()
    mechanisms = [Mechanism(8.0, 1.0, 1, "DP-PCA"), Mechanism(1.5, 0.1, 3, "training step")]
    assert list(ledger.mechanisms()) == mechanisms
    for accountant in ("pld", "rdp"):
        assert ledger.epsilon(1e-5, accountant) == epsilon_of(mechanisms, 1e-5, accountant)


def test_it_is_append_only():
    ledger = filled()
    assert isinstance(ledger.entries, tuple)
    with pytest.raises(AttributeError):
        ledger.entries = ()
    with pytest.raises(AttributeError):
        ledger.entries[0].noise_multiplier = 100.0
    costs = []
    growing = Ledger()
    for _ in range(4):
        growing.append(STEP)
        costs.append(growing.epsilon(1e-5, "rdp"))
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def test_file_and_memory_agree_and_a_loaded_ledger_goes_on(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = filled(path)
    assert Ledger.load(path).entries == ledger.entries
    again = Ledger.load(path)
    again.append(PCA)
    assert Ledger.load(path).entries == (*ledger.entries, PCA)
    filled().save(tmp_path / "copy.jsonl")
    assert Ledger.load(tmp_path / "copy.jsonl").entries == ledger.entries
    for line in path.read_text().splitlines():
        json.loads(line)


def test_the_ledger_that_is_meant_is_taken_gone_on_with_or_begun(tmp_path):
    given, path = filled(), tmp_path / "ledger.jsonl"
    assert Ledger.at(given) is given
    assert len(Ledger.at(None)) == 0
    assert Ledger.at(None) is not Ledger.at(None)
    Ledger.at(path).append(PCA)
    Ledger.at(str(path)).append(STEP)
    assert Ledger.at(path).entries == Ledger.load(path).entries == (PCA, STEP)
    (tmp_path / "notes.txt").write_text("milk, eggs\n")
    with pytest.raises(ValueError, match=r"notes\.txt"):
        Ledger.at(tmp_path / "notes.txt")


def test_a_deep_copy_of_whoever_holds_a_ledger_goes_on_with_it(tmp_path):
    for ledger in (filled(), filled(tmp_path / "ledger.jsonl")):
        holder = copy.deepcopy({"ledger": ledger, "again": [ledger]})
        assert holder["ledger"] is holder["again"][0] is ledger
        holder["ledger"].append(PCA)
        assert ledger.entries[-1] == PCA
        ledger.append(STEP)  # one writer still
    assert len(Ledger.load(tmp_path / "ledger.jsonl")) == 6


def test_an_old_file_is_never_overwritten(tmp_path):
    filled(tmp_path / "ledger.jsonl")
    with pytest.raises(ArgumentError, match=r"use Ledger\.load"):
        Ledger(tmp_path / "ledger.jsonl")


def test_a_line_cut_short_by_a_crash_is_dropped_and_the_file_mended(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = filled(path)
    with path.open("a") as handle:
        handle.write('{"label": "training st')
    mended = Ledger.load(path)
    assert mended.entries == ledger.entries
    mended.append(STEP)
    assert Ledger.load(path).entries == (*ledger.entries, STEP)


def test_a_missing_last_newline_loses_no_payment(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = filled(path)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    again = Ledger.load(path)
    assert again.entries == ledger.entries
    again.append(PCA)
    assert Ledger.load(path).entries == (*ledger.entries, PCA)


def test_windows_line_ends_lose_no_payment(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = filled(path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n") + b'{"label": "tor')
    assert Ledger.load(path).entries == ledger.entries
    assert Ledger.load(path).entries == ledger.entries


def test_a_ledger_has_one_writer(tmp_path):
    path = tmp_path / "ledger.jsonl"
    first = filled(path)
    second = Ledger.load(path)
    second.append(STEP)
    with pytest.raises(RuntimeError, match="one writer"):
        first.append(STEP)
    assert len(Ledger.load(path)) == len(first) + 1


def test_a_full_disk_leaves_the_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "ledger.jsonl"
    ledger = filled(path)

    def full(_handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            ledger.append(STEP)
    assert Ledger.load(path).entries == ledger.entries
    ledger.append(STEP)
    assert len(Ledger.load(path)) == 5


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[1:],
        lambda lines: [lines[0], "garbage", *lines[2:]],
        lambda lines: [lines[0], "[]", *lines[2:]],
        lambda lines: [lines[0], lines[1].replace('"seeded"', '"sown"'), *lines[2:]],
        lambda lines: [lines[0], lines[1].replace("8.0", "-8.0"), *lines[2:]],
        lambda lines: [lines[0], lines[1].replace("8.0", "true"), *lines[2:]],
        lambda lines: [lines[0], lines[1].replace("8.0", '"8.0"'), *lines[2:]],
        lambda lines: [lines[0], lines[1].replace("8.0", "NaN"), *lines[2:]],
        lambda lines: [lines[0], "", *lines[2:]],
        lambda lines: [],
    ],
)
def test_any_other_damage_is_an_error(tmp_path, damage):
    path = tmp_path / "ledger.jsonl"
    filled(path)
    path.write_text("".join(line + "\n" for line in damage(path.read_text().splitlines())))
    with pytest.raises(ValueError, match=r"ledger\.jsonl"):
        Ledger.load(path)


def test_impossible_entries_are_refused():
    ledger = Ledger()
    for bad in (Entry("x", -1.0, 0.5), Entry("x", 1.0, 1.5), Entry("x", math.nan, 0.5)):
        with pytest.raises(ArgumentError):
            ledger.append(bad)
    assert len(ledger) == 0


def releases_for_ever(connection, path):
    ledger, rows = Ledger(path), PrivateRows(torch.zeros(8, 1))
    query = Query("step", [Partition("a", (1,), 1.0)], lambda x: [DensePart(x.double())])
    while True:
        release(rows.everything(), query, noise_multiplier=3.0, source=SystemNoise(), ledger=ledger)
        connection.send_bytes(b".")


def test_a_real_kill_loses_no_payment(tmp_path):
    """SIGKILL a releasing process at a random moment: every release that it saw is in the file."""
    path, seen = tmp_path / "ledger.jsonl", 0
    child, released = forked(releases_for_ever, path)
    with suppress(EOFError):
        while True:
            released.recv_bytes()
            seen += 1
            if seen == 20:
                os.kill(child.pid, signal.SIGKILL)
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert seen <= len(Ledger.load(path)) <= seen + 1


@pytest.mark.skipif(os.name != "posix", reason="file locks")
def test_a_second_writer_cannot_come_between_the_look_and_the_write(tmp_path):
    """Found in review: both saw the old size, and one payment was written over the other."""
    import fcntl

    def too_late(ledger):
        with pytest.raises(RuntimeError, match="changed by someone else"):
            ledger.append(Entry("second", 0.5, 1.0))

    path = tmp_path / "ledger.jsonl"
    Ledger(path).append(Entry("first", 5.0, 0.01))
    first, second = Ledger.load(path), Ledger.load(path)
    with path.open("r+b") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # as the first writer does, from its look to the end of its write
        late = threading.Thread(target=too_late, args=(second,))
        late.start()
        late.join(0.3)
        assert late.is_alive()  # it waits
        assert len(Ledger.load(path)) == 1
        beside = tmp_path / "beside.jsonl"  # what the first writer would make of it
        shutil.copy(path, beside)
        Ledger.load(beside).append(Entry("first again", 5.0, 0.01))
        handle.write(beside.read_bytes())
        handle.flush()
    late.join(10)
    assert not late.is_alive()
    assert [entry.label for entry in Ledger.load(path).entries] == ["first", "first again"]
    with pytest.raises(RuntimeError, match="changed by someone else"):
        first.append(Entry("third", 5.0, 0.01))


def test_a_ledger_in_memory_that_was_pickled_can_be_read_and_not_continued(tmp_path):
    """Another process would record in a copy, and the account at home would stay as it was."""
    entry = Entry("step", 1.0, 0.5)
    ledger = Ledger()
    ledger.append(entry)
    copied = pickle.loads(pickle.dumps(ledger))
    assert copied.epsilon(1e-5) == ledger.epsilon(1e-5)
    with pytest.raises(RuntimeError, match="Give the path of a file as the ledger"):
        copied.append(entry)
    ledger.append(entry)  # the one at home goes on
    on_disk = Ledger(tmp_path / "ledger")
    pickle.loads(pickle.dumps(on_disk)).append(entry)
    assert len(Ledger.load(tmp_path / "ledger")) == 1


def test_a_shallow_copy_of_a_ledger_is_the_ledger(tmp_path):
    """Found in an attack: copies wrote to one file from several threads, each with a lock of its own, and broke it."""
    ledger = Ledger(tmp_path / "ledger")
    assert copy.copy(ledger) is ledger
