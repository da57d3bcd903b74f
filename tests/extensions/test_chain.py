"""The ledger's file: what is edited, cut, moved or old is noticed; what a crash leaves is mended; nothing is lost."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import threading
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpmac.checks import ArgumentError
from dpmac.extensions.entries import to_dict
from dpmac.extensions.rollback_guard import guard_file_of
from dpmac.privacy import Entry, Ledger, Mechanism, epsilon_of
from processes import together_run, values

STEP = Entry("training step", 1.5, 0.1, False, {"layer 1": 0.7}, 2.0**-30)


def filled(path, count=4):
    ledger = Ledger(path, data_set="hospital, Łódź")
    with ledger.noting(purpose="readmission", model="runs/first"):
        for number in range(count):
            ledger.append(Entry(f"release {number}", 1.0 + number, 0.5))
    return ledger


def test_entries_say_when_what_for_and_of_which_rows(tmp_path):
    ledger = filled(tmp_path / "ledger.jsonl")
    ledger.append(STEP)
    again = Ledger.load(tmp_path / "ledger.jsonl")
    assert again.data_set == "hospital, Łódź"
    assert [(e.purpose, e.model) for e in again.entries] == [("readmission", "runs/first")] * 4 + [("", "")]
    assert [e.date for e in again.entries] == [e.date for e in ledger.entries]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", e.date) for e in again.entries)
    assert all(a.date <= b.date for a, b in pairwise(again.entries))
    ledger.save(tmp_path / "copy.jsonl")
    assert Ledger.load(tmp_path / "copy.jsonl").data_set == ledger.data_set
    with pytest.raises(RuntimeError), again.noting(purpose="x"):
        raise RuntimeError
    again.append(STEP)
    assert again.entries[-1].purpose == ""


def test_a_ledger_of_other_rows_is_refused(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger.at(path, data_set="hospital")
    assert ledger.data_set == "hospital"
    ledger.append(STEP)
    assert Ledger.at(path).data_set == Ledger.at(path, data_set="hospital").data_set == "hospital"
    with pytest.raises(ArgumentError, match="data_set='customers'"):
        Ledger.at(path, data_set="customers")
    with pytest.raises(ArgumentError, match="data_set="):
        Ledger(tmp_path / "long.jsonl", data_set="x" * 500)
    assert not (tmp_path / "long.jsonl").exists()
    with pytest.raises(ArgumentError, match="data_set=3"):
        Ledger(data_set=3)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=120)
def test_no_byte_can_be_changed_unnoticed(tmp_path, data):
    path = tmp_path / "ledger.jsonl"
    path.unlink(missing_ok=True)
    guard_file_of(path).unlink(missing_ok=True)
    whole = filled(path)
    guard_file_of(path).unlink()  # the chain alone
    raw = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(raw) - 2))  # the last newline may be missing
    raw[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[place]))
    path.write_bytes(raw)
    said, found = "", whole
    try:
        found = Ledger.load(path)  # white space inside a line, or another spelling of the same numbers
    except ValueError as error:
        said = str(error)
    assert not said or "ledger.jsonl" in said
    assert [to_dict(e) for e in found.entries] == [to_dict(e) for e in whole.entries]


@pytest.mark.parametrize(
    "edit",
    [
        lambda lines: lines[:-1],  # cut at a line's end
        lambda lines: lines[:1],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: [*lines[:2], lines[1], *lines[2:]],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [lines[0].replace("000000000004", "000000000003"), *lines[1:-1]],  # and the head does not fit
        lambda lines: [lines[0].replace("000000000004", "000000000000"), *lines[1:]],
    ],
)
def test_lines_that_are_cut_moved_doubled_or_dropped_are_noticed(tmp_path, edit):
    path = tmp_path / "ledger.jsonl"
    filled(path)
    path.write_text("".join(line + "\n" for line in edit(path.read_text().splitlines())))
    with pytest.raises(ValueError, match=r"ledger\.jsonl"):
        Ledger.load(path)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_a_crash_anywhere_in_a_write_costs_no_payment_that_was_made(tmp_path, data):
    """A line is written, then the header: whatever part of that reached the disk, the lines before it are all there."""
    path = tmp_path / "ledger.jsonl"
    path.unlink(missing_ok=True)
    guard_file_of(path).unlink(missing_ok=True)
    ledger = filled(path)
    before, seen = path.read_bytes(), guard_file_of(path).read_bytes()
    ledger.append(STEP)
    after = path.read_bytes()
    cut = data.draw(st.integers(len(before), len(after)))
    header = len(before.split(b"\n")[0]) + 1
    path.write_bytes(before[:header] + after[header:cut])
    guard_file_of(path).write_bytes(seen)  # which is told last
    found = Ledger.load(path)
    assert found.entries[:4] == ledger.entries[:4]
    assert len(found) == (5 if cut >= len(after) - 1 else 4)  # only the newline may be missing
    found.append(STEP)
    assert Ledger.load(path).entries == found.entries


def test_a_look_changes_nothing_and_records_nothing(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = filled(path)
    with path.open("ab") as handle:
        handle.write(b'{"label": "tor')
    raw = path.read_bytes()
    seen = Ledger.read(path)
    assert seen.entries == ledger.entries
    with pytest.raises(RuntimeError):
        seen.append(STEP)
    assert path.read_bytes() == raw


def test_a_file_of_version_0_1_is_read_and_gone_on_with(tmp_path):
    path = tmp_path / "ledger.jsonl"
    old = {"label": "training step", "noise_multiplier": 1.5, "sample_rate": 0.1, "seeded": False, "scales": {}}
    text = json.dumps({"format": "dpmac-ledger-1"}) + "\n" + 2 * (json.dumps(old) + "\n")
    for torn in ("", '{"label": "tor'):
        path.write_text(text + torn)
        ledger = Ledger.load(path)
        assert path.read_text() == text + torn
        assert [e.label for e in ledger.entries] == ["training step"] * 2
        ledger.append(STEP)
        ledger.append(STEP)
        assert Ledger.load(path).entries == ledger.entries
        assert {p.name for p in tmp_path.iterdir()} == {"ledger.jsonl", "ledger.jsonl.seen"}
        guard_file_of(path).unlink()
    path.write_text(text)
    first, second = Ledger.load(path), Ledger.load(path)
    first.append(STEP)
    with pytest.raises(RuntimeError, match="someone else"):
        second.append(STEP)


def with_a_limit(_rank, path):
    """A file that may grow by 40 bytes more, and a line that is longer."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ledger = Ledger(path)
    ledger.append(Entry("first", 1.0, 0.5))
    size = os.path.getsize(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, resource.RLIM_INFINITY))
    with pytest.raises(OSError, match="File too large"):
        ledger.append(Entry("second", 1.0, 0.5))
    assert os.path.getsize(path) == size
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    ledger.append(Entry("third", 1.0, 0.5))


