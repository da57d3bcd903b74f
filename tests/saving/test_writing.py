"""A folder is there whole or not at all, and nothing is ever written over."""

from __future__ import annotations

import errno
import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from saved_models import all_same, answers, made

import dpmac
from dpmac import ArgumentError, files
from dpmac.saving import check_free, folder, writing
from dpmac.saving.manifest import FILES

ALWAYS = {"dpmac.json", "README.md", "model.safetensors", "ledger.jsonl", "statement.json", "statement.txt"}
TRAINED = {*ALWAYS, "plan.json", "history.json"}


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("bools", TRAINED),
        ("strings", TRAINED | {"front.safetensors"}),
        ("table", TRAINED | {"front.safetensors", "schema.json"}),
        ("closed form of a table", ALWAYS | {"front.safetensors", "schema.json"}),
        ("linear code", ALWAYS),
    ],
)
def test_the_files_of_a_folder(name, files, tmp_path):
    model, _ = made(name)
    where = model.save(tmp_path / "deep" / "er" / "run")
    assert {path.name for path in where.iterdir()} == files
    manifest = json.loads((where / "dpmac.json").read_text())
    assert set(manifest["files"]) == files - {"dpmac.json"}
    for one, digest in manifest["files"].items():
        assert digest["bytes"] == (where / one).stat().st_size
    assert [path.name for path in where.parent.iterdir()] == ["run"]  # nothing is left beside it
    first = str(model.privacy_.statement()).partition("Not covered")[0]
    assert (where / "statement.txt").read_text().startswith(first)


def test_a_folder_that_has_something_in_it_is_left_alone(tmp_path):
    model, x = made("strings")
    where = model.save(tmp_path / "run")
    before = {path.name: path.read_bytes() for path in where.iterdir()}
    with pytest.raises(ArgumentError, match="nothing is written over it"):
        made("bools")[0].save(where)
    assert {path.name: path.read_bytes() for path in where.iterdir()} == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ArgumentError, match="a file is there already"):
        model.save(tmp_path / "file")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    for taken in (where, tmp_path / "file", str(tmp_path / "notes")):
        with pytest.raises(ArgumentError, match="folder="):
            check_free(taken)
    (tmp_path / "empty").mkdir()
    check_free(tmp_path / "empty")
    check_free(tmp_path / "new")
    assert all_same(answers(dpmac.load(model.save(tmp_path / "empty")), x), answers(model, x))


def test_what_a_running_train_left_there_stays(tmp_path):
    model, x = made("strings")
    where = tmp_path / "run"
    (where / "checkpoint").mkdir(parents=True)
    (where / "checkpoint" / "state").write_text("s")
    (where / "job.json").write_text("{}")
    model.save(where)
    assert (where / "checkpoint" / "state").read_text() == "s"
    assert all_same(answers(dpmac.load(where), x), answers(model, x))
    with pytest.raises(ArgumentError, match="nothing is written over it"):
        model.save(where)
    (where / "dpmac.json").unlink()  # as if the save had been killed before its last move
    made("bools")[0].save(where)
    assert dpmac.load(where).classes_.dtype == bool


@pytest.mark.parametrize(
    ("error", "job"), [(OSError(errno.ENOSPC, "No space left on device"), False), (KeyboardInterrupt(), True)]
)
def test_an_interruption_leaves_nothing_behind(error, job, tmp_path, monkeypatch):
    """A full disk, or Ctrl-C, at every single file that is written, and at the move."""
    model, x = made("table")
    where = tmp_path / "run"
    if job:
        where.mkdir()
        (where / "job.json").write_text("{}")
    names = ("write_json", "write_text", "digest_of", "sealed")
    calls = 0
    for home, name in [*((folder, name) for name in names), (writing, "sync")]:
        exact = getattr(home, name)
        for stop in range(100):
            seen = iter(range(100))

            def failing(*arguments, exact=exact, seen=seen, stop=stop):
                if next(seen) == stop:
                    raise error
                return exact(*arguments)

            monkeypatch.setattr(home, name, failing)
            try:
                model.save(where)
            except type(error):
                calls += 1
                left = {path.name for path in where.iterdir()} if where.exists() else set()
                if "dpmac.json" in left:  # all was in place: only the last sync was interrupted
                    dpmac.load(where)
                    break
                assert left <= {"job.json", *FILES}
                assert [path.name for path in tmp_path.iterdir()] == (["run"] if job else [])
                continue
            finally:
                monkeypatch.setattr(home, name, exact)
            break
        assert all_same(answers(dpmac.load(where), x), answers(model, x))
        for path in where.iterdir():
            if path.name != "job.json":
                path.unlink()
        if not job:
            where.rmdir()
    assert calls > 20


def test_into_a_folder_with_a_job_the_manifest_is_moved_last(tmp_path, monkeypatch):
    """Killed between any two moves, it is no model yet, and can be saved again."""
    model, x = made("table")
    where, exact, stop = tmp_path / "run", Path.replace, 0
    where.mkdir()
    (where / "job.json").write_text("{}")
    while not (where / "dpmac.json").exists():
        left = iter(range(stop))
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(Path, "replace", lambda path, to, left=left: exact(path, to) if stopping(left) else None)
            model.save(where)
        stop += 1
        if stop < len(TRAINED):
            with pytest.raises(FileNotFoundError, match=r"no model yet.*dpmac resume"):
                dpmac.load(where)
    assert stop > len(TRAINED)
    assert all_same(answers(dpmac.load(where), x), answers(model, x))


def stopping(left):
    """True as long as there is something left, and then Ctrl-C."""
    for _ in left:
        return True
    raise KeyboardInterrupt


def test_a_disk_that_is_really_full(tmp_path, monkeypatch):
    """/dev/full takes nothing: what is written there fails as on a full disk."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    monkeypatch.setattr(files, "created", lambda path: open("/dev/full", "wb"))  # noqa: SIM115
    with pytest.raises(OSError, match="No space left"):
        writing.write_text(tmp_path / "new", "x" * 10_000)


def test_a_folder_below_a_file_is_an_error_of_the_system(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="file"):
        made("strings")[0].save(tmp_path / "file" / "run")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ["table", "closed form of a table", "components"])
def test_a_folder_tells_no_time_of_day(name, tmp_path):
    """How long a fit took can depend on one person's rows, and a folder is published: days are all that it has."""
    model, _ = made(name)
    where = model.save(tmp_path / "run")
    for path in where.iterdir():
        if path.suffix != ".safetensors":
            assert not re.search(r"\d\d:\d\d", path.read_text()), path.name
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", json.loads((where / "dpmac.json").read_text())["created"])
