"""Every path, label and text of ``dpmac train`` is tried first: what would fail at the end is refused at the start."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import shutil
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

import dpmac
from cli.albums import write_album
from cli.commands import lines_of, wait_for
from dpmac import ArgumentError
from dpmac.cli import places, scores, several, training
from dpmac.cli.jobs import Job
from dpmac.cli.train import check_kept, train
from dpmac.privacy import Entry, Ledger

TRAIN = ["train", "patients.csv", "--schema", "patients.schema.json", "--epsilon", "1", "--quiet"]
FAST = ["--epochs", "2", "--hidden", "none"]
NOT_UTF8 = os.fsdecode(b"r\xffn")


def there(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


# --- paths ------------------------------------------------------------------------------------------------------------

IN_THE_WAY = [
    (["--out", "run", "--ledger", "run/x.ledger"], "it lies in the run folder run"),
    (["--out", "run", "--ledger", "run"], "it lies in the run folder run"),
    (["--out", "a/b/run/", "--ledger", "./a/b/../b/run/deep/x.ledger"], "it lies in the run folder a/b/run"),
    (["--out", "run", "--ledger", "link/x.ledger"], "it lies in the run folder run"),
    (["--out", "run", "--ledger", "deep-link/x.ledger"], "it lies in the run folder run"),
    (["--out", "here/run", "--ledger", "run/x.ledger"], "it lies in the run folder here/run"),
    (["--out", "book/run", "--ledger", "book"], "this is a folder"),
    (["--out", "run", "--ledger", "patients.schema.json"], "it would be written over --schema"),
    (["--out", "run", "--schema", "book.seen", "--ledger", "book"], "it would be written over --schema"),
    (["--out", "run", "--schema", "book.writer", "--ledger", "book"], "it would be written over --schema"),
    (["--out", "run", "--public-test", "./patients.csv"], "these are rows that are trained on"),
    (["--out", "run", "--public-test", "same.csv"], "these are rows that are trained on"),
    (["--out", "run", "--ledger", "fifo"], "a device or a pipe"),
    (["--out", "run", "--scratch", "run/scratch"], "there is no such folder"),
    (["--out", "run", "--scratch", "/proc"], "nothing can be written in"),
    (["--out", "/proc/run"], "nothing can be written in /proc"),
    (["--out", "run", "--ledger", "/proc/x.ledger"], "nothing can be written in /proc"),
    (["--out", "x" * 254], "File name too long"),
    (["--out", "x" * 217], "File name too long"),  # it is made under a longer name beside its place
    (["--out", "run", "--ledger", "x" * 212], "File name too long"),  # as is a ledger's witness
    (["--out", "run", "--ledger", "é" * 126], "File name too long"),
    (["--out", "/".join(["y" * 250] * 17) + "/run"], "File name too long"),
    (["--out", "nowhere/../run"], "with .. in it"),
    (["--out", "nowhere/.."], "with .. in it"),
    (["--out", NOT_UTF8], "this is not UTF-8 text"),
    (["--out", f"{NOT_UTF8}/run"], "this is not UTF-8 text"),
    (["--out", "run", "--ledger", NOT_UTF8], "this is not UTF-8 text"),
    (["--out", "a\nrun"], "a line break or a control character"),
    (["--out", "run\x1b[2J"], "a line break or a control character"),
    (["--out", "run", "--name", NOT_UTF8], "this is not UTF-8 text"),
    (["--out", "run", "--purpose", "x" * 1001], "give at most 1000 characters"),
    (["--out", "run", "--purpose", "a\nb"], "a line break or a control character"),
    (["--out", "run", "--data-set", "x" * 300], "give a name of at most"),
    (["--out", "run", "--threads", "0"], "give a number of threads"),
    (["--out", "run", "--threads", "1000000000"], "give a number of threads"),
    (["--out", "run", "--seed", "-1"], "give None or a whole number"),
]


@pytest.mark.parametrize(("words", "message"), IN_THE_WAY, ids=[f"{m[:30]} {k}" for k, (_, m) in enumerate(IN_THE_WAY)])
def test_what_is_in_the_way_is_found_before_anything_is_spent(words, message, new_hospital, run):
    (new_hospital / "link").symlink_to("run")
    (new_hospital / "deep-link").symlink_to("run/deep/deeper")
    (new_hospital / "here").symlink_to(".")
    (new_hospital / "same.csv").hardlink_to(new_hospital / "patients.csv")
    for beside in ("book.seen", "book.writer"):
        shutil.copy(new_hospital / "patients.schema.json", new_hospital / beside)
    os.mkfifo(new_hospital / "fifo")
    before = there(new_hospital)
    done = run(*TRAIN, *FAST, *words)
    assert done.code == 2, done.err
    assert message in done.err
    assert done.err.count("\n") == 1
    assert there(new_hospital) == before


def test_names_that_differ_in_case_alone_are_one_where_the_disk_says_so(new_hospital, run, monkeypatch):
    """A disk that does not tell case apart, played: what there is under another spelling is there, and the same."""
    exists, same = os.path.exists, os.path.samefile

    def spelt(path):
        path = Path(path).absolute()
        near = [one for one in path.parent.iterdir() if one.name.lower() == path.name.lower()] if path.name else [path]
        return str(near[0] if near else path)

    monkeypatch.setattr(
        os.path, "exists", lambda path: exists(path) or (exists(Path(path).parent) and exists(spelt(path)))
    )
    monkeypatch.setattr(os.path, "samefile", lambda one, other: same(spelt(one), spelt(other)))
    done = run(*TRAIN, *FAST, "--out", "Run", "--ledger", "rUN/x.ledger")
    assert done.code == 2
    assert "it lies in the run folder Run" in done.err


def test_a_folder_of_rows_is_not_written_into(new_hospital, run):
    parquet = pytest.importorskip("pyarrow.parquet")
    csv = pytest.importorskip("pyarrow.csv")
    (new_hospital / "rows").mkdir()
    parquet.write_table(csv.read_csv(new_hospital / "patients.csv"), new_hospital / "rows" / "one.parquet")
    words = ["train", "rows", *TRAIN[2:], *FAST]
    for more in (["--out", "rows/run"], ["--out", "run", "--ledger", "rows/x.ledger"]):
        done = run(*words, *more)
        assert done.code == 2
        assert "the folder of the rows" in done.err
    done = run(*words, "--out", "run", "--public-test", "rows/one.parquet")
    assert "these are rows that are trained on" in done.err
    assert os.listdir(new_hospital / "rows") == ["one.parquet"]


def test_a_folder_and_a_ledger_in_new_folders_are_made_and_nothing_else_is_left(new_hospital, run):
    done = run(*TRAIN, *FAST, "--out", "new/é run/", "--ledger", "books/of/x.ledger")
    assert done.code == 0, done.err
    assert dpmac.load(new_hospital / "new" / "é run").privacy_.epsilon <= 1.0
    assert os.listdir(new_hospital / "new") == ["é run"]
    assert sorted(os.listdir(new_hospital / "books" / "of")) == ["x.ledger", "x.ledger.seen"]


def test_a_disk_without_room_for_a_page_is_noticed_before_the_start(new_hospital, server):
    done = server.run(*TRAIN, "--out", "run", folder=new_hospital, file_limit=1000)
    assert done.code == 1
    assert "File too large" in done.err
    assert not (new_hospital / "run").exists()


def test_somebody_elses_folder_is_never_removed(new_hospital, monkeypatch):
    """It comes between the look and the trial."""
    monkeypatch.chdir(new_hospital)
    monkeypatch.setattr(places, "check_file", lambda *_: (Path("run").mkdir(), Path("run/mine").touch()))
    with pytest.raises(dpmac.checks.ArgumentError), places.tried_folder(Path("run")):
        pass
    assert (new_hospital / "run" / "mine").exists()


def running(folder):
    """A run that another process has begun: its job, its checkpoint, and the ledger of its own."""
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "job.json").write_text("{}")
    (folder / "checkpoint.ledger").write_text("35 releases")
    return {path.name for path in folder.iterdir()}


def test_a_run_that_another_process_began_between_is_left_as_it_is(new_hospital, monkeypatch):
    """Found in an attack: a trial folder was put over a running one, and then removed with its ledger."""
    monkeypatch.chdir(new_hospital)
    there = set()
    monkeypatch.setattr(places, "check_file", lambda *_: there.update(running(new_hospital / "run")))
    with pytest.raises(dpmac.checks.ArgumentError), places.tried_folder(Path("run")):
        pass
    assert {path.name for path in (new_hospital / "run").iterdir()} == there
    assert sorted(path.name for path in new_hospital.glob(".run*")) == []


def test_a_job_is_begun_by_one_process_alone(new_hospital, run, monkeypatch):
    """While this one was reading its rows, another has begun in the same folder: its job stays."""
    begin = Job.begin

    def later(job, folder):
        running(new_hospital / "run")
        begin(job, folder)

    monkeypatch.setattr(Job, "begin", later)
    done = run(*TRAIN, *FAST, "--out", "run", "--ledger", "x.ledger")
    assert done.code == 2
    assert "another process has begun a run there meanwhile" in done.err
    assert (new_hospital / "run" / "job.json").read_text() == "{}"
    assert (new_hospital / "run" / "checkpoint.ledger").exists()
    assert not (new_hospital / "x.ledger").exists()


# --- public rows ------------------------------------------------------------------------------------------------------


def public(folder, name="test-patients.csv", **cells):
    """test-patients.csv with other cells in its last row."""
    lines = [line.split(",") for line in (folder / name).read_text().splitlines()]
    for column, cell in cells.items():
        lines[-1][lines[0].index(column)] = cell
    (folder / "public.csv").write_text("\n".join(map(",".join, lines)) + "\n")


BAD_PUBLIC = [
    ({"death": "maybe"}, [], "this label is not among the model's classes"),
    ({"death": ""}, [], "the target is missing in this row"),
    ({"age": "old"}, [], "this column holds numbers"),
    ({"age": ""}, [], "the cell is missing"),
    ({"weight": "heavy"}, ["--target", "weight"], "this column holds numbers"),
    ({"weight": "inf"}, ["--target", "weight"], "public.csv, line 101, column 'weight'=inf"),
    ({"weight": ""}, ["--target", "weight"], "the target is missing in this row"),
]


@pytest.mark.parametrize(("cells", "words", "message"), BAD_PUBLIC, ids=[str(cells) for cells, *_ in BAD_PUBLIC])
def test_public_rows_are_looked_over_before_anything_is_spent(cells, words, message, new_hospital, run):
    public(new_hospital, **cells)
    before = there(new_hospital)
    done = run(*TRAIN, *FAST, "--out", "run", "--ledger", "book", "--public-test", "public.csv", *words)
    assert (done.code, message in done.err) == (2, True), done.err
    assert there(new_hospital) == before


def test_public_rows_without_a_row_or_the_target_are_refused(new_hospital, run):
    (new_hospital / "empty.csv").write_text((new_hospital / "test-patients.csv").read_text().splitlines()[0] + "\n")
    for name, message in (("empty.csv", "it has no rows"), ("new-patients.csv", "it has no column 'death'")):
        done = run(*TRAIN, *FAST, "--out", "run", "--ledger", "book", "--public-test", name)
        assert (done.code, message in done.err) == (2, True), done.err
    assert not (new_hospital / "book").exists()


def test_public_rows_that_were_spoilt_meanwhile_are_refused_by_resume(new_hospital, server):
    """An interrupted run does not go on to spend when its end would fail."""
    public(new_hospital)
    words = [*TRAIN, "--out", "run", "--ledger", "book", "--epochs", "4000", "--public-test", "public.csv"]
    begun = server.begin(*words, folder=new_hospital)
    wait_for(lambda: lines_of(new_hospital / "book") > 3)
    begun.send(signal.SIGINT)
    assert begun.end().code == 130
    spent = lines_of(new_hospital / "book")
    public(new_hospital, death="maybe")
    done = server.run("resume", "run", folder=new_hospital)
    assert (done.code, "this label is not among" in done.err) == (2, True), done.err
    public(new_hospital)
    (new_hospital / "run" / "notes.txt").touch()
    done = server.run("resume", "run", folder=new_hospital)
    assert (done.code, "nothing is written over it" in done.err) == (2, True), done.err
    assert lines_of(new_hospital / "book") == spent


@pytest.mark.parametrize("kind", ["bool", "int", "float"])
def test_labels_of_another_type_than_the_public_rows_are_scored(kind, new_hospital, run):
    """A Parquet file's True is a CSV file's 1, and the schema's."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow.csv").read_csv(new_hospital / "patients.csv")
    place = table.column_names.index("death")
    kinds = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}
    labels = table.column("death").cast(pa.int64()).cast(kinds[kind])
    parquet.write_table(table.set_column(place, "death", labels), new_hospital / "patients.parquet")
    schema = json.loads((new_hospital / "patients.schema.json").read_text())
    (new_hospital / "patients.schema.json").write_text(json.dumps({**schema, "positive": "1"}))
    words = ["train", "patients.parquet", *TRAIN[2:], *FAST, "--out", "run", "--public-test", "test-patients.csv"]
    done = run(*words, "--json")
    assert 0.0 < done.json()["scores"]["auroc"] < 1.0
    assert json.loads((new_hospital / "run" / "history.json").read_text())[-1]["metrics"]["validation_accuracy"] > 0.0


