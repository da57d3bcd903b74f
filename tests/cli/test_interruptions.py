"""Whatever stops a training, nothing that was paid for is lost, and ``dpmac resume`` goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest

import dpmac
from cli.commands import lines_of, wait_for
from dpmac.cli.jobs import Job
from dpmac.cli.watching import Watch
from dpmac.privacy import Ledger

TRAIN = ["train", "adult.csv", "--schema", "adult.schema.json", "--epsilon", "2", "--hidden", "none", "--quiet"]
STEPS = 160
AFTER = STEPS + 2  # a line of the header, and one of the calibration


@pytest.fixture
def people(adult, tmp_path):
    """A folder of one's own with the files."""
    for name in ("adult.csv", "adult.schema.json"):
        shutil.copy(adult.folder / name, tmp_path)
    return tmp_path


def begun(server, folder, name, *words, **how):
    more = ["--batch-size", "100", "--epochs", str(STEPS * 100 / 1000), "--out", name, "--ledger", f"{name}.ledger"]
    return server.begin(*TRAIN, *more, *words, folder=folder, **how)


def weights(folder):
    return [layer.matrix().tolist() for layer in dpmac.load(folder).network_.weight_layers]


@pytest.fixture(scope="module")
def whole(adult, server):
    """The run that nothing stopped, with the seed of the others."""
    done = begun(server, adult.folder, "whole", "--seed", "5", inside=True).end()
    assert done.code == 0, done.err
    return adult.folder


