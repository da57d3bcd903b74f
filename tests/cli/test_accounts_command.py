"""``dpmac ledger init``, and what other commands do with an account: say where it stands, keep to it, mistype it."""

from __future__ import annotations

import json
import multiprocessing
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dpmac.cli import accounts, training
from dpmac.cli.jobs import CHECKPOINT, Job
from dpmac.cli.watching import Watch
from dpmac.extensions.accounts import Account
from dpmac.extensions.world import SINGLE_PROCESS
from dpmac.extensions.writers import sole_writer
from dpmac.privacy import Entry, Ledger
from dpmac.tables.estimate import RANGES
from dpmac.training.checkpoint import Checkpoints

OPEN = ["--total-epsilon", "2", "--delta", "1e-6"]
TRAIN = ["--schema", "patients.schema.json", "--epochs", "5", "--batch-size", "400", "--quiet"]  # all: quickly planned


def trained(run, out, epsilon, *more):
    return run("train", "patients.csv", *TRAIN, "--epsilon", epsilon, "--out", out, *more)


# --- opening ----------------------------------------------------------------------------------------------------------


def test_an_account_is_opened_with_all_that_it_says(run, tmp_path):
    done = run("ledger", "init", "books/patients.ledger", *OPEN, "--unit", "person", "--data-set", "visits 2024")
    assert done.code == 0
    assert done.out.startswith("books/patients.ledger: new, epsilon 0.00 of 2 spent at delta 1e-06\nnext:  dpmac train")
    found = Ledger.read(tmp_path / "books" / "patients.ledger")
    assert (found.account, found.data_set, found.unit) == (Account(2.0, 1e-6, "person"), "visits 2024", "person")
    again = run("ledger", "init", "books/patients.ledger", "--total-epsilon", "9")
    assert again.code == 2
    assert (
        "it was opened with a total of epsilon 2 at delta 1e-06 before, and a total can be neither raised nor lowered"
        in again.err
    )
    told = run("ledger", "init", "other.ledger", *OPEN, "--json").json()
    assert told == {
        "ledger": "other.ledger",
        "data_set": "",
        "account": Account(2.0, 1e-6).to_dict(),
        "remaining": told["remaining"],
    }
    assert 1.999 < told["remaining"] <= 2.0


def test_an_account_is_opened_in_new_folders_at_a_delta_of_its_own(run, tmp_path):
    assert run("ledger", "init", "books/of/2024/patients.ledger", "--total-epsilon", "2").code == 0
    assert Ledger.read(tmp_path / "books" / "of" / "2024" / "patients.ledger").account == Account(2.0, 1e-5)