# --- when something has been spent ------------------------------------------------------------------------------------


def test_scores_that_fail_leave_a_finished_model(new_hospital, run, monkeypatch):
    def failing(*_, **__):
        raise ValueError("no scores today")

    monkeypatch.setattr(scores, "evaluation_of", failing)
    done = run(*TRAIN, *FAST, "--out", "run", "--public-test", "test-patients.csv", "--json")
    assert done.json()["scores"] is None
    assert "no scores today" in done.err
    assert not list((new_hospital / "run").glob("*job*"))
    dpmac.load(new_hospital / "run")


def test_a_score_that_is_not_finite_is_left_out(new_hospital, run):
    public(new_hospital, weight="1e300")
    done = run(*TRAIN, *FAST, "--target", "weight", "--out", "run", "--public-test", "public.csv", "--json")
    assert done.json()["scores"].keys() == {"mean_absolute_error"}


def test_an_end_that_has_spent_never_says_that_nothing_was(new_hospital, run, monkeypatch):
    """Exit code 2 says so: an argument that is found to be bad too late ends with 1."""

    def refused(*_):
        raise dpmac.checks.ArgumentError("folder", "run", "not now")

    monkeypatch.setattr(training, "_saved", refused)
    done = run(*TRAIN, *FAST, "--out", "run", "--ledger", "book")
    assert done.code == 1
    assert "not now" in done.err
    assert "nothing was spent" not in done.err
    assert "dpmac resume run" in done.err
    monkeypatch.undo()
    monkeypatch.chdir(new_hospital)
    assert run("resume", "run").code == 0
    assert len(dpmac.load(new_hospital / "run").privacy_.ledger) == len(Ledger.read(new_hospital / "book"))