STOPS = [
    pytest.param(signal.SIGINT, 40, id="Ctrl-C in the middle"),
    pytest.param(signal.SIGKILL, 90, id="killed late"),
    pytest.param(signal.SIGINT, 2, id="Ctrl-C at the first step", marks=pytest.mark.long),
    pytest.param(signal.SIGINT, 159, id="Ctrl-C at the last step", marks=pytest.mark.long),
    pytest.param(signal.SIGKILL, 2, id="killed at once", marks=pytest.mark.long),
    pytest.param(signal.SIGKILL, AFTER, id="killed while calibrating", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("signum", "lines"), STOPS)
def test_a_stopped_run_goes_on_and_ends_as_the_uninterrupted_one(signum, lines, people, whole, server):
    running = begun(server, people, "run", "--seed", "5")
    wait_for(lambda: lines_of(people / "run.ledger") >= lines)
    running.send(signum)
    ended = running.end()
    assert "Traceback" not in ended.err
    if ended.code != 0:  # it may have been at its end
        spent = len(Ledger.read(people / "run.ledger"))
        assert spent >= lines - 1
        found = server.run("inspect", "run", "--json", folder=people).json()
        assert (found["finished"], found["releases"]) == (False, spent)
        if signum == signal.SIGINT:
            assert ended.code == 130
            assert f"stopped after {spent:,} releases" in ended.err
            assert f"{people / 'run.ledger'} holds epsilon" in ended.err
            assert "dpmac resume run" in ended.err
        again = begun(server, people, "run").end()
        assert again.code == 2
        assert "an interrupted run is there" in again.err
        resumed = server.run("resume", "run", "--json", folder=people)
        assert resumed.json()["epsilon"] <= 2.0
    assert weights(people / "run") == weights(whole / "whole")
    assert len(Ledger.read(people / "run.ledger")) == len(Ledger.read(whole / "whole.ledger"))
    assert sorted(path.name for path in (people / "run").glob("*heckpoint*")) == []


def test_a_disk_that_fills_up_stops_a_run_that_goes_on_when_there_is_room(people, server):
    full = begun(server, people, "run", file_limit=12_000).end()
    assert full.code == 1
    assert "File too large" in full.err
    assert "dpmac resume run" in full.err
    assert "Traceback" not in full.err
    assert server.run("ledger", "verify", "run.ledger", folder=people).code == 0
    paid = len(Ledger.read(people / "run.ledger"))
    assert 0 < paid < STEPS
    done = server.run("resume", "run", folder=people)
    assert done.code == 0, done.err
    assert dpmac.load(people / "run").privacy_.epsilon <= 2.0


def test_an_interruption_before_anything_is_spent_leaves_nothing(people, run, monkeypatch):
    from dpmac.estimators import DPMACClassifier

    def interrupted(self, *_, **__):
        self.machine.checkpoint.folder.mkdir()  # the first checkpoint comes before the first release
        self.machine.checkpoint.path.touch()
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(DPMACClassifier, "fit", interrupted)
    before = sorted(os.listdir(people))
    done = run(*TRAIN, "--out", "run", "--ledger", "run.ledger")
    assert done.code == 130
    assert done.err == "dpmac: nothing was spent\ndpmac: interrupted\n"
    assert sorted(os.listdir(people)) == before


def test_an_interruption_while_the_model_is_written_waits(people, run, monkeypatch):
    from dpmac import saving

    exact = saving.save

    def interrupted(*what, **more):
        signal.raise_signal(signal.SIGINT)
        return exact(*what, **more)

    monkeypatch.setattr(saving, "save", interrupted)
    done = run(*TRAIN, "--epochs", "1", "--batch-size", "500", "--out", "run")
    assert done.code == 0, done.err
    assert "finishing, so that nothing paid for is lost" in done.err
    assert dpmac.load(people / "run").privacy_.epsilon <= 2.0


def test_a_model_that_cannot_be_written_where_it_should_is_written_elsewhere(people, run, monkeypatch):
    from dpmac import saving

    exact = saving.save

    def full(estimator, folder, **more):
        if str(folder) == "run":
            raise OSError(28, "No space left on device")
        return exact(estimator, folder, **more)

    monkeypatch.setattr(saving, "save", full)
    done = run(*TRAIN, "--epochs", "1", "--batch-size", "500", "--out", "run", "--ledger", "l", "--json")
    assert "No space left on device; the model is written to" in done.err
    elsewhere = done.json()["run"]
    assert dpmac.load(elsewhere).privacy_.epsilon <= 2.0
    shutil.rmtree(elsewhere)


def test_what_was_paid_for_in_vain_is_not_paid_again_unasked(people, run):
    assert run(*TRAIN, "--epochs", "1", "--batch-size", "500", "--out", "run", "--ledger", "l").code == 0
    lost = people / "lost"
    lost.mkdir()
    job = {name: getattr(Job, name, None) for name in Job.__dataclass_fields__}
    schema = json.loads((people / "adult.schema.json").read_text())
    paths = {"file": str(people / "adult.csv"), "ledger": str(people / "l")}
    fast = {"epsilon": 1.0, "rows": 1000, "epochs": 1, "batch_size": 500, "hidden": [], "before": 1}
    Job(**{**job, **paths, **fast, "schema": schema, "name": "run"}).save(lost)  # as if the releases were its own
    paid = len(Ledger.read(people / "l"))
    done = run("resume", "lost")
    assert done.code == 1
    assert "no checkpoint is left" in done.err
    assert len(Ledger.read(people / "l")) == paid
    assert run("resume", "lost", "--again").code == 0
    assert len(Ledger.read(people / "l")) > paid


def test_a_run_is_not_resumed_with_something_else(people, run, server):
    running = begun(server, people, "run", "--seed", "5")
    wait_for(lambda: lines_of(people / "run.ledger") >= 5)
    running.send(signal.SIGKILL)
    running.end()
    last_row = (people / "adult.csv").read_text().splitlines(keepends=True)[-1]
    changes = [
        ("adult.csv", last_row, "", 2, "it has 999 rows"),
        ("run.ledger", '"sample_rate": 0.1', '"sample_rate": 0.01', 1, "line 2: edited"),
        ("run/job.json", '"format"', '"from"', 1, "job.json: damaged"),
    ]
    for name, old, new, code, message in changes:
        path = people / name
        text, when = path.read_text(), path.stat().st_mtime_ns
        assert old in text
        path.write_text(text.replace(old, new, 1))
        done = run("resume", "run")
        assert (done.code, done.err.count("\n")) == (code, 1), done.err
        assert message in done.err
        assert (people / "run" / "checkpoint").exists()
        path.write_text(text)
        os.utime(path, ns=(when, when))  # as it was, date and all
    assert run("resume", "run").code == 0


def test_the_epsilon_that_progress_shows_is_never_rounded_down(monkeypatch):
    watch = Watch(Ledger(), 0, 10, 1e-5)
    monkeypatch.setattr(watch, "done", lambda: 4)
    watch._curve, watch._start = [(5, 2.28510001)], (0.0, 1)
    assert watch.words()["spent"] == "epsilon at most 2.286"
