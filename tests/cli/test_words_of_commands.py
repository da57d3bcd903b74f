"""What commands say and look at besides their numbers: columns by name, headers, and quiet where it was asked for."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpmac.checks import ArgumentError
from dpmac.cli import budget, jobs, several, telling, training
from dpmac.cli import train as command
from dpmac.cli.ending import Failed
from dpmac.cli.jobs import Job
from dpmac.extensions.persons import MOST
from dpmac.extensions.world import SINGLE_PROCESS
from dpmac.privacy import Entry, Ledger
from dpmac.saving import arguments
from dpmac.tables import Category, Files, Number, Schema
from dpmac.tables.stored import open_table
from dpmac.training.defaults import safe_delta

TRAIN = ["train", "patients.csv", "--schema", "patients.schema.json", "--epsilon", "2", "--out", "run"]
ESTIMATE = ["schema", "estimate", "patients.csv", "--schema", "half-done.json", "--ledger", "book", "--epsilon", "1"]


@pytest.fixture
def job(new_hospital):
    schema = json.loads((new_hospital / "patients.schema.json").read_text())
    return Job(str(new_hospital / "patients.csv"), schema, str(new_hospital / "book"), 2.0, rows=400)


@pytest.fixture
def begun(monkeypatch):
    """Jobs that were begun, instead of trained, and whether the folder of their ledgers was there."""
    seen = []

    def train(job, *_, **__):
        seen.append((job, Path(job.ledger).parent.is_dir()))
        raise Failed("enough")

    monkeypatch.setattr(training, "train", train)
    return seen


# --- budget and ledger ------------------------------------------------------------------------------------------------


def test_the_table_of_an_estimators_plan_has_its_batch_size_and_what_follows(capsys):
    answer = {"noise_multiplier": 1.5, "epsilon_pld": 2.0, "epsilon_rdp": 2.5, "delta": 1e-5, "sample_rate": 0.25}
    answer |= {"steps": 77, "batch_size": 1234.4, "defaults": {}}
    for after, said in ((SimpleNamespace(label="calibration"), "calibration, 5% of"), (None, "nothing: too few rows")):
        budget._show(answer, SimpleNamespace(estimator="E", after=after, share=0.05))
        lines = capsys.readouterr().out.splitlines()
        assert any("batch size, expected" in line and "1,234" in line for line in lines)
        assert any("after training" in line and said in line for line in lines)


def test_every_column_of_a_ledger_has_its_name(run, tmp_path):
    Ledger(tmp_path / "book").append(Entry("training step", 4.0, 0.5))
    header = next(line for line in run("ledger", "show", "book").out.splitlines() if "purpose" in line)
    assert [word.strip() for word in header.strip("┃ ").split("┃")] == [
        *("date", "model", "purpose", "what", "releases", "noise", "rate")
    ]


# --- schema -----------------------------------------------------------------------------------------------------------


def test_a_template_has_the_files_name_and_no_target_that_is_not_there(new_hospital, run):
    assert run("schema", "init", "patients.csv").json()["name"] == "patients"
    done = run("schema", "init", "patients.csv", "--target", "deaths")
    assert (done.code, done.out) == (2, "")
    assert "deaths" in done.err


def test_a_check_names_the_columns_that_a_file_lacks(new_hospital, run):
    done = run("schema", "check", "patients.schema.json", "new-patients.csv")
    assert done.code == 2
    assert "file='new-patients.csv': it has no column 'death'" in done.err


def test_a_check_of_a_file_tells_the_same_however_it_is_read(new_hospital):
    """In memory or batch by batch: one line for each column, of its first cell that cannot be read."""
    from dpmac.cli.schema_check import _unreadable

    schema = Schema({"age": Number(0, 120), "sex": Number(0, 1), "ward": Category(["A", "B", "C"])})
    file = new_hospital / "patients.csv"
    found = [_unreadable(schema, table, file) for table in (Files(file), open_table(file))]
    assert found[0] == found[1]
    assert len(found[0]) == 1
    assert "sex" in found[0][0]


def test_an_estimate_of_many_rows_is_at_a_delta_far_below_one_in_so_many(new_hospital, run, monkeypatch):
    monkeypatch.setattr(jobs, "counted", lambda *_: 3_000_000)
    about = json.loads(run(*ESTIMATE).out)["about"]
    assert safe_delta(3_000_000) == 1e-8
    assert "at delta 1e-08" in about


# --- train and resume -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "leads", "quiet"),
    [([], True, False), (["--quiet"], True, True), (["--json"], True, True), ([], False, True)],
)
@pytest.mark.parametrize("resumed", [False, True])
def test_a_table_is_read_in_silence_where_that_is_asked_or_another_process_speaks(
    words, leads, quiet, resumed, job, run, new_hospital, monkeypatch
):
    asked = []

    def table(*_, quiet):
        asked.append(quiet)
        raise Failed("enough")

    monkeypatch.setattr(Job, "table", table)
    world = SimpleNamespace(rank=int(not leads), size=2, leads=leads, everyone=lambda mine: [mine, mine])
    monkeypatch.setattr(several, "several", lambda: nullcontext(world))
    if resumed:
        replace(job, written=Job.written_at(job.file)).begin(new_hospital / "run")
    done = run(*(["resume", "run"] if resumed else TRAIN), *words)
    assert (done.code, asked) == (1, [quiet])


def test_a_training_names_columns_that_are_not_there_and_leaves_nothing(new_hospital, run, begun):
    done = run(*["train", "new-patients.csv", *TRAIN[2:]])
    assert (done.code, begun) == (2, [])
    assert "new-patients.csv" in done.err
    assert "death" in done.err
    assert not (new_hospital / "run").exists()


def test_a_training_says_what_it_begins_unless_it_is_to_be_quiet(new_hospital, run, begun):
    first, own = "training a classifier of death on 400 rows, epsilon 2", "no --ledger was given"
    for words, said in (([], [True, True]), (["--ledger", "book"], [True, False])):
        out = run(*TRAIN, *words).out
        assert [text in out for text in (first, own)] == said
    assert "training an autoencoder on 400 rows" in run(*TRAIN, "--autoencoder").out
    for word in ("--quiet", "--json"):
        assert run(*TRAIN, word).out == ""
    assert len(begun) == 5


def test_a_ledgers_folders_are_made_with_it(new_hospital, run, begun):
    run(*TRAIN, "--ledger", "a/b/book")
    assert begun[0][1]


def test_the_seconds_of_a_training_are_those_from_its_beginning(job, tmp_path, monkeypatch):
    told, clock = [], iter([100.0, 103.5])
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(telling, "tell", lambda _, __, seconds, **___: told.append(seconds))
    monkeypatch.setattr(training, "train", lambda *_, **__: None)
    command.begin(job, tmp_path / "run", {}, quiet=True, as_json=False, world=SINGLE_PROCESS)
    assert told == [3.5]


@pytest.mark.parametrize("kept", [math.nan, object()])
def test_what_a_finished_run_could_not_keep_is_refused_before_it_begins(kept, job, monkeypatch):
    command.check_kept(job)
    monkeypatch.setattr(arguments, "arguments_of", lambda _: {"epsilon": kept})
    with pytest.raises((ValueError, TypeError), match="JSON"):
        command.check_kept(job)


@pytest.mark.parametrize(("change", "said"), [({"rows": 1}, "a guarantee needs a crowd"), ({"max_rows": 0}, "max-rows"),
                                              ({"max_rows": MOST + 1}, "max-rows")])  # fmt: skip
def test_numbers_of_a_job_are_looked_at_before_anything_is_made(change, said, job):
    command._check_numbers(job)
    with pytest.raises(ArgumentError, match=said):
        command._check_numbers(replace(job, **change))
