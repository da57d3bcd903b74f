"""Finished runs stay finished, whatever ends the work: errors, damaged files, dead processes, Ctrl-C, kill -9.

The jobs here are fakes that leave a file for every call.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes import fake_jobs, fake_run

from reproduction.runner import Task, Watcher, run_all, unfinished
from reproduction.store import Store

ROOT = Path(__file__).parents[2]


@pytest.fixture
def task(tmp_path):
    (tmp_path / "calls").mkdir()
    return Task(fake_run, Store(tmp_path / "out"), str(tmp_path / "calls"))


def called(task, job):
    return len(list(Path(task.data_path).glob(f"{job.key}.call.*")))


def test_finished_runs_are_never_redone_and_damaged_ones_are(task):
    jobs = fake_jobs(count=4)
    first = run_all(jobs[:2], task)
    second = run_all([*jobs, *jobs], task)  # named twice, done once
    third = run_all(jobs, task)
    assert [(r.kept, r.done) for r in (first, second, third)] == [(0, 2), (2, 2), (4, 0)]
    assert [called(task, job) for job in jobs] == [1, 1, 1, 1]
    assert unfinished(jobs, task.store) == []
    path = task.store.path(jobs[0])
    path.write_text("{")
    report = run_all(jobs, task)
    assert [error.path for error in report.damaged] == [path]
    assert (report.kept, report.done, report.failures) == (3, 1, [])
    assert task.store.load(jobs[0]).result["metric"] == 0.9
    assert [called(task, job) for job in jobs] == [2, 1, 1, 1]


def test_parallel_equals_serial_and_what_fails_or_dies_stays_alone(task, tmp_path):
    jobs = [*fake_jobs(count=2), *fake_jobs("fails", count=2)]
    serial = run_all(jobs, task)
    other = Task(fake_run, Store(tmp_path / "parallel"), task.data_path)
    deadly = fake_jobs("dies", count=3)
    parallel = run_all([*jobs, *deadly, *fake_jobs("slow", count=2)], other, workers=2)
    assert (serial.done, [f.job for f in serial.failures]) == (3, [jobs[3]])
    assert parallel.done == 3 + 2 + 2
    assert {f.job: f.error for f in parallel.failures} == {
        jobs[3]: "RuntimeError: no luck",
        deadly[1]: "its process died: out of memory, killed, or a crash in native code",
    }
    for its in (task, other):
        assert "second line" in its.store.error_path(jobs[3]).read_text()
        assert its.store.load(jobs[3]) is None
    assert [task.store.load(job) for job in jobs] == [other.store.load(job) for job in jobs]
    task.store.save(jobs[3], {"metric": 1.0})
    assert not task.store.error_path(jobs[3]).exists()


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

    run_all(fake_jobs("fails", count=2), task, watcher=Ear())
    assert Ear.heard == [("begin", 2, 1), ("started", 0), ("finished", 0), ("started", 1), ("failed", 1)]


# --- stopped from outside ---------------------------------------------------------------------------------------------

SCRIPT = """
import sys
sys.path[:0] = {paths!r}
from fakes import fake_jobs, fake_run
from reproduction.runner import Task, run_all
from reproduction.store import Store
run_all(fake_jobs("slow", 10), Task(fake_run, Store({out!r}), {calls!r}), workers=2)
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
    jobs = fake_jobs("slow", 10)
    paths = [str(Path(__file__).parent), str(ROOT)]
    script = SCRIPT.format(paths=paths, out=str(task.store.folder), calls=task.data_path)
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
