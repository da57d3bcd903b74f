"""A witness that is damaged, of another size or no file is mended by the next release, and holds nobody up."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from dpmac.checks import ArgumentError
from dpmac.extensions import rollback_guard as witness
from dpmac.extensions.rollback_guard import guard_file_of, recorded
from dpmac.privacy import Entry, Ledger

ONE = Entry("mean", 2.0, 1.0)


@pytest.fixture
def path(tmp_path):
    Ledger(tmp_path / "ledger").append(ONE)
    return tmp_path / "ledger"


@pytest.mark.parametrize("damaged", [b"", b"x", b"x" * 5000, b'{"entries": 1e999, "head": "", "root": ""}'])
def test_a_damaged_witness_is_whole_again_after_the_next_release(path, tmp_path, damaged):
    """Written over in place, a longer one would keep its end, and say nothing ever after."""
    guard_file_of(path).write_bytes(damaged)
    shutil.copy(path, tmp_path / "backup")
    Ledger.load(path).append(ONE)
    assert json.loads(guard_file_of(path).read_bytes())["entries"] == "000000000002"
    shutil.copy(tmp_path / "backup", path)
    with pytest.raises(ValueError, match="older copy"):
        Ledger.load(path)


@pytest.mark.parametrize("missing", ["entries", "head", "root"])
def test_a_witness_without_a_field_says_nothing(path, missing):
    said = json.loads(guard_file_of(path).read_bytes())
    guard_file_of(path).write_text(json.dumps({key: value for key, value in said.items() if key != missing}))
    assert recorded(path) is None
    assert len(Ledger.load(path)) == 1


def test_it_says_how_far_the_ledger_has_come(path):
    ledger = Ledger.load(path)
    for count in (2, 3):
        ledger.append(ONE)
        assert recorded(path) == {"entries": count, "head": ledger.head(count), "root": ledger.head(0)}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name")
def test_nothing_is_read_from_a_pipe_in_its_place(path):
    """Whoever reads one waits until somebody writes to it."""
    guard_file_of(path).unlink()
    os.mkfifo(guard_file_of(path))
    pipe = os.open(guard_file_of(path), os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(pipe, b"x" * 5000)  # more than a witness has, so that a reader would not wait here
        assert len(Ledger.load(path)) == 1
        assert len(os.read(pipe, 10000)) == 5000
    finally:
        os.close(pipe)


def test_an_account_that_is_gone_is_not_forgotten_though_nothing_was_released(tmp_path):
    """Only an account is there without a release: begun anew, its total would hold no more."""
    path = tmp_path / "ledger"
    Ledger.init(path, total_epsilon=4.0)
    path.unlink()
    for begin in (Ledger, Ledger.at):
        with pytest.raises(ArgumentError, match=r"an account was opened here, .* and is gone"):
            begin(path)
    assert not path.exists()


def test_it_is_told_in_a_folder_where_nobody_may_make_files(path, monkeypatch):
    """A shared ledger can be given to its users as two files that they may write, in a folder that they may not."""

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(witness, "whole_file", denied)
    Ledger.load(path).append(ONE)
    assert recorded(path)["entries"] == 2