def test_a_file_that_somebody_puts_into_the_folder_does_not_stop_the_model_from_being_written(
    new_hospital, run, monkeypatch
):
    fit = training._fit

    def disturbed(*arguments):
        fit(*arguments)
        (new_hospital / "run" / "notes.txt").touch()

    monkeypatch.setattr(training, "_fit", disturbed)
    monkeypatch.setattr(tempfile, "tempdir", str(new_hospital))
    done = run(*TRAIN, *FAST, "--out", "run", "--ledger", "book", "--json")
    assert "is written to" in done.err
    dpmac.load(done.json()["run"])


def test_a_finished_run_has_nothing_of_an_unfinished_one(new_hospital, run):
    assert run(*TRAIN, *FAST, "--out", "run").code == 0
    left = [path.name for path in (new_hospital / "run").iterdir()]
    assert not [name for name in left if name.startswith(("checkpoint", "job", "."))]
    before = there(new_hospital)
    (new_hospital / "run" / "job.json").touch()  # as a kill leaves it that comes as it tidies up
    (new_hospital / "run" / "checkpoint.ledger.seen").touch()
    assert "is finished" in run("resume", "run").err
    assert there(new_hospital) == before


def test_a_terminal_without_a_letter_ends_no_command(new_hospital, run, monkeypatch, capsys):
    import sys

    run(*TRAIN, *FAST, "--out", "run")
    (new_hospital / "run").rename(new_hospital / "rün")
    with capsys.disabled():
        import io

        seen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        monkeypatch.setattr(sys, "stdout", seen)
        monkeypatch.setattr(sys, "argv", ["dpmac", "inspect", "rün", "--json"])
        with pytest.raises(SystemExit) as end:
            dpmac.cli.main()
    assert not end.value.code


