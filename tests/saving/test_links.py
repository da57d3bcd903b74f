"""A folder from elsewhere may hold links where something is about to be written: nothing outside is changed."""

from __future__ import annotations

import os

import pytest
import torch
from saved_models import made

import dpmac
from dpmac import ArgumentError
from dpmac.cli.jobs import Job
from dpmac.cli.scores import keep
from dpmac.extensions.rollback_guard import guard_file_of
from dpmac.privacy import Entry, Ledger
from dpmac.report.page import write_report
from dpmac.saving import export_torch
from dpmac.training.checkpoint import Checkpoints

MINE = b"mine\n"


@pytest.fixture
def outside(tmp_path):
    path = tmp_path / "outside"
    path.write_bytes(MINE)
    return path


@pytest.fixture(scope="module")
def model():
    return made("strings")[0]


def linked(folder, outside, *names):
    """Links out of a folder under ``names`` and under what were its temporary names."""
    for name in (*names, *(f".{name}.{os.getpid()}.part" for name in names), *(f".part-{name}" for name in names)):
        (folder / name).symlink_to(outside)
    return folder


def test_a_report_and_scores_stay_in_their_folder(model, outside, tmp_path):
    folder = linked(model.save(tmp_path / "model"), outside, "report.html", "evaluation.json")
    keep(folder, {"scores": {}, "public": True})
    assert write_report(folder) == folder / "report.html"
    assert outside.read_bytes() == MINE
    assert not (folder / "report.html").is_symlink()
    assert "<html" in (folder / "report.html").read_text()


def test_an_export_stays_where_it_was_asked_for(model, outside, tmp_path):
    (tmp_path / "out").mkdir()
    linked(tmp_path / "out", outside, "model.pt2", "model.pt2.json")
    with pytest.raises(ArgumentError, match="there is a file already"):
        export_torch(model, tmp_path / "out" / "model.pt2")
    for name in ("model.pt2", "model.pt2.json"):
        (tmp_path / "out" / name).unlink()
    export_torch(model, tmp_path / "out" / "model.pt2")
    assert outside.read_bytes() == MINE
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.endswith(".part") and path.is_dir()]


def test_a_model_is_saved_beside_what_is_there(model, outside, tmp_path):
    for name in (f".model.{os.getpid()}.0.part", f".model.{os.getpid()}.part"):
        (tmp_path / name).symlink_to(outside)
    model.save(tmp_path / "model")
    dpmac.load(tmp_path / "model")
    assert outside.read_bytes() == MINE


@pytest.mark.parametrize("hard", [False, True])
def test_a_witness_is_written_through_no_link(hard, outside, tmp_path):
    ledger = Ledger(tmp_path / "book")
    ledger.append(Entry("mean", 2.0, 1.0))
    place = guard_file_of(tmp_path / "book")
    same = b"#" * place.stat().st_size  # of the length at which it is overwritten in place
    outside.write_bytes(same)
    place.unlink()
    if hard:
        os.link(outside, place)
    else:
        place.symlink_to(outside)
    ledger.append(Entry("mean", 2.0, 1.0))
    assert outside.read_bytes() == same
    assert not place.is_symlink()
    assert b'"000000000002"' in place.read_bytes()


def test_a_ledger_that_its_user_reaches_by_a_link_goes_on_where_it_lies(tmp_path):
    Ledger(tmp_path / "book").append(Entry("mean", 2.0, 1.0))
    (tmp_path / "link").symlink_to(tmp_path / "book")
    Ledger.load(tmp_path / "link").append(Entry("mean", 2.0, 1.0))
    assert (tmp_path / "link").is_symlink()
    assert len(Ledger.load(tmp_path / "book")) == 2
    assert guard_file_of(tmp_path / "link") == tmp_path / "book.seen"


def test_a_checkpoint_stays_in_its_folder(outside, tmp_path):
    (tmp_path / "checkpoint").mkdir()
    linked(tmp_path / "checkpoint", outside, "checkpoint.safetensors", "after.json")
    found = Checkpoints(tmp_path / "checkpoint")
    found.write({"run": "a", "weights": torch.ones(2)})
    assert found.run == "a"
    found.clear()
    assert outside.read_bytes() == MINE


@pytest.mark.parametrize("name", ["job.json", "checkpoint.ledger", "checkpoint", "checkpoint/checkpoint.safetensors"])
def test_an_interrupted_run_whose_files_are_links_is_refused(name, outside, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    Job("f.csv", {}, "l", 1.0, rows=10).begin(tmp_path / "run")
    place = tmp_path / "run" / name
    if name == "job.json":
        place.rename(tmp_path / "elsewhere" / name)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "elsewhere" / name if name == "job.json" else tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=f"{name} is a link"):
        Job.load(tmp_path / "run")