def test_a_write_that_really_fails_leaves_no_part_of_a_line(tmp_path):
    """Found in review: by a file-size limit, a part of the line was left, and the ledger stuck."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    path = tmp_path / "ledger.jsonl"
    values(together_run(1, with_a_limit, str(path), bare=True))
    assert [e.label for e in Ledger.load(path).entries] == ["first", "third"]


@pytest.mark.parametrize("total", [0.5, 2.0, 8.0])
def test_what_remains_of_a_total_fits_and_no_more_does(total):
    ledger = Ledger()
    assert ledger.remaining(total, 1e-5) == pytest.approx(total, rel=1e-3)
    for _ in range(20):
        ledger.append(Entry("step", 24.0, 0.2))
    left = ledger.remaining(total, 1e-5)
    assert 0 < left < total
    fits = epsilon_of([*ledger.mechanisms(), _release(0.999 * left)], 1e-5)
    assert fits <= total
    assert epsilon_of([*ledger.mechanisms(), _release(1.01 * left)], 1e-5) > total
    ledger.append(Entry("all of it", 0.3, 1.0))
    assert ledger.remaining(total, 1e-5) == 0.0


def _release(epsilon):
    from dpmac.planning.calibration import calibrate

    return Mechanism(calibrate(lambda s: [Mechanism(s)], epsilon, 1e-5))


def test_four_threads_on_one_ledger_leave_it_whole(tmp_path):
    """Found in review: each computed its digest before the other's line was there."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    threads = [threading.Thread(target=lambda: [ledger.append(STEP) for _ in range(15)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Ledger.load(tmp_path / "ledger.jsonl")) == len(ledger) == 60


def test_a_fork_cannot_go_on_with_a_ledger_in_memory(monkeypatch, tmp_path):
    memory, disk = Ledger(), Ledger(tmp_path / "ledger.jsonl")
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="fork"):
        memory.append(STEP)
    disk.append(STEP)


def test_a_header_that_would_switch_the_checks_off_is_refused(tmp_path):
    path = tmp_path / "ledger.jsonl"
    filled(path)
    lines = path.read_text().splitlines()
    for first in ('{"format": "dpmac-ledger-1"}', lines[0].replace('"000000000004"', '"-00000000001"')):
        path.write_text("".join(line + "\n" for line in (first, *lines[1:3])))
        with pytest.raises(ValueError, match=r"ledger\.jsonl"):
            Ledger.load(path)


def test_a_link_to_a_ledger_stays_a_link(tmp_path):
    old = {"label": "training step", "noise_multiplier": 1.5, "sample_rate": 0.1, "seeded": False, "scales": {}}
    real, link = tmp_path / "ledger.jsonl", tmp_path / "link.jsonl"
    real.write_text(json.dumps({"format": "dpmac-ledger-1"}) + "\n" + json.dumps(old) + "\n")
    link.symlink_to(real)
    Ledger.load(link).append(STEP)
    assert link.is_symlink()
    assert len(Ledger.load(real)) == 2


def test_an_interruption_inside_a_write_leaves_a_ledger_that_goes_on(tmp_path, monkeypatch):
    ledger = filled(tmp_path / "ledger.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda _handle: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            ledger.append(STEP)
    ledger.append(STEP)
    assert Ledger.load(tmp_path / "ledger.jsonl").entries == ledger.entries
    assert len(ledger) == 5


def test_what_a_crash_leaves_before_the_header_is_begun_anew(tmp_path):
    (tmp_path / "ledger.jsonl").touch()
    Ledger.at(tmp_path / "ledger.jsonl").append(STEP)
    assert len(Ledger.load(tmp_path / "ledger.jsonl")) == 1
