"""A Machine says where and how a fit runs: bad values are named, and what is learned and spent stays the same."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
import torch

from dpmac import DPMACPCA, ArgumentError, DPMACClassifier, Machine, Schema
from dpmac.estimators import base
from dpmac.tables import Files, Number, stored
from dpmac.training.checkpoint import Checkpoints

BAD = [
    ({"device": None}, "device=None: give the name of a torch device"),
    ({"device": 5.5}, "device=5.5"),
    ({"micro_batch_size": 0}, "micro_batch_size=0: give a number of rows, at least 1, or None"),
    ({"micro_batch_size": 2.5}, "micro_batch_size=2.5"),
    ({"threads": 0}, "threads=0: give a number of threads, 1 to 1024, or None"),
    ({"threads": 1025}, "threads=1025"),
    ({"threads": "2"}, "threads='2'"),
    ({"memory": 0}, "memory=0: give the bytes that rows may take in memory"),
    ({"memory": None}, "memory=None"),
    ({"scratch": 3}, "scratch=3: give the path of a folder, 'auto', or None"),
    ({"world": 4}, r"world=4: give what dpmac.training.together\(\) gives"),
    ({"checkpoint": 5}, "checkpoint=5: give the path of a folder, or None"),
    ({"progress": "loud"}, "progress='loud': choose True, False or 'auto'"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[str(change) for change, _ in BAD])
def test_a_value_that_can_never_be_right_is_named(change, message):
    with pytest.raises(ArgumentError, match=f"^{message}"):
        Machine(**change)


def test_what_is_right_is_kept_as_it_was_given(tmp_path):
    kept = Checkpoints(tmp_path)
    machine = Machine(device=torch.device("cpu"), threads=np.int64(1024), memory=1, scratch=tmp_path, checkpoint=kept)
    assert machine.available_device() == torch.device("cpu")
    assert (machine.threads, machine.scratch, machine.checkpoint) == (1024, tmp_path, kept)
    with pytest.raises(FrozenInstanceError):
        machine.threads = 2


def test_it_shows_what_differs_from_the_defaults():
    for machine in (Machine(), Machine(device="cuda", threads=2), Machine(scratch=None, progress=False)):
        assert eval(repr(machine)) == machine
    assert repr(Machine()) == "Machine()"
    assert repr(Machine("cuda", scratch=None)) == "Machine(device='cuda', scratch=None)"


def test_neither_the_model_nor_the_ledger_depends_on_it(tmp_path):
    x = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    machines = [None, Machine(micro_batch_size=7, threads=2, progress=True, checkpoint=tmp_path / "kept")]
    found = []
    for number, machine in enumerate(machines):
        model = DPMACClassifier((4,), epochs=3, batch_size=50, random_state=0, calibrate=False, machine=machine)
        found.append(model.set_params(ledger=tmp_path / f"ledger-{number}").fit(x, x[:, 0] > 0))
    one, other = found
    assert one.plan_ == other.plan_
    assert one.privacy_.ledger.mechanisms() == other.privacy_.ledger.mechanisms()
    assert np.allclose(one.decision_function(x), other.decision_function(x), rtol=0, atol=1e-5)


# --- tables in files --------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame(np.random.default_rng(0).uniform(0, 1, (50, 2)), columns=["a", "b"]).to_parquet(path)
    return path


def pca(machine):
    schema = Schema({"a": Number(0, 1), "b": Number(0, 1)})
    return DPMACPCA(1, epsilon=math.inf, schema=schema, random_state=0, machine=machine)


def test_rows_that_take_more_than_the_memory_are_kept_in_the_scratch_folder(table, tmp_path, monkeypatch):
    used, exact = [], stored.Scratch

    def scratch(n, block, folder):
        used.append(folder)
        return exact(n, block, folder)

    monkeypatch.setattr(stored, "Scratch", scratch)
    whole = pca(None).fit(str(table))
    assert used == []
    for source in (str(table), Files(table)):
        found = pca(Machine(memory=1, scratch=tmp_path)).fit(source)
        assert np.array_equal(found.components_, whole.components_)
    assert used == [tmp_path, tmp_path]


def test_a_table_with_settings_of_its_own_keeps_them(table, tmp_path):
    own = Files(table, memory=5, scratch=None)
    assert (own.within(7, tmp_path).memory, own.within(7, tmp_path).scratch) == (5, None)
    left = Files(table)
    assert (left.within(7, tmp_path).memory, left.within(7, tmp_path).scratch) == (7, tmp_path)
    assert (left.memory, left.scratch) == (None, "auto")


def test_a_table_that_cannot_be_read_by_row_needs_a_scratch_folder(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "0,1\n" * 20)
    with pytest.raises(ArgumentError, match=r"scratch=None: .*rewrite it as Parquet"):
        pca(Machine(scratch=None)).fit(Files(tmp_path / "t.csv"))


@pytest.mark.parametrize("wanted", [True, False])
def test_whether_steps_are_recorded_on_a_gpu_is_handed_on(wanted, monkeypatch):
    def trainer(*_, **given):
        raise InterruptedError(given["cuda_graphs"])

    monkeypatch.setattr(base, "Trainer", trainer)
    model = DPMACClassifier(classes=[0, 1], feature_range=(-1, 1), machine=Machine(cuda_graphs=wanted))
    with pytest.raises(InterruptedError) as seen:
        model.fit(np.zeros((20, 2)), np.arange(20) % 2)
    assert seen.value.args == (wanted,)
