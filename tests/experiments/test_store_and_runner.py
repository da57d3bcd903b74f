"""Finished runs stay finished, whatever ends the work: errors, damaged files, dead processes, Ctrl-C, kill -9.

The jobs here are fakes that leave a file for every call. This module imports nothing heavy, because the worker
processes import it to find ``fake_run``.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpmac.experiments.runner import Task, Watcher, run_all, unfinished
from dpmac.experiments.store import DamagedRunError, Job, Store, provenance, write_atomically


def fake_run(job, data_path, device="cpu"):
    """A result by seed; the row's name says what else happens. Every call leaves a file ``KEY.call.N.PID``."""
    import torch

    calls = Path(data_path)
    (calls / f"{job.key}.call.{time.monotonic_ns()}.{os.getpid()}").touch()
    if job.row == "fails" and job.seed == 1:
        raise RuntimeError("no luck\nsecond line")
    if job.row == "dies" and job.seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if job.row == "slow":
        while job.seed >= 4 and not (calls / "go on").exists():  # until then four runs are all there can be
            time.sleep(0.02)
    (calls / f"{job.key}.ended").touch()
    return {
        "metric": 0.9 + job.seed / 100,
        "curve": [],
        "mechanisms": [],
        "delta": 1e-5,
        "threads": torch.get_num_threads(),
    }


def make(row="fine", count=4, epsilon=2.0):
    return [Job("mnist", row, "paper", epsilon, seed) for seed in range(count)]


@pytest.fixture
def task(tmp_path):
    (tmp_path / "calls").mkdir()
    return Task(fake_run, Store(tmp_path / "out"), str(tmp_path / "calls"))


def called(task, job=None):
    return len(list(Path(task.data_path).glob(f"{job.key if job else '*'}.call.*")))


# --- the store --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, math.inf])
def test_what_is_saved_is_read_back(tmp_path, epsilon):
    store, (job,) = Store(tmp_path / "deep" / "down"), make(count=1, epsilon=epsilon)
    assert store.load(job) is None
    assert store.all() == ([], [])
    path = store.save(job, {"metric": 0.5, "curve": [{"epoch": 1.0}], "pair": (1, 2)}, provenance("dpmac x", "cpu"))
    assert path == tmp_path / "deep" / "down" / "runs" / f"{job.key}.json"
    found = store.load(job)
    assert (found.table, found.row, found.preset, found.epsilon, found.seed) == ("mnist", "fine", "paper", epsilon, 0)
    assert found.result == {"metric": 0.5, "curve": [{"epoch": 1.0}], "pair": [1, 2]}
    assert {"dpmac", "torch", "dp-accounting", "python", "machine", "command", "device"} <= set(found.made_with)
    assert store.all() == ([found], [])
    assert [p.name for p in store.runs.iterdir()] == [path.name]  # no temporary file is left


@pytest.mark.parametrize("metric", [math.nan, math.inf, None, "0.5", True])
def test_a_result_without_a_number_is_refused(tmp_path, metric):
    store, (job,) = Store(tmp_path), make(count=1)
    with pytest.raises(ValueError, match="finite number"):
        store.save(job, {"metric": metric})
    with pytest.raises(ValueError, match="JSON compliant"):
        store.save(job, {"metric": 1.0, "curve": [{"test": math.nan}]})
    assert store.all() == ([], [])


