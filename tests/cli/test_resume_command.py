"""``dpmac resume`` and the files that it needs: changed, put away, damaged, or in use by somebody else."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace

import pytest

import dpmac
from cli.commands import lines_of, wait_for
from dpmac.cli.jobs import Job
from dpmac.files import part_of
from tests.cli.test_interruptions import begun


@pytest.fixture
def people(adult, tmp_path):
    for name in ("adult.csv", "adult.schema.json"):
        shutil.copy(adult.folder / name, tmp_path)
    return tmp_path


@pytest.fixture
def killed(people, server):
    """A folder with a run that was killed."""
    running = begun(server, people, "run", "--seed", "5")
    wait_for(lambda: lines_of(people / "run.ledger") >= 5)
    running.send(signal.SIGKILL)
    running.end()
    return people


def there(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_file_that_was_written_to_since_is_refused_unless_its_rows_are_the_same(killed, run):
    path = killed / "adult.csv"
    text, when = path.read_bytes(), path.stat()
    before = there(killed)
    path.write_bytes(text.replace(b"Male", b"Female", 1))
    done = run("resume", "run")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "it was written to since the training began" in done.err
    assert "dpmac resume run --same-rows" in done.err
    path.write_bytes(text)
    assert there(killed) == before
    assert run("resume", "run").code == 2  # the same rows, written anew: that is for the user to say
    assert run("resume", "run", "--same-rows", "--quiet").code == 0
    assert dpmac.load(killed / "run").privacy_.epsilon <= 2.0
    assert when.st_mtime_ns != path.stat().st_mtime_ns


def test_what_a_job_keeps_of_a_file_is_its_date(people, run, monkeypatch):
    """A digest or a length would be a function of private rows: two tables that differ in a cell make the same job."""
    from dpmac.estimators import DPMACClassifier

    jobs = []

    def stopped(*_, **__):
        jobs.append((people / "run" / "job.json").read_bytes())
        raise ValueError("stopped")

    monkeypatch.setattr(DPMACClassifier, "fit", stopped)
    path, words = people / "adult.csv", ["adult.csv", "--schema", "adult.schema.json", "--epsilon", "2", "--out", "run"]
    raw, when = path.read_bytes(), path.stat().st_mtime_ns
    for text in (raw, raw.replace(b"Female", b"Male", 5)):
        path.write_bytes(text)
        os.utime(path, ns=(when, when))
        assert run("train", *words).code == 1
    assert jobs[0] == jobs[1]
    assert Job.written_at(path) == when


def test_a_run_whose_ledger_was_put_away_is_left_as_it_was(killed, run):
    """Found by fuzzing: the checkpoint was removed, because a new and empty ledger said that nothing was spent."""
    away = killed / "away"
    away.mkdir()
    for name in ("run.ledger", "run.ledger.seen", "run.ledger.writer"):
        if (killed / name).exists():
            (killed / name).rename(away / name)
    before = there(killed)
    assert run("resume", "run").code in (1, 2)
    assert there(killed) == before
    for path in away.iterdir():
        path.rename(killed / path.name)
    assert run("resume", "run", "--quiet").code == 0


def test_a_second_process_in_a_run_is_refused(people, run, server):
    running = begun(server, people, "run")
    wait_for(lambda: lines_of(people / "run.ledger") >= 3)
    running.send(signal.SIGSTOP)
    try:
        before = there(people)
        done = run("resume", "run")
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert f"process {running.pid}" in done.err
        assert "a ledger has one writer" in done.err
        assert there(people) == before
    finally:
        running.send(signal.SIGCONT)
    assert running.end().code == 0


def test_a_run_that_was_killed_before_it_had_tidied_up_is_tidied(killed, run):
    run("resume", "run", "--quiet")
    (killed / "run" / "job.json").write_text("{}")
    (killed / "run" / "checkpoint").mkdir()
    left, others = part_of(killed / "run"), part_of(killed / "run.b")
    left.mkdir()
    others.mkdir()  # of the run "run.b", which may be writing now
    done = run("resume", "run")
    assert done.code == 0
    assert "is finished" in done.err
    assert not (killed / "run" / "job.json").exists()
    assert not (killed / "run" / "checkpoint").exists()
    assert not left.exists()
    assert others.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("ledger", 3), ("schema", []), ("epsilon", "2"), ("epsilon", True), ("hidden", {}), ("rows", 1.5)],
)
def test_a_job_with_values_of_another_kind_is_damaged(tmp_path, name, value):
    """Found by fuzzing: they went on to where nobody expected them."""
    job = Job("f.csv", {}, "l", 1.0, rows=10, before=2, written=5)
    job.save(tmp_path)
    assert Job.load(tmp_path) == job
    assert Job.load(tmp_path) != replace(job, written=None)
    raw = json.loads((tmp_path / "job.json").read_text())
    (tmp_path / "job.json").write_text(json.dumps({**raw, name: value}))
    with pytest.raises(ValueError, match=rf"job\.json: damaged.*its {name} is"):
        Job.load(tmp_path)
    del raw["written"]  # as version 0.2 wrote it
    (tmp_path / "job.json").write_text(json.dumps(raw))
    assert Job.load(tmp_path).written is None
    (tmp_path / "job.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="damaged"):
        Job.load(tmp_path)
