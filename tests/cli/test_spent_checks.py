"""What ``resume``, ``schema estimate`` and ``train`` look at before anything is spent, and what they end with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpmac.checks import ArgumentError
from dpmac.cli import aims, telling, training, wanted
from dpmac.cli import resume as resuming
from dpmac.cli import train as command
from dpmac.cli.ending import Failed
from dpmac.cli.jobs import CHECKPOINT, JOB, Job
from dpmac.cli.public_rows import public_rows
from dpmac.extensions.world import SINGLE_PROCESS
from dpmac.privacy import Entry, Ledger
from dpmac.tables import Schema
from dpmac.tables.files import read_table
from dpmac.training.defaults import safe_delta

ESTIMATE = ["schema", "estimate", "patients.csv", "--schema", "half-done.json", "--ledger", "book"]
TRAIN = ["train", "patients.csv", "--schema", "patients.schema.json"]


def spending(path, count):
    for _ in range(count):
        Ledger.at(path).append(Entry("training step", 4.0, 0.5))


@pytest.fixture
def job(new_hospital):
    schema = json.loads((new_hospital / "patients.schema.json").read_text())
    return Job(str(new_hospital / "patients.csv"), schema, str(new_hospital / "book"), 2.0, rows=400)


# --- resume -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [0, 1, 2, 3])
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("left", ["no folder", "empty", "one", "two"])
@pytest.mark.parametrize("again", [False, True])
def test_what_was_spent_is_not_paid_again_unasked_and_a_ledger_may_not_lose_releases(
    held, before, left, again, job, tmp_path
):
    run = tmp_path / "run"
    run.mkdir()
    spending(job.ledger, held)
    if left != "no folder":
        (run / CHECKPOINT).mkdir()
    for name in {"one": ["a"], "two": ["a", "b"]}.get(left, []):
        (run / CHECKPOINT / name).touch()
    asked = replace(job, before=before)
    if held < before:
        with pytest.raises(Failed, match=f"it held {before} releases when the training began"):
            resuming._check_spent(run, asked, again)
    elif held > before and left in ("no folder", "empty") and not again:
        with pytest.raises(Failed, match=f"{held - before} releases were made, and no checkpoint is left"):
            resuming._check_spent(run, asked, again)
    else:
        resuming._check_spent(run, asked, again)


def test_a_table_that_is_not_as_it_was_is_refused_by_its_rows_or_its_date(job, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(ArgumentError, match="no training was begun there"):
        resuming._opened(run, False, True)
    run.mkdir()

    def opened(same_rows=False, **other):
        replace(job, **other).save(run)
        return resuming._opened(run, same_rows, True)

    when = Job.written_at(job.file)
    for same_rows in (False, True):
        for written in (None, when):
            assert opened(same_rows, written=written)[0].rows == 400
        with pytest.raises(ArgumentError, match=r"it has 400 rows, and the training began with 399"):
            opened(same_rows, rows=399)
        with pytest.raises(ArgumentError, match=r"it has 400 persons, and the training began with 401"):
            opened(same_rows, rows=401, groups="patient")
    assert opened(True, written=when - 1)[0].rows == 400
    with pytest.raises(ArgumentError, match=r"it was written to since .* dpmac resume .*run --same-rows"):
        opened(False, written=when - 1)
    with pytest.raises(ArgumentError, match="nobody"):
        opened(groups="nobody")


# --- schema estimate --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [None, 1e-9])
def test_an_estimate_is_paid_for_at_its_delta_and_says_where_it_comes_from(delta, new_hospital, run):
    done = run(*ESTIMATE, "--epsilon", "1", "--out", "new.json", *([] if delta is None else ["--delta", delta]))
    assert (done.code, done.out) == (0, "")
    at = safe_delta(400) if delta is None else delta
    ledger = Ledger.read(new_hospital / "book")
    assert 0.999 < ledger.epsilon(at) <= 1.0
    assert (ledger.entries[0].purpose, ledger.entries[0].seeded) == ("ranges of columns", False)
    assert "recorded in book" in done.err
    raw = json.loads((new_hospital / "new.json").read_text())
    schema = Schema.load(new_hospital / "new.json")
    assert f"at delta {at:g}" in schema.about
    assert raw["origin"] == json.loads(json.dumps(raw["origin"]))
    assert raw["origin"]
    before = (new_hospital / "new.json").read_text()
    assert run(*ESTIMATE, "--epsilon", "1", "--seed", "3").code == 0
    assert [entry.seeded for entry in Ledger.read(new_hospital / "book").entries] == [False, True]
    assert (new_hospital / "new.json").read_text() == before


def test_an_estimate_of_persons_counts_them_and_leaves_their_column_as_it_was(new_hospital, run):
    half = json.loads((new_hospital / "half-done.json").read_text())
    half["columns"]["patient"] = {"kind": "number", "low": None, "high": None}
    (new_hospital / "half-done.json").write_text(json.dumps(half))
    done = run(*ESTIMATE, "--epsilon", "1", "--groups", "patient")
    assert done.code == 0, done.err
    raw = json.loads(done.out)
    assert "estimated from 400 persons" in raw["about"]
    assert raw["columns"]["patient"] == half["columns"]["patient"]
    assert "person" in str(Ledger.read(new_hospital / "book").statement(1e-5))


def test_what_was_paid_for_is_printed_where_it_cannot_be_written(new_hospital, run, monkeypatch):
    from dpmac import files

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "whole_file", full)
    done = run(*ESTIMATE, "--epsilon", "1", "--out", "new.json")
    assert done.code == 1
    assert "No space left" in done.err
    assert json.loads(done.out)["columns"]["weight"]["low"] is not None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "patients.csv/x"], "--out="),
        (["--groups", "nobody"], "nobody"),
        (["--ledger", "."], "this is a folder"),
        (["--schema", "list.json"], "it has no columns"),
        (["--schema", "other.json"], "height"),
    ],
)
def test_an_estimate_that_cannot_be_is_refused_before_it_is_paid_for(words, message, new_hospital, run):
    (new_hospital / "list.json").write_text(json.dumps({"target": None}))
    open_range = {"kind": "number", "low": None, "high": None}
    (new_hospital / "other.json").write_text(json.dumps({"columns": {"height": open_range}}))
    done = run(*ESTIMATE, "--epsilon", "1", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert not (new_hospital / "book").exists()


@pytest.mark.filterwarnings("ignore:no range stood out")
def test_one_row_is_no_crowd(new_hospital, run):
    lines = (new_hospital / "patients.csv").read_text().splitlines(keepends=True)
    (new_hospital / "patients.csv").write_text("".join(lines[:2]))
    done = run(*ESTIMATE, "--epsilon", "1")
    assert done.code == 2
    assert "a guarantee needs a crowd" in done.err
    (new_hospital / "patients.csv").write_text("".join(lines[:3]))
    done = run(*ESTIMATE, "--epsilon", "1")
    assert done.code == 0, done.err
    assert f"delta {safe_delta(2):g}" in done.err


# --- train ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def begun(monkeypatch):
    """Jobs that were begun, instead of trained."""
    seen = []

    def train(job, folder, table, public, **more):
        seen.append(
            SimpleNamespace(job=job, folder=folder, table=table, public=public, loaded=Job.load(folder), **more)
        )
        raise Failed("enough")

    monkeypatch.setattr(training, "train", train)
    return seen


def test_a_job_has_every_option_that_was_given(new_hospital, run, begun):
    options = {
        "epsilon": 1.5,
        "delta": 1e-8,
        "total_epsilon": 3.0,
        "epochs": 2.0,
        "batch_size": 50.0,
        "seed": 7,
        "threads": 1,
        "name": "first",
        "purpose": "why",
        "data_set": "patients",
        "max_rows": 2,
        "memory": 3,
        "groups": "patient",
    }
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    paths = ["--ledger", "book", "--public-test", "test-patients.csv", "--scratch", ".", "--hidden", "5,4"]
    assert run(*TRAIN, "--out", "run", *words, *paths, "--quiet").code == 1
    (seen,) = begun
    assert seen.job == seen.loaded
    assert {name: getattr(seen.job, name) for name in options} == options
    assert (seen.job.rows, seen.job.before, seen.job.hidden) == (400, 0, [5, 4])
    assert seen.job.written == Job.written_at(new_hospital / "patients.csv")
    for name, file in (("file", "patients.csv"), ("ledger", "book"), ("public_test", "test-patients.csv")):
        assert Path(getattr(seen.job, name)) == new_hospital / file
    assert Path(seen.job.scratch) == new_hospital
    assert (seen.quiet, seen.world, len(seen.public["age"])) == (True, SINGLE_PROCESS, 100)
    assert not (new_hospital / "run").exists()


def test_without_options_a_job_is_as_usual_and_keeps_its_own_ledger(new_hospital, run, begun):
    assert run(*TRAIN, "--epsilon", "2", "--out", "run").code == 1
    job = begun[0].job
    usual = Job(job.file, job.schema, job.ledger, 2.0, rows=400, name="run", written=job.written)
    assert job == usual
    assert Path(job.ledger) == new_hospital / "run" / "checkpoint.ledger"
    assert (begun[0].quiet, begun[0].public) == (False, None)


def test_what_a_ledger_held_before_is_counted_and_a_run_of_which_something_is_left_is_not_removed(
    new_hospital, run, begun, monkeypatch
):
    spending(new_hospital / "book", 3)
    assert run(*TRAIN, "--epsilon", "2", "--out", "run", "--ledger", "book").code == 1
    assert begun[0].job.before == 3
    assert (new_hospital / "run" / JOB).exists()  # train itself has seen to what can be removed

    def train(job, folder, *_, **__):
        (folder / CHECKPOINT).mkdir()
        raise Failed("enough")

    monkeypatch.setattr(training, "train", train)
    assert run(*TRAIN, "--epsilon", "2", "--out", "other", "--ledger", "new/book").code == 1
    assert (new_hospital / "other" / JOB).exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epsilon", "0"], "--epsilon=0.0"),
        (["--epsilon", "nan"], "--epsilon=nan"),
        (["--epsilon", "2", "--delta", "0.0025"], "delta=0.0025: it must be below 1/n"),
        (["--epsilon", "2", "--max-rows", "0"], "--max-rows=0"),
        (["--epsilon", "2", "--max-rows", "1000000"], "--max-rows=1000000"),
        (["--epsilon", "2", "--epochs", "0"], "epochs=0.0"),
        (["--epsilon", "2", "--groups", "death"], "--groups='death': it is the target"),
        (["--epsilon", "2", "--groups", "nobody"], "nobody"),
        (["--epsilon", "2", "--hidden", "many"], "--hidden='many'"),
        (["--epsilon", "2", "--target", "age", "--autoencoder"], "--target='age'"),
        (["--epsilon", "2", "--name", "a\nb"], "--name="),
        (["--epsilon", "2", "--purpose", "x" * 1001], "--purpose="),
        (["--epsilon", "2", "--data-set", "a\tb"], "--data-set="),
        (["--epsilon", "2", "--memory", "0"], "--memory=0"),
    ],
)
def test_a_bad_option_is_refused_before_a_folder_is_made(words, message, new_hospital, run, begun):
    done = run(*TRAIN, *words, "--out", "run", "--ledger", "book")
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert begun == []
    assert not (new_hospital / "run").exists()
    assert not (new_hospital / "book").exists()


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_training_needs_two_rows(rows, new_hospital, run, begun):
    lines = (new_hospital / "patients.csv").read_text().splitlines(keepends=True)
    (new_hospital / "patients.csv").write_text("".join(lines[: rows + 1]))
    done = run(*TRAIN, "--epsilon", "2", "--out", "run")
    assert len(begun) == (rows > 1)
    assert ("a guarantee needs a crowd" in done.err) is (rows == 1)


def test_one_row_of_a_person_and_the_most_are_allowed(job):
    from dpmac.extensions.persons import MOST

    for most in (1, MOST):
        command._check_numbers(replace(job, max_rows=most))
    command._check_numbers(replace(job, delta=0.99 / 400))


def test_targets_are_the_schemas_unless_another_is_asked(new_hospital):
    schema = Schema.load(new_hospital / "patients.schema.json")
    assert aims.aimed(schema, None, False) is schema
    assert aims.aimed(schema, "death", False) is schema
    assert aims.aimed(schema, "age", False).task == "regression"
    assert aims.aimed(schema, None, True).task is None
    assert aims.unseen(schema, None) is schema
    assert aims.unseen(schema, "patient") is schema
    assert list(aims.unseen(schema, "ward").columns) == ["age", "sex", "weight", "death"]
    assert [wanted.units(text) for text in (None, "auto", "none", "", "64", "64,32")] == [
        None,
        None,
        [],
        [],
        [64],
        [64, 32],
    ]


@pytest.mark.parametrize(("epsilon", "said"), [(1.25, ""), (float("inf"), "dpmac: this model is not private\n")])
def test_a_model_that_is_not_private_is_said_to_be_none(epsilon, said, job, tmp_path, capsys):
    """Found by reading: the text that was compared with never came, and the line was never written."""
    ledger = Ledger()
    ledger.append(Entry("training step", 0.0 if said else 4.0, 1.0))
    statement = ledger.statement(1e-5)
    privacy = SimpleNamespace(epsilon=epsilon, delta=1e-5, ledger=ledger, statement=lambda: statement)
    done = training.Trained(SimpleNamespace(privacy_=privacy), tmp_path / "run", {"scores": {"accuracy": 0.5}})
    telling.tell(job, done, 1.0, as_json=False)
    seen = capsys.readouterr()
    assert seen.err == said
    assert "accuracy on the public rows: 0.5000" in seen.out
    assert "counts everything that the ledger" not in seen.out
    spending(job.ledger, 1)
    telling.tell(replace(job, before=1), done, 1.0, as_json=False)
    assert f"counts everything that the ledger {job.ledger} holds" in capsys.readouterr().out
    telling.tell(job, done, 1.25, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["epsilon"], found["delta"], found["releases"]) == (None if said else 1.25, 1e-5, 1)
    assert (found["ledger"], found["rows"], found["seeded"]) == (job.ledger, 400, False)
    assert (found["seconds"], found["scores"]) == (1.25, {"accuracy": 0.5})


def test_public_rows_are_read_and_looked_over(job, new_hospital):
    assert public_rows(job) is None
    public = replace(job, public_test=str(new_hospital / "test-patients.csv"))
    assert public_rows(public) == read_table(new_hospital / "test-patients.csv", job.read_schema())
    with pytest.raises(ArgumentError, match="death"):
        public_rows(replace(job, public_test=str(new_hospital / "new-patients.csv")))
