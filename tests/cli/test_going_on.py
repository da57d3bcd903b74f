"""``dpmac resume`` and ``train`` around trainings that only pretend: who trains, who follows, who tidies up."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dpmac.cli import several, training
from dpmac.cli.jobs import CHECKPOINT, JOB, OWN_LEDGER, Job
from dpmac.extensions.world import SINGLE_PROCESS
from dpmac.privacy import Entry, Ledger

TRAIN = ["train", "patients.csv", "--schema", "patients.schema.json", "--epsilon", "2", "--out", "run"]


@pytest.fixture
def job(new_hospital):
    schema = json.loads((new_hospital / "patients.schema.json").read_text())
    file = new_hospital / "patients.csv"
    made = Job(str(file), schema, str(new_hospital / "book"), 2.0, rows=400, written=Job.written_at(file), name="run")
    made.begin(new_hospital / "run")
    return made


@pytest.fixture
def trained(monkeypatch):
    """Trainings, which release nothing."""
    seen = []

    def train(job, folder, table, public, **more):
        seen.append(SimpleNamespace(what="train", job=job, folder=str(folder), rows=len(table["age"]), **more))
        ledger = Ledger()
        ledger.append(Entry("training step", 4.0, 1.0))
        privacy = SimpleNamespace(epsilon=1.0, delta=1e-5, ledger=ledger, statement=lambda: "a statement")
        return training.Trained(SimpleNamespace(privacy_=privacy), folder, None)

    def follow(job, folder, table, public, world):
        seen.append(SimpleNamespace(what="follow", job=job, folder=str(folder), rows=len(table["age"]), world=world))

    monkeypatch.setattr(training, "train", train)
    monkeypatch.setattr(training, "follow", follow)
    return seen


@pytest.fixture
def as_one_of_two(monkeypatch):
    """Run the next command as the process of this rank, whose other one says the same, or sees another file."""

    def given(rank, other_file=False):
        def everyone(mine):
            return ["another", mine] if other_file and isinstance(mine, str) else [mine, mine]

        world = SimpleNamespace(rank=rank, size=2, leads=rank == 0, everyone=everyone)

        @contextmanager
        def entered():
            yield world

        monkeypatch.setattr(several, "several", entered)
        return world

    return given


def test_a_run_goes_on_with_its_job_and_tells_of_it(job, run, trained):
    for words, quiet in (([], False), (["--quiet"], True)):
        done = run("resume", "run", *words)
        assert done.code == 0, done.err
        assert "a statement" in done.out
        assert (trained[-1].what, trained[-1].job, trained[-1].folder, trained[-1].rows) == ("train", job, "run", 400)
        assert (trained[-1].quiet, trained[-1].world) == (quiet, SINGLE_PROCESS)
    found = run("resume", "run", "--json").json()
    assert (found["epsilon"], trained[-1].quiet) == (1.0, True)
    assert 0 <= found["seconds"] < 60


def test_what_is_paid_again_or_was_written_to_must_be_asked_for(job, new_hospital, run, trained):
    Ledger.at(job.ledger).append(Entry("training step", 4.0, 0.5, model=job.name))
    assert run("resume", "run").code == 1
    assert run("resume", "run", "--same-rows").code == 1
    assert trained == []
    assert run("resume", "run", "--again").code == 0
    replace(job, written=1).save(new_hospital / "run")
    assert run("resume", "run", "--again").code == 2
    assert len(trained) == 1
    assert run("resume", "run", "--again", "--same-rows").code == 0


def test_a_place_that_is_gone_is_noticed_before_the_training_goes_on(job, new_hospital, run, trained):
    replace(job, scratch=str(new_hospital / "gone")).save(new_hospital / "run")
    done = run("resume", "run")
    assert (done.code, "--scratch" in done.err) == (2, True)
    assert trained == []
    replace(job, scratch="none").save(new_hospital / "run")
    assert run("resume", "run").code == 0


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_finished_run_is_tidied_up_by_who_leads_alone(rank, job, new_hospital, run, trained, monkeypatch):
    from dpmac import saving

    monkeypatch.setenv("RANK", rank)
    opened = []
    monkeypatch.setattr(saving, "open_folder", opened.append)
    folder = new_hospital / "run"
    (folder / "dpmac.json").touch()
    (folder / CHECKPOINT).mkdir()
    (folder / OWN_LEDGER).touch()
    done = run("resume", "run")
    assert (done.code, trained, "is finished" in done.err) == (0, [], rank == "0")
    assert len(opened) == (rank == "0")  # a model that cannot be read is not what its ledger is removed for
    for name in (JOB, CHECKPOINT, OWN_LEDGER):
        assert (folder / name).exists() is (rank == "1")


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("words", [["resume", "run"], TRAIN])
def test_one_process_leads_and_the_others_follow(rank, words, new_hospital, run, trained, as_one_of_two, request):
    if words[0] == "resume":
        request.getfixturevalue("job")
    world = as_one_of_two(rank)
    done = run(*words)
    assert done.code == 0, done.err
    (seen,) = trained
    assert (seen.what, seen.world, seen.folder) == ("follow" if rank else "train", world, "run")
    if rank:
        assert (done.out, done.err) == ("", "")
        assert (new_hospital / "run").exists() is (words[0] == "resume")


@pytest.mark.parametrize("words", [["resume", "run"], TRAIN])
def test_a_process_that_sees_another_file_stops_before_it_trains(
    words, new_hospital, run, trained, as_one_of_two, request
):
    if words[0] == "resume":
        request.getfixturevalue("job")
    as_one_of_two(1, other_file=True)
    done = run(*words)
    assert (done.code, "sees another file" in done.err) == (2, True)
    assert trained == []
