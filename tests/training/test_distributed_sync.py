"""What processes compare before and while they train together: all of it, not its first numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmac.extensions.entries import to_dict
from dpmac.extensions.world import SINGLE_PROCESS, SingleProcess, WorldError
from dpmac.nets.feature_maps import Affine
from dpmac.privacy import Entry, Ledger
from dpmac.training import distributed_sync
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.distributed_sync import LeaderCheckpoints, agreed, books, checkpoints_for, checksum, digest, plain
from group_of_threads import in_threads, values

KINDS = [torch.uint8, torch.bool, torch.int16, torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.float64]


@settings(max_examples=20)
@given(st.sampled_from(KINDS), st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_one_number_of_one_tensor_that_differs_shows(kind, sizes, data):
    tensors = [torch.ones(size, 2, dtype=kind) for size in sizes]
    which = data.draw(st.integers(0, len(sizes) - 1))
    row, column = data.draw(st.integers(0, sizes[which] - 1)), data.draw(st.integers(0, 1))
    other = [tensor.clone() for tensor in tensors]
    assert checksum(other) == checksum(tensors)
    assert digest(other) == digest(tensors)
    assert plain(other) == plain(tensors)
    other[which][row, column] = 0
    assert checksum(other) != checksum(tensors)
    assert digest(other) != digest(tensors)
    assert plain(other) != plain(tensors)
    assert len(checksum(tensors)) == len(tensors)


def test_of_no_tensors_there_is_nothing_to_compare():
    assert checksum([]) == []
    assert checksum(iter([torch.ones(2).t()])) == checksum([torch.ones(2)])


@pytest.mark.parametrize("place", [0, 2500, 4999])
def test_a_number_in_the_middle_of_many_counts(place):
    """Their text would leave it out."""
    many, other = torch.zeros(5000), torch.zeros(5000)
    other[place] = 1.0
    assert plain(many) != plain(other)
    assert plain([many.numpy()]) != plain([other.numpy()])


class Own:
    """Something whose text names the place where it lies."""

    def __repr__(self):
        return f"<Own at {hex(id(self))}>"


def test_things_are_compared_by_what_they_are():
    numbers = torch.tensor([1.0, 2.0])
    assert plain(numbers.numpy()) == plain(np.array([1.0, 2.0], dtype=np.float32))
    assert len({json.dumps(plain(one)) for one in (numbers, numbers.double(), numbers.reshape(2, 1), [1.0, 2.0])}) == 4
    assert plain(numbers.int()) != plain(numbers.to(torch.int64))
    assert plain(Affine(1.0, 2.0)) == plain(Affine(1.0, 2.0)) != plain(Affine(1.0, 3.0))
    assert plain(Affine(1.0))[0] == Affine.kind
    assert plain(Own()) == plain(Own())
    assert plain({"a": [1, (numbers, Own())]}) == {"a": ["1", [plain(numbers), "<Own>"]]}
    assert json.loads(json.dumps(plain({1: (numbers, None)}))) == {"1": [plain(numbers), "None"]}


class Told(SingleProcess):
    """A process among several that writes down what it says."""

    def __init__(self, size=2):
        self.size, self.said = size, {}

    def note(self, what, value):
        self.said[what] = value

    agree = note


def test_all_that_is_said_and_the_versions_of_the_code_are_compared_where_there_are_others():
    world = Told()
    agreed(world, {"plan": {"steps": 3}, "feature_map": None})
    assert world.said == {
        "plan": {"steps": "3"}, "feature_map": "None", "torch": torch.__version__, "dpmac":
        distributed_sync.version("dpmac"),
    }  # fmt: skip
    alone = Told(1)
    agreed(alone, {"plan": 1})
    assert alone.said == {}


# --- ledgers ----------------------------------------------------------------------------------------------------------


def ledger_with(count: int) -> Ledger:
    ledger = Ledger(data_set="people")
    for _ in range(count):
        ledger.append(Entry("mean", 1.0, 1.0))
    return ledger


def test_a_process_that_does_not_lead_keeps_the_leaders_books_in_memory(tmp_path, monkeypatch):
    first = Ledger(tmp_path / "ledger", "people")
    first.append(Entry("mean", 1.0, 1.0))

    def work(world):
        found = books(world, str(tmp_path / "ledger") if world.leads else None)
        return found.path, found.entries, found.data_set, found.run

    leader, other = values(in_threads(monkeypatch, 2, work))
    assert leader[0] == tmp_path / "ledger"
    assert other == (None, *leader[1:])
    assert leader[1] == first.entries
    assert leader[2] == "people"


def test_the_ledger_that_was_given_is_kept_if_it_is_in_memory_and_holds_the_same(tmp_path, monkeypatch):
    whole, on_disk = ledger_with(2), Ledger(tmp_path / "theirs")
    on_disk.append(Entry("mean", 1.0, 1.0))
    less = Ledger.of([to_dict(entry) for entry in whole.entries[:1]], "people", "")
    same = Ledger.of([to_dict(entry) for entry in whole.entries], "people", "")
    for given_, kept in ((same, True), (less, False), (on_disk, False), (None, False), ("a path", False)):
        leads = whole if given_ is not on_disk else on_disk
        _, found = values(in_threads(monkeypatch, 2, lambda w, g=given_, a=leads: books(w, a if w.leads else g)))
        assert (found is given_) == kept
        assert found.entries == leads.entries
        assert found.path is None


def test_alone_the_ledger_is_the_one_that_is_meant(tmp_path):
    ledger = ledger_with(1)
    assert books(SINGLE_PROCESS, ledger) is ledger
    assert books(SINGLE_PROCESS, tmp_path / "new", "people").path == tmp_path / "new"


# --- checkpoints ------------------------------------------------------------------------------------------------------

WEIGHTS = torch.ones(1)


def test_others_read_the_leaders_checkpoint_and_write_none(tmp_path, monkeypatch):
    assert checkpoints_for(SINGLE_PROCESS, None) is None
    assert isinstance(checkpoints_for(SINGLE_PROCESS, tmp_path / "kept"), Checkpoints)
    assert not isinstance(checkpoints_for(SINGLE_PROCESS, tmp_path / "kept"), LeaderCheckpoints)
    for state in (None, {"run": "a run", "done": 3, "ledger": 1, "weights": WEIGHTS}):
        if state is not None:
            Checkpoints(tmp_path / "kept").write(state)
        assert values(in_threads(monkeypatch, 2, lambda w: checkpoints_for(w, None))) == [None, None]
        leader, other = values(in_threads(monkeypatch, 2, lambda w: checkpoints_for(w, tmp_path / "kept")))
        assert (type(leader), type(other)) == (Checkpoints, LeaderCheckpoints)
        assert leader.run == other.run
        assert other.folder == leader.folder
        assert other.read() == leader.read() == state
        whole = ledger_with(2)
        assert other.before(whole).entries == whole.entries[: 2 if state is None else 1]
        before = sorted((tmp_path / "kept").glob("*"))
        assert not other.due()
        with other.locked():
            other.write({"done": 4})
            other.clear()
        assert sorted((tmp_path / "kept").glob("*")) == before


@pytest.mark.parametrize("odd", [{"run": "another", "done": 3}, {"run": "a run", "done": 4}, None])
def test_processes_that_see_other_checkpoints_are_refused(tmp_path, monkeypatch, odd):
    kept = Checkpoints(tmp_path / "kept")
    kept.write({"run": "a run", "done": 3, "weights": WEIGHTS})
    truly = Checkpoints.read

    def work(world):
        monkeypatch.setattr(Checkpoints, "read", lambda self: truly(self) if self.leads else odd, raising=True)
        mine = Checkpoints(tmp_path / "kept")
        mine.leads = world.leads
        checkpoints_for(world, mine)

    for one in in_threads(monkeypatch, 2, work):
        assert isinstance(one.error, WorldError)
        assert "the checkpoint in" in one.words
