"""A payment is on the disk, and not only with the system, before anyone can see what was paid for."""

from __future__ import annotations

import json
import os

import pytest

from doorway import ONE, go
from dpmac.checks import ArgumentError
from dpmac.extensions import ledger_file as chain
from dpmac.extensions.entries import to_dict
from dpmac.extensions.ledger_header import LINE_BYTES
from dpmac.privacy import Ledger
from dpmac.privacy.entry import Entry


def synced(path, monkeypatch):
    """What the file holds whenever the disk is waited for."""
    seen, really = [], os.fsync

    def fsync(handle):
        really(handle)
        if path.exists():
            seen.append(path.read_text().splitlines())

    monkeypatch.setattr(chain.os, "fsync", fsync)
    return seen


def test_a_line_is_waited_for_before_the_header_counts_it(tmp_path, monkeypatch):
    """A power cut loses what only the system has: the line must come first, and the count must not run ahead of it."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    seen = synced(path, monkeypatch)
    for count in (1, 2, 3):
        seen.clear()
        ledger.append(Entry("test", 1.0, 0.5))
        assert seen, "nobody waited for the disk"
        header, *lines = seen[0]
        assert len(lines) == count
        assert int(json.loads(header)["entries"]) == count - 1


def test_a_release_waits_for_the_disk(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    seen = synced(ledger.path, monkeypatch)
    go(ONE, ledger=ledger)
    assert len(seen[-1]) == 2


def test_an_edit_of_a_line_that_the_header_does_not_count_yet_is_noticed(tmp_path):
    """A crash leaves such a line: there its own link in the chain is all that guards it."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.append(Entry("test", 1.0, 0.5))
    header = path.read_bytes().splitlines()[0]
    ledger.append(Entry("test", 1.0, 0.5))
    lines = [header, *path.read_bytes().splitlines()[1:]]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    assert len(Ledger.read(path)) == 2
    edited = lines[-1].replace(b'"noise_multiplier": 1.0', b'"noise_multiplier": 9.0')
    assert edited != lines[-1]
    path.write_bytes(b"".join(line + b"\n" for line in (*lines[:-1], edited)))
    with pytest.raises(ValueError, match="line 3"):
        Ledger.read(path)


def test_a_loaded_ledger_knows_which_releases_were_seeded(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for seeded in (False, True, False):
        ledger.append(Entry("test", 1.0, 0.5, seeded))
    found = Ledger.load(ledger.path)
    assert [entry.seeded for entry in found.entries] == [False, True, False]
    assert found.seeded
    assert found.statement(1e-5).seeded


def test_a_ledger_that_was_cut_is_noticed_where_nothing_else_knows_of_it(tmp_path):
    """Copied elsewhere, a file has no witness beside it: its header's count is all that tells."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for _ in range(4):
        ledger.append(Entry("test", 1.0, 0.5))
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    for kept in (1, 2, 4, 5):
        elsewhere = tmp_path / str(kept) / "ledger.jsonl"
        elsewhere.parent.mkdir()
        elsewhere.write_bytes(b"".join(lines[:kept]))
        if kept == 5:
            assert len(Ledger.read(elsewhere)) == 4
            continue
        with pytest.raises(ValueError, match="was cut: its header counts 4 releases"):
            Ledger.read(elsewhere)


def test_a_line_has_a_megabyte_at_most(tmp_path):
    """No release writes a longer one: it is damage, and is not parsed."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(Entry("test", 1.0, 0.5))
    header, line = ledger.path.read_text(encoding="utf-8").splitlines()
    full = line.ljust(2**20)
    assert len(full) == LINE_BYTES
    ledger.path.write_text(f"{header}\n{full}\n", encoding="utf-8")
    assert len(Ledger.read(ledger.path)) == 1
    ledger.path.write_text(f"{header}\n{full} \n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 2: damaged \(1,048,577 bytes"):
        Ledger.read(ledger.path)


def test_the_longest_release_can_be_written_and_read_back(tmp_path):
    """Its digest makes the line longer by less than the hundred bytes that are left for it."""
    ledger = Ledger(tmp_path / "ledger.jsonl")

    def named(*lengths):
        scales = {"x" * length: 1.0 for length in lengths}
        return Entry("test", 1.0, 0.5, scales=scales, run=ledger.run, date="2026-01-31")

    many = range(60_000, 60_017)
    room = LINE_BYTES - 100 - len(json.dumps(to_dict(named(0, *many))))
    with pytest.raises(ArgumentError, match="a line of a ledger may have 1,048,576 bytes"):
        ledger.append(named(room + 1, *many))
    assert len(ledger) == 0
    ledger.append(named(room, *many))
    assert Ledger.read(ledger.path).entries == ledger.entries
