"""A finished run is read back as it was saved, or not believed at all."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from fakes import fake_jobs

from reproduction.store import DamagedRunError, Store, provenance, write_atomically


@pytest.mark.parametrize("epsilon", [0.5, math.inf])
def test_what_is_saved_is_read_back(tmp_path, epsilon):
    store, (job,) = Store(tmp_path / "deep" / "down"), fake_jobs(count=1, epsilon=epsilon)
    assert store.load(job) is None
    assert store.all() == ([], [])
    path = store.save(job, {"metric": 0.5, "curve": [{"epoch": 1.0}], "pair": (1, 2)}, provenance("command", "cpu"))
    assert path == tmp_path / "deep" / "down" / "runs" / f"{job.key}.json"
    found = store.load(job)
    assert (found.table, found.row, found.preset, found.epsilon, found.seed) == ("mnist", "fine", "paper", epsilon, 0)
    assert found.result == {"metric": 0.5, "curve": [{"epoch": 1.0}], "pair": [1, 2]}
    assert {"dpmac", "torch", "dp-accounting", "python", "machine", "command", "device"} <= set(found.made_with)
    assert store.all() == ([found], [])
    assert [p.name for p in store.runs.iterdir()] == [path.name]  # no temporary file is left


def test_a_result_without_a_number_is_refused(tmp_path):
    store, (job,) = Store(tmp_path), fake_jobs(count=1)
    for metric in (math.nan, math.inf, None, "0.5", True):
        with pytest.raises(ValueError, match="finite number"):
            store.save(job, {"metric": metric})
    with pytest.raises(ValueError, match="JSON compliant"):
        store.save(job, {"metric": 1.0, "curve": [{"test": math.nan}]})
    assert store.all() == ([], [])


def test_damaged_files_are_not_believed(tmp_path):
    store, jobs = Store(tmp_path), fake_jobs(count=2)
    path, good = (store.save(job, {"metric": 0.9}) for job in jobs)
    text = path.read_text()
    for changed in (
        b"",
        text[: len(text) // 2].encode(),
        text.replace("0.9", "0.99").encode(),
        b"[1, 2]",
        text.replace('"format": 1', '"format": 0').encode(),
        json.dumps({"format": 1, "sha256": "x"}).encode(),
        b"\xff\xfe\x00",
    ):
        path.write_bytes(changed)
        with pytest.raises(DamagedRunError, match=jobs[0].key):
            store.load(jobs[0])
        finished, damaged = store.all()
        assert ([run.seed for run in finished], [error.path for error in damaged]) == ([1], [path])
    good.rename(path)
    with pytest.raises(DamagedRunError, match="another run"):
        store.load(jobs[0])


def test_a_writer_that_dies_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    write_atomically(path, "old")
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("power cut")))
    with pytest.raises(OSError, match="power cut"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"]  # and no rubbish, where it could still clean up


def test_a_sweep_takes_only_what_has_surely_lost_its_writer(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.runs.mkdir()
    fresh, old, renamed = (store.runs / f"{name}.json.1.tmp" for name in ("a", "b", "c"))
    fresh.touch()
    old.touch()
    os.utime(old, (0, 0))
    real = Path.glob
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [*real(self, pattern), renamed])  # gone since it was listed
    store.sweep()
    assert fresh.exists()  # it may have a writer
    assert not old.exists()
