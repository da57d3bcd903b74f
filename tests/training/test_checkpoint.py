"""Checkpoints by themselves: where they lie, what they refuse, and what is left of them."""

from __future__ import annotations

import contextlib

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.nets.files import read_tensors, write_tensors
from dpmac.privacy import Entry, Ledger
from dpmac.training import checkpoint
from dpmac.training.checkpoint import FORMAT, Checkpoints, _digest

STATE = {"run": "a run", "done": 2, "weights": torch.arange(3.0)}


@pytest.fixture
def kept(tmp_path):
    return Checkpoints(tmp_path / "a" / "b" / "kept")


def test_it_is_written_in_new_folders_read_back_and_written_again(kept, monkeypatch):
    synced = []
    monkeypatch.setattr(checkpoint, "sync", synced.append)
    assert kept.read() is None
    for done in (2, 3):
        kept.write({**STATE, "done": done})
        found = Checkpoints(str(kept.folder)).read()
        assert found is not None
        assert torch.equal(found.pop("weights"), STATE["weights"])
        assert found == {"run": "a run", "done": done}
    assert synced == [kept.folder] * 2  # the name is on the disk, too


def test_a_file_whose_numbers_were_changed_is_refused_by_name(kept):
    kept.write(STATE)
    header, tensors = read_tensors(kept.path, FORMAT, "a checkpoint")
    (name,) = tensors
    write_tensors(kept.path, header, {name: tensors[name] + 1})
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors.*digest"):
        kept.read()


def test_the_digest_knows_where_one_tensor_ends_and_the_next_begins():
    whole, parted = ({"a": torch.arange(n), "b": torch.arange(n, 3)} for n in (2, 1))
    assert _digest({}, whole) != _digest({}, parted)
    assert _digest({}, whole) == _digest({}, dict(reversed(whole.items())))
    assert _digest({"a": 1}, whole) != _digest({"a": 2}, whole)
    assert _digest({}, {"a": torch.ones(2, 3)}) != _digest({}, {"a": torch.zeros(2, 3)})


def test_odd_arguments_are_refused_by_name(tmp_path):
    with pytest.raises(ArgumentError, match=r"^checkpoint=3"):
        Checkpoints(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"^every=-1"):
        Checkpoints(tmp_path, -1)
    assert Checkpoints.at(None) is None
    one = Checkpoints(tmp_path)
    assert Checkpoints.at(one) is one
    found = Checkpoints.at(str(tmp_path))
    assert found is not None
    assert found.folder == tmp_path


def test_the_first_is_due_after_a_quarter_of_a_second_and_without_a_pause_always(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])
    kept, always = Checkpoints(tmp_path), Checkpoints(tmp_path, 0.0)
    assert not kept.due()
    assert always.due()
    clock[0] += 0.25
    assert kept.due()


def test_a_run_has_the_name_of_its_checkpoint_until_that_is_cleared(kept):
    fresh = kept.run
    assert fresh == kept.run != Checkpoints(kept.folder).run
    kept.write(STATE)
    again = Checkpoints(kept.folder)
    assert again.run == "a run"
    again.clear()
    assert again.run not in ("a run", fresh)


# --- folders ----------------------------------------------------------------------------------------------------------


def test_no_ledger_may_be_where_the_folder_is_or_above_it(kept):
    for odd in (kept.folder, kept.folder.parent, kept.folder / ".." / "kept"):
        with pytest.raises(ArgumentError, match=r"^checkpoint=.*in its way"), kept.locked(odd):
            pass
    assert not kept.folder.exists()
    for fine in (None, kept.folder / "ledger", kept.folder.parent / "ledger"):
        with kept.locked(fine):
            assert kept.folder.is_dir()
        assert not kept.folder.exists()  # nothing was written


def test_a_place_where_no_folder_can_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    kept = Checkpoints(tmp_path / "file")
    with pytest.raises(ArgumentError, match=r"^checkpoint=.*no folder can be made"), kept.locked():
        pass


def test_what_was_written_stays_after_an_error_and_a_folder_that_is_there_is_used(kept):
    kept.folder.mkdir(parents=True)
    with contextlib.suppress(ZeroDivisionError), kept.locked():
        kept.write(STATE)
        raise ZeroDivisionError
    assert kept.path.exists()


@pytest.mark.parametrize("keep", [False, True])
def test_a_finished_training_leaves_nothing_of_its_own_behind(kept, keep):
    used = Checkpoints(kept.folder, keep=True) if keep else kept
    used.write(STATE)
    used.after.write_text("{}")
    (used.folder / "of others").write_text("")
    used.finished()
    assert used.path.exists() == used.after.exists() == keep
    used.clear()
    assert [path.name for path in used.folder.iterdir()] == ["of others"]
    (used.folder / "of others").unlink()
    used.clear()  # nothing is missed
    assert not used.folder.exists()
    used.clear()


# --- ledgers ----------------------------------------------------------------------------------------------------------


def ledger_at(path, count):
    ledger = Ledger(path)
    for _ in range(count):
        ledger.append(Entry("mean", 1.0, 1.0))
    return ledger


def begun_with(kept, ledger, begun):
    heads = [(count, ledger.head(count)) for count in (begun, len(ledger))]
    kept.write({**STATE, "heads": heads, "ledger": begun})


def test_the_ledger_is_given_back_as_it_was_when_the_training_began(kept, tmp_path):
    ledger = ledger_at(tmp_path / "ledger", 3)
    assert kept.before(ledger) is ledger
    begun_with(kept, ledger, 1)
    ledger.append(Entry("mean", 2.0, 1.0))  # since then
    assert kept.before(Ledger.load(tmp_path / "ledger")).entries == ledger.entries[:1]


def test_another_ledger_or_an_older_copy_is_refused(kept, tmp_path):
    ledger = ledger_at(tmp_path / "ledger", 2)
    older = (tmp_path / "ledger").read_bytes()
    ledger.append(Entry("mean", 1.0, 1.0))
    for begun in (0, 1):
        begun_with(kept, ledger, begun)
        other = ledger_at(tmp_path / f"other {begun}", 3)
        (tmp_path / "older").write_bytes(older)
        for odd in (other, Ledger.read(tmp_path / "older"), Ledger(tmp_path / "new"), Ledger()):
            with pytest.raises(ArgumentError, match=r"^ledger=.*older copy"):
                kept.before(odd)


def test_before_the_first_release_there_is_no_file_to_compare(kept, tmp_path):
    kept.write({**STATE, "heads": [(0, "of a header"), (0, "of a header")], "ledger": 0})
    assert len(kept.before(Ledger(tmp_path / "new"))) == 0
    with pytest.raises(ArgumentError, match=r"^ledger="):
        kept.before(ledger_at(tmp_path / "other", 1))