def test_an_empty_file_may_become_a_ledger(tmp_path):
    """``mktemp`` makes one, and so does a process that was killed before its first release."""
    (tmp_path / "book.ledger").touch()
    places.check_ledger(tmp_path / "book.ledger")
    (tmp_path / "book.ledger").write_text("something else\n")
    with pytest.raises(ValueError, match="line 1"):
        places.check_ledger(tmp_path / "book.ledger")


def test_flags_are_off_unless_they_are_given():
    for name in ("strict", "new_ledger", "quiet", "as_json", "autoencoder"):
        assert inspect.signature(train).parameters[name].default is False


def test_a_ledger_of_nearly_the_same_name_is_begun_if_that_is_meant(new_hospital, run):
    """And what was said of where ranges come from stands in the model's folder."""
    Ledger(new_hospital / "patients.ledger").append(Entry("mean", 4.0, 1.0))
    words = ("patients.csv", "--schema", "patients.schema.json", "--epsilon", "1", "--epochs", "1", "--quiet")
    more = ("--out", "model", "--ledger", "patient.ledger", "--ranges-from", "a code book")
    refused = run("train", *words, *more)
    assert refused.code == 2
    assert "patients.ledger is beside it" in refused.err
    assert not (new_hospital / "model").exists()
    assert run("train", *words, *more, "--new-ledger").code == 0
    assert len(Ledger.read(new_hospital / "patient.ledger")) > 0
    assert "a code book" in run("statement", "model").out