def test_no_account_is_opened_inside_a_finished_run(run, tmp_path):
    """Its record must stay what the model was made of."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "dpmac.json").touch()
    done = run("ledger", "init", "run/ledger.jsonl", *OPEN)
    assert done.code == 2
    assert "the record inside a finished run" in done.err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["dpmac.json"]


def test_a_ledger_says_whether_it_is_new_and_how_many_models_it_has_made():
    book = Ledger()
    assert accounts.standing(book, 1e-5) == "new, without a total (dpmac ledger init opens it with one)"
    assert accounts.standing(Ledger.init(total_epsilon=2.0), 1e-5).startswith("new, epsilon 0.00 of 2 spent")
    book.append(Entry(RANGES, 50.0, 1.0))
    assert accounts.standing(book, 1e-5).startswith("0 models, epsilon ")
    for count, said in ((1, "1 model, "), (2, "2 models, ")):
        with book.noting(run=f"r{count}"):
            book.append(Entry("training step", 50.0, 1.0))
        assert accounts.standing(book, 1e-5).startswith(said)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--total-epsilon", "0"], "--total-epsilon=0"),
        (["--total-epsilon", "inf"], "--total-epsilon=inf"),
        (["--total-epsilon", "2", "--delta", "0.5"], "--delta=0.5"),
        (["--total-epsilon", "2", "--unit", "patient"], "--unit='patient'"),
        (["--total-epsilon", "2", "--data-set", "a\nb"], "--data-set="),
    ],
)
def test_what_cannot_be_opened_is_refused_by_name_and_leaves_nothing(words, name, run, tmp_path):
    done = run("ledger", "init", "patients.ledger", *words)
    assert (done.code, name in done.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_remaining_and_show_take_total_and_delta_from_the_account(run, tmp_path):
    run("ledger", "init", "book", *OPEN)
    ledger = Ledger.load(tmp_path / "book")
    with ledger.noting(model="first"):
        ledger.append(Entry("mean", 4.0, 1.0))
    exact = Ledger.read(tmp_path / "book")
    assert run("ledger", "remaining", "book", "--json").json() == {
        "total": 2.0,
        "delta": 1e-6,
        "spent": exact.epsilon(1e-6),
        "remaining": exact.remaining(2.0, 1e-6),
    }
    shown = run("ledger", "show", "book", "--json").json()
    assert (shown["delta"], shown["account"]) == (1e-6, exact.account.to_dict())
    assert "1 model, epsilon 1.07 of 2 spent at delta 1e-06" in " ".join(run("ledger", "show", "book").out.split())
    Ledger(tmp_path / "plain").append(Entry("mean", 4.0, 1.0))
    done = run("ledger", "remaining", "plain")
    assert (done.code, "--epsilon=None: the ledger has no total" in done.err) == (2, True)


@pytest.mark.parametrize("total", [None, 9.0])
def test_where_a_ledger_stands_counts_models_and_rounds_up(total):
    ledger = Ledger()
    if total is not None:
        ledger = Ledger.init(total_epsilon=total)
    assert accounts.standing(ledger, 1e-5).startswith("new, ")
    for name, label in (("", "ranges"), ("first", "training step"), ("first", "calibration"), ("second", "mean")):
        with ledger.noting(model=name, run=name or "estimate"):
            ledger.append(Entry(label, 7.0, 1.0))
    said = accounts.standing(ledger, 1e-5)
    assert said.startswith("2 models, epsilon ")
    spent = float(said.split()[3])
    assert ledger.epsilon(1e-5) <= spent < ledger.epsilon(1e-5) + 0.01
    assert ("of 9 spent at delta 1e-05" in said) == (total is not None)
    assert ("without a total" in said) == (total is None)


# --- training ---------------------------------------------------------------------------------------------------------


def test_train_says_where_the_ledger_stands_keeps_to_the_total_and_says_what_fits(new_hospital, run):
    run("ledger", "init", "patients.ledger", *OPEN)
    loud = ["patients.csv", *TRAIN[:-1], "--ledger", "patients.ledger"]
    first = run("train", *loud, "--epsilon", "1.5", "--out", "first")
    assert first.code == 0, first.err
    assert "ledger patients.ledger: new, epsilon 0.00 of 2 spent at delta 1e-06" in first.out
    assert "ledger patients.ledger: 1 model, epsilon 1.50 of 2 spent at delta 1e-06" in first.out
    before = (new_hospital / "patients.ledger").read_bytes()
    over = trained(run, "second", "1.5", "--ledger", "patients.ledger")
    assert over.code == 1
    assert "total_epsilon=2.0: the ledger holds 1.50 already" in over.err
    most = over.err.partition("lower epsilon to ")[2].split()[0]
    assert "dpmac: nothing was spent" in over.err
    assert not (new_hospital / "second").exists()
    assert (new_hospital / "patients.ledger").read_bytes() == before
    fits = trained(run, "second", most, "--ledger", "patients.ledger")
    assert fits.code == 0, fits.err
    assert 1.5 < Ledger.read(new_hospital / "patients.ledger").epsilon(1e-6) <= 2.0
    copy = Ledger.read(new_hospital / "second" / "ledger.jsonl")  # the record in the model's folder says it, too
    assert copy.account == Account(2.0, 1e-6)


def test_a_mistyped_ledger_is_questioned_before_a_folder_is_made_and_can_be_meant(new_hospital, run):
    run("ledger", "init", "patients.ledger", *OPEN)
    there = sorted(path.name for path in new_hospital.iterdir())
    typo = trained(run, "first", "1", "--ledger", "patient.ledger")
    assert typo.code == 2
    assert "--ledger='patient.ledger': there is no such ledger, and patients.ledger is beside it" in typo.err
    assert sorted(path.name for path in new_hospital.iterdir()) == there
    meant = trained(run, "first", "1", "--ledger", "patient.ledger", "--new-ledger")
    assert meant.code == 0, meant.err
    assert len(Ledger.read(new_hospital / "patients.ledger")) == 0


# --- two at a time ----------------------------------------------------------------------------------------------------


def holding(path, channel):
    with sole_writer(path):
        channel.send("held")
        channel.recv()


@pytest.mark.skipif(os.name != "posix", reason="file locks")
def test_a_second_training_is_told_who_writes_and_claims_nothing(new_hospital, run):
    run("ledger", "init", "patients.ledger", *OPEN)
    fork = multiprocessing.get_context("fork")
    mine, theirs = fork.Pipe()
    child = fork.Process(target=holding, args=(new_hospital / "patients.ledger", theirs))
    child.start()
    try:
        assert mine.recv() == "held"
        done = trained(run, "second", "1", "--ledger", "patients.ledger")
    finally:
        mine.send("end")
        child.join()
    assert done.code == 2
    assert f"process {child.pid} on " in done.err
    assert "has been writing to it since" in done.err
    assert "wait until that has ended" in done.err
    assert "releases" not in done.err
    assert not (new_hospital / "second").exists()
    assert trained(run, "second", "1", "--ledger", "patients.ledger").code == 0


def test_what_others_have_released_meanwhile_is_not_claimed(tmp_path, monkeypatch, capsys):
    """An interrupted run of 2 releases, 3 of others since, and a resume that ends at once."""
    schema = {"columns": {"a": {"kind": "number", "low": 0, "high": 1}}}
    job = Job(str(tmp_path / "t.csv"), schema, str(tmp_path / "book"), 2.0, rows=100, name="mine")
    job.begin(tmp_path / "run")
    ledger = Ledger(job.ledger)
    checkpoints = Checkpoints(tmp_path / "run" / CHECKPOINT)
    monkeypatch.setattr(Checkpoints, "run", "mine")
    for run_, count in (("mine", 2), ("theirs", 3)):
        with ledger.noting(run=run_, model=run_):
            for _ in range(count):
                ledger.append(Entry("training step", 4.0, 0.5))
    watch = Watch(ledger, 0, 10, 1e-5, "mine")
    assert (watch.done(), Watch(ledger, 0, 10, 1e-5).done()) == (2, 5)
    assert training._of_others(ledger, job, checkpoints) == 3

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "_fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        training.train(job, tmp_path / "run", {}, None, quiet=True, world=SINGLE_PROCESS)
    assert "stopped after 2 releases" in capsys.readouterr().err


def test_a_resume_without_a_checkpoint_counts_its_own_releases(tmp_path):
    from dpmac.cli.ending import Failed
    from dpmac.cli.resume import _check_spent

    job = Job("t.csv", {}, str(tmp_path / "book"), 2.0, name="mine")
    ledger = Ledger(job.ledger)
    for name, count in (("theirs", 3), ("mine", 2)):
        with ledger.noting(model=name):
            for _ in range(count):
                ledger.append(Entry("training step", 4.0, 0.5))
    with pytest.raises(Failed, match=r": 2 releases were made, and no checkpoint is left"):
        _check_spent(tmp_path / "run", job, again=False)
    _check_spent(tmp_path / "run", replace(job, name="nobody"), again=False)


def test_the_delta_that_is_shown_is_the_accounts(tmp_path):
    Ledger.init(tmp_path / "book", total_epsilon=2.0, delta=1e-7)
    job = SimpleNamespace(delta=None, rows=100, ledger=str(tmp_path / "book"))
    assert training.delta_of(job) == 1e-7
    job.ledger = str(tmp_path / "none")
    assert training.delta_of(job) == 1e-5
    (tmp_path / "none").write_text(json.dumps({"format": "?"}) + "\n")
    assert training.delta_of(job) == 1e-5