def damage(path, how):
    text = path.read_text()
    changed = {
        "empty": "",
        "cut": text[: len(text) // 2],
        "edited": text.replace("0.9", "0.99"),
        "other JSON": "[1, 2]",
        "other format": text.replace('"format": 1', '"format": 0'),
        "no job": json.dumps({"format": 1, "sha256": "x"}),
    }
    path.write_bytes(b"\xff\xfe\x00" if how == "bytes" else changed[how].encode())


@pytest.mark.parametrize("how", ["empty", "cut", "edited", "other JSON", "other format", "no job", "bytes"])
def test_a_damaged_file_is_reported_and_redone(task, how):
    jobs = make(count=2)
    run_all(jobs, task)
    path = task.store.path(jobs[0])
    damage(path, how)
    with pytest.raises(DamagedRunError, match=jobs[0].key):
        task.store.load(jobs[0])
    finished, damaged = task.store.all()
    assert [run.seed for run in finished] == [1]
    assert [error.path for error in damaged] == [path]
    report = run_all(jobs, task)
    assert [error.path for error in report.damaged] == [path]
    assert (report.kept, report.done, report.failures) == (1, 1, [])
    assert task.store.load(jobs[0]).result["metric"] == 0.9
    assert (called(task, jobs[0]), called(task, jobs[1])) == (2, 1)


def test_a_file_under_another_name_is_damaged(task):
    jobs = make(count=2)
    run_all(jobs[:1], task)
    task.store.path(jobs[0]).rename(task.store.path(jobs[1]))
    with pytest.raises(DamagedRunError, match="another run"):
        task.store.load(jobs[1])


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


# --- the runner -------------------------------------------------------------------------------------------------------


def test_finished_runs_are_never_redone(task):
    jobs = make(count=4)
    first = run_all(jobs[:2], task)
    second = run_all([*jobs, *jobs], task)  # named twice, done once
    third = run_all(jobs, task)
    assert [(r.kept, r.done) for r in (first, second, third)] == [(0, 2), (2, 2), (4, 0)]
    assert [called(task, job) for job in jobs] == [1, 1, 1, 1]
    assert unfinished(jobs, task.store) == []


def test_parallel_equals_serial_and_failures_stay_alone(task, tmp_path):
    import torch

    jobs = [*make(count=3), *make("fails", count=3)]
    threads = torch.get_num_threads()
    serial = run_all(jobs, task)
    assert torch.get_num_threads() == threads
    other = Task(fake_run, Store(tmp_path / "parallel"), task.data_path)
    parallel = run_all(jobs, other, workers=2)
    for report, its in ((serial, task), (parallel, other)):
        assert (report.done, len(report.failures)) == (5, 1)
        assert report.failures[0].job == jobs[4]
        assert report.failures[0].error == "RuntimeError: no luck"
        assert "second line" in its.store.error_path(jobs[4]).read_text()
        assert its.store.load(jobs[4]) is None
    assert task.store.all() == other.store.all()
    assert all(run.result["threads"] == 1 for run in other.store.all()[0])
    task.store.save(jobs[4], {"metric": 1.0})
    assert not task.store.error_path(jobs[4]).exists()


def test_a_process_that_dies_takes_no_other_run_with_it(task):
    jobs = [*make("dies", count=3), *make("slow", count=3)]
    report = run_all(jobs, task, workers=2)
    assert [(f.job, "process died" in f.error) for f in report.failures] == [(jobs[1], True)]
    assert report.done == 5
    assert len(task.store.all()[0]) == 5


def test_the_watcher_hears_everything(task):
    class Ear(Watcher):
        heard: list = []  # noqa: RUF012

        def begin(self, jobs, workers):
            self.heard.append(("begin", len(jobs), workers))

        def started(self, job):
            self.heard.append(("started", job.seed))

        def finished(self, job, seconds):
            assert seconds >= 0
            self.heard.append(("finished", job.seed))

        def failed(self, failure):
            self.heard.append(("failed", failure.job.seed))

    run_all(make("fails", count=2), task, watcher=Ear())
    assert Ear.heard == [("begin", 2, 1), ("started", 0), ("finished", 0), ("started", 1), ("failed", 1)]


# --- stopped from outside ---------------------------------------------------------------------------------------------

SCRIPT = """
import sys
sys.path.insert(0, {here!r})
from test_store_and_runner import Store, Task, fake_run, make, run_all
run_all(make("slow", 10), Task(fake_run, Store({out!r}), {calls!r}), workers=2)
"""


def at_work(pid):
    """A process that is there and not merely unburied."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="watches processes through /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_in_the_middle_and_gone_on(task, how):
    jobs = make("slow", 10)
    script = SCRIPT.format(here=str(Path(__file__).parent), out=str(task.store.folder), calls=task.data_path)
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        start_new_session=True,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell in the background ignores it
    )
    deadline = time.monotonic() + 60
    while len(task.store.all()[0]) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    if how == signal.SIGKILL:
        process.kill()  # the parent alone: its workers must notice
    else:
        os.killpg(process.pid, how)  # as a terminal does: the whole group
    process.communicate(timeout=20)
    assert process.returncode != 0
    workers = {int(p.name.rsplit(".", 1)[1]) for p in Path(task.data_path).glob("*.call.*")}
    while any(map(at_work, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(at_work, workers))
    before = {run.seed for run in task.store.all()[0]}
    assert 3 <= len(before) <= 4
    (Path(task.data_path) / "go on").touch()
    report = run_all(jobs, task)
    assert (report.kept, report.done, report.damaged, report.failures) == (len(before), 10 - len(before), [], [])
    assert all(called(task, jobs[seed]) == 1 for seed in before)
    assert [run.result["metric"] for run in task.store.all()[0]] == [0.9 + job.seed / 100 for job in jobs]
