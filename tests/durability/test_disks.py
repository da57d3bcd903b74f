"""Disks that are full and folders that may not be written, for real: nothing is paid for that is not counted."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import dpmac
from dpmac import DPMACClassifier, Machine
from dpmac.privacy import Entry, Ledger
from durability.child import FIT, STEPS, rows
from durability.lives import ROUNDS, TRAIN, Nursery, people_in

pytestmark = pytest.mark.skipif(os.name != "posix", reason="mounts and permissions")


@contextmanager
def disk(size):
    """A disk of ``size`` bytes; skips where nobody lets us mount one."""
    folder = Path(tempfile.mkdtemp())
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mounted, capture_output=True, check=False).returncode:
        folder.rmdir()
        pytest.skip("no disk can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def filled(folder, left):
    """A file that leaves so many bytes."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as handle:
        while True:
            try:
                handle.write(b"x" * 4096)
            except OSError:
                break
        handle.truncate(max(0, handle.tell() - left))
    return path


@pytest.fixture
def handed_out(monkeypatch):
    """Every release whose answer was handed out, as somebody beside the ledger counts them."""
    import dpmac.methods.objective
    import dpmac.training.trainer
    from dpmac.privacy import gaussian_release

    seen, exact = [], gaussian_release.release

    def release(*what, **how):
        answer = exact(*what, **how)
        seen.append(1)
        return answer

    for module in (dpmac.methods.objective, dpmac.training.trainer):
        assert module.release is exact
        monkeypatch.setattr(module, "release", release)
    return seen


def fit(folder):
    return DPMACClassifier(**FIT, ledger=folder / "ledger", machine=Machine(checkpoint=folder / "kept")).fit(*rows())


@pytest.mark.filterwarnings("ignore:.*could not be written:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*died with the process:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*were released after the last checkpoint:RuntimeWarning")
@pytest.mark.parametrize("left", [0, 4096, 8192, 12_288, pytest.param(20_480, marks=pytest.mark.long)])
def test_a_fit_on_a_disk_that_fills_up_counts_everything_and_goes_on(left, handed_out):
    with disk("1m") as folder:
        filler = filled(folder, left)
        with suppress(OSError):
            fit(folder)
        book = folder / "ledger"
        paid = len(Ledger.read(book)) if book.exists() and book.stat().st_size else 0
        assert paid >= len(handed_out)
        filler.unlink()
        model = fit(folder)
        assert len(Ledger.read(book)) == STEPS + ROUNDS >= len(handed_out)
        assert model.privacy_.epsilon <= FIT["epsilon"]
        assert not (folder / "kept").exists()


def test_a_model_on_a_full_disk_is_there_whole_or_not_at_all():
    model = DPMACClassifier(**FIT).fit(*rows())
    with disk("256k") as folder:
        for left in (0, 4096, 8192, 16_384):
            filler = filled(folder, left)
            with pytest.raises(OSError, match="No space left"):
                model.save(folder / "model")
            assert [path.name for path in folder.iterdir()] == ["filler"]
            filler.unlink()
        model.save(folder / "model")
        assert (dpmac.load(folder / "model").predict_proba(rows()[0]) == model.predict_proba(rows()[0])).all()


# --- folders that may not be written ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nursery():
    made = Nursery()
    yield made
    made.stop()


@pytest.fixture
def reading_room():
    """In ``room`` the files of a command, which everybody may read and nobody may write to; ``said`` is open."""
    folder = Path(tempfile.mkdtemp())
    (folder / "said").mkdir()
    room = folder / "room"
    room.mkdir()
    people_in(room)
    Ledger(room / "old.ledger").append(Entry("first", 1.0, 0.5))  # which makes the file
    for path in (folder, room, folder / "said"):
        path.chmod(0o755)
    (folder / "said").chmod(0o777)
    room.chmod(0o555)
    (room / "old.ledger").chmod(0o444)
    yield folder
    room.chmod(0o755)
    shutil.rmtree(folder)


def with_out(out, ledger):
    changed = {"model": out, "some.ledger": ledger, "people.csv": "../room/people.csv"}
    return [changed.get(word, word.replace("people.schema", "../room/people.schema")) for word in TRAIN]


@pytest.mark.long
@pytest.mark.parametrize(
    ("out", "ledger", "said"),
    [
        ("../room/model", "some.ledger", "nothing can be written"),
        ("model", "../room/new.ledger", "nothing can be written"),
        ("model", "../room/old.ledger", "old.ledger"),
        ("../room/deep/er/model", "some.ledger", "the folders before must be there"),
    ],
)
def test_a_folder_that_may_not_be_written_is_said_before_anything_is_spent(nursery, reading_room, out, ledger, said):
    before = sorted(path.name for path in (reading_room / "room").iterdir())
    child = nursery.begin(reading_room / "said", [with_out(out, ledger)], None, nobody=True)
    assert child.wait() in (1, 2)
    text = child.said.read_text()
    assert said in text
    assert text.count("\n") == 1
    assert "Traceback" not in text
    assert sorted(path.name for path in (reading_room / "room").iterdir()) == before
    there = [path.name for path in (reading_room / "said").iterdir() if not path.name.startswith(("said.", "witness."))]
    assert there == []
    assert len(Ledger.read(reading_room / "room" / "old.ledger")) == 1