def test_answers_that_no_finished_run_could_keep_are_refused_beforehand():
    job = Job("/t.csv", {"columns": {"a": {"kind": "number", "low": 0, "high": 1}}, "target": None}, "", 1.0, name="a")
    check_kept(job)
    for bad in ({"searched": "perhaps"}, {"ranges_from": "\ud800"}):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            check_kept(replace(job, **bad))


@pytest.mark.parametrize("pictures", [False, True])
@pytest.mark.parametrize("command", ["train", "resume"])
def test_processes_compare_all_pictures_of_a_folder_and_the_files_of_a_table(
    command, pictures, tmp_path, monkeypatch, run
):
    """Whoever reads a folder of pictures reads all files in it; of a table its Parquet files alone."""
    asked = []

    def same(world, file, *, pictures=False):
        asked.append(pictures)
        raise ArgumentError("file", file, "so far and no further")

    monkeypatch.setattr(several, "check_same", same)
    if command == "train":
        (tmp_path / "t.csv").write_text("a\n" + "0.5\n" * 40)
        (tmp_path / "s.json").write_text(
            json.dumps({"columns": {"a": {"kind": "number", "low": 0, "high": 1}}, "target": None})
        )
        words = ["t.csv", "--schema", "s.json"]
        if pictures:
            write_album(tmp_path, 2)
            words = ["images"]
        done = run("train", *words, "--epsilon", "1", "--delta", "1e-5", "--out", "run")
    else:
        job = Job(
            str(tmp_path / "t.csv"), {}, str(tmp_path / "book"), 1.0, pictures={"images": None} if pictures else None
        )
        resume = importlib.import_module("dpmac.cli.resume")
        monkeypatch.setattr(resume, "_opened", lambda *_: (job, None))
        monkeypatch.setattr(resume, "_check_spent", lambda *_: None)
        (tmp_path / "run").mkdir()
        done = run("resume", "run")
    assert "so far and no further" in done.err
    assert asked == [pictures]


def test_a_training_is_told_what_was_asked_of_split_and_ranges(tmp_path, monkeypatch, run):
    seen = []
    monkeypatch.setattr(importlib.import_module("dpmac.cli.train"), "begin", lambda job, *_, **__: seen.append(job))
    (tmp_path / "t.csv").write_text("a\n" + "0.5\n" * 40)
    schema = {"columns": {"a": {"kind": "number", "low": 0, "high": 1}}, "target": None}
    (tmp_path / "s.json").write_text(json.dumps(schema))
    words = ("t.csv", "--schema", "s.json", "--epsilon", "1", "--out", "run")
    assert run("train", *words, "--split", "train", "--ranges-from", "a code book").code == 0
    assert run("train", *words).code == 0
    assert [(job.split, job.ranges_from) for job in seen] == [("train", "a code book"), (None, None)]
