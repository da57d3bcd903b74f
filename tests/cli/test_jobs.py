"""A job's file: what comes back is what was asked, and what is damaged or foreign is refused."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, replace

import pytest

from dpmac import DPMACAutoencoder, DPMACClassifier, DPMACRegressor, Machine
from dpmac.checks import ArgumentError
from dpmac.cli.jobs import CHECKPOINT, JOB, OWN_LEDGER, Job, counted
from dpmac.extensions.world import SINGLE_PROCESS
from dpmac.privacy import Ledger
from dpmac.tables import Files, stored
from dpmac.tables.stored import MEMORY

COLUMNS = {"a": {"kind": "number", "low": 0, "high": 1}, "ill": {"kind": "category", "values": ["no", "yes"]}}
ASKED = {
    "delta": 1e-8,
    "total_epsilon": 3.0,
    "epochs": 2.0,
    "batch_size": 10.0,
    "seed": 7,
    "threads": 1,
    "max_rows": 2,
}
WHOLE = Job("/t.csv", {"columns": COLUMNS, "target": "ill"}, "/book", 1.5, **ASKED, rows=100, before=3, hidden=[5, 4])


def test_a_job_comes_back_as_it_was(tmp_path):
    for job in (WHOLE, replace(WHOLE, groups="who", memory=3, scratch="none", hidden=None, written=5)):
        job.save(tmp_path)
        assert Job.load(tmp_path) == job


def test_a_run_folder_is_there_with_its_job_or_not_at_all(tmp_path):
    WHOLE.begin(tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == [JOB]
    assert Job.load(tmp_path / "run") == WHOLE


def test_an_estimator_is_given_every_number_that_was_asked():
    """Also epsilon, delta and the total: what the job says is what is spent."""
    ledger = Ledger()
    for target, kind in (("ill", DPMACClassifier), ("a", DPMACRegressor), (None, DPMACAutoencoder)):
        job = replace(WHOLE, schema={"columns": COLUMNS, "target": target})
        given = job.estimator(ledger, "somewhere", SINGLE_PROCESS).get_params(deep=False)
        named = {**ASKED, "random_state": 7, "epsilon": 1.5, "hidden_layer_sizes": (5, 4)}
        del named["seed"], named["threads"]
        assert {name: given[name] for name in named} == named
        assert type(job.estimator(ledger, None)) is kind
        assert given["ledger"] is ledger
        assert given["machine"] == Machine(threads=1, progress=False, checkpoint="somewhere", world=SINGLE_PROCESS)
    assert replace(WHOLE, hidden=None).estimator(ledger, None).hidden_layer_sizes == "auto"
    assert replace(WHOLE, hidden=[]).estimator(ledger, None).hidden_layer_sizes == ()


DAMAGES = {
    "another format": lambda raw: raw.update(format="dpmac-job-9"),
    "no format": lambda raw: raw.pop("format"),
    "a key more": lambda raw: raw.update(more=1),
    "a key less": lambda raw: raw.pop("epsilon"),
    "another kind": lambda raw: raw.update(epsilon="2"),
    "a truth": lambda raw: raw.update(rows=True),
    "an answer that is none": lambda raw: raw.update(searched="perhaps"),
    "a source that no file can hold": lambda raw: raw.update(ranges_from="\ud800"),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_job_is_refused_and_named(how, tmp_path):
    raw = {"format": "dpmac-job-1", **asdict(WHOLE)}
    DAMAGES[how](raw)
    (tmp_path / JOB).write_text(json.dumps(raw))
    with pytest.raises(ValueError, match=r"job\.json: damaged, or of another version"):
        Job.load(tmp_path)


def test_a_job_that_is_not_there_is_missing_and_not_damaged(tmp_path):
    with pytest.raises(FileNotFoundError):
        Job.load(tmp_path)


def test_a_job_of_an_older_version_has_its_bound_of_rows(tmp_path):
    raw = {"format": "dpmac-job-1", **asdict(WHOLE)}
    for name in ("groups", "max_rows", "written", "memory", "scratch"):
        del raw[name]
    (tmp_path / JOB).write_text(json.dumps(raw))
    assert Job.load(tmp_path) == replace(WHOLE, max_rows=4)


@pytest.mark.parametrize("name", [JOB, OWN_LEDGER, CHECKPOINT, f"{CHECKPOINT}/state"])
def test_a_link_in_a_run_is_refused_whichever_file_it_is(name, tmp_path):
    WHOLE.save(tmp_path)
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    target = tmp_path / "target"
    target.touch()
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    with pytest.raises(ValueError, match=f"{path.name} is a link"):
        Job.load(tmp_path)


# --- the rows ---------------------------------------------------------------------------------------------------------


def test_rows_and_persons_are_counted_however_they_are_kept(tmp_path):
    table = {"a": ["0", "1", "0"], "who": ["x", "y", "x"]}
    (tmp_path / "t.csv").write_text("a,who\n0,x\n1,y\n0,x\n")
    for rows in (table, Files(tmp_path / "t.csv")):
        assert (counted(rows, None), counted(rows, "who")) == (3, 2)
    assert (WHOLE.unit, replace(WHOLE, groups="who").unit) == ("rows", "persons")


def test_the_memory_that_rows_may_take_is_in_mib(monkeypatch):
    asked = []
    monkeypatch.setattr(stored, "open_table", lambda *_, **more: asked.append(more))
    schema = WHOLE.read_schema()
    for memory in (None, 1, 3):
        replace(WHOLE, memory=memory).table(schema, quiet=True)
    assert [one["memory"] for one in asked] == [MEMORY, 2**20, 3 * 2**20]
    for scratch in (None, "none", "/there"):
        replace(WHOLE, scratch=scratch).table(schema, quiet=False)
    assert [one["scratch"] for one in asked[3:]] == ["auto", None, "/there"]
    assert [one["progress"] for one in asked] == [False] * 3 + ["auto"] * 3
    for memory in (0, -1):
        with pytest.raises(ArgumentError, match="--memory="):
            replace(WHOLE, memory=memory).table(schema, quiet=True)


def test_a_file_or_the_last_file_of_a_folder_says_when_it_was_written(tmp_path):
    assert Job.written_at(tmp_path / "none") is None
    for name, when in (("a", 30), ("b", 50), ("c", 20)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, ns=(when, when))
    os.utime(tmp_path, ns=(40, 40))
    assert (Job.written_at(tmp_path / "a"), Job.written_at(tmp_path)) == (30, 50)
    os.utime(tmp_path, ns=(60, 60))
    assert Job.written_at(str(tmp_path)) == 60


def test_pictures_are_written_when_the_last_of_them_is(monkeypatch):
    asked = []
    monkeypatch.setattr("dpmac.cli.pictures.written_at", lambda job: asked.append(job) or 7)
    monkeypatch.setattr(Job, "written_at", staticmethod(lambda _: 5))
    album = replace(WHOLE, pictures={"images": "path"})
    assert (WHOLE.written_now(), album.written_now()) == (5, 7)
    assert asked == [album]


def test_a_job_may_have_no_privacy_and_says_so_in_its_file(tmp_path):
    replace(WHOLE, epsilon=math.inf).save(tmp_path)
    assert Job.load(tmp_path).epsilon == math.inf
