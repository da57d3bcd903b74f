"""Files that end at any byte: read as what they were, or refused by name; never as something else."""

from __future__ import annotations

import shutil

import pytest
import torch

import dpmac
from dpmac import DPMACClassifier
from dpmac.privacy import Entry, Ledger
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.post_training import PostTraining
from durability.child import FIT, rows


def test_a_ledger_that_ends_at_any_byte(tmp_path):
    """Whole, or without a last line whose release never returned, or refused."""
    book = Ledger(tmp_path / "whole", "hospital")
    Ledger(data_set="hospital").save(tmp_path / "none")  # of no releases: a header alone
    texts = [(tmp_path / "none").read_bytes()]
    for step in range(4):
        book.append(Entry("training step", 1.0 + step, 0.5, False, {"layer 1": 0.5}))
        texts.append(book.path.read_bytes())
    raw, header = texts[4], len(texts[0])
    late = texts[3][:header] + raw[header:]  # killed before the header counted the fourth
    for text, counted in ((raw, 4), (late, 3)):
        found = set()
        for length in range(len(text) + 1):
            path = tmp_path / "cut"
            path.write_bytes(text[:length])
            try:
                book = Ledger.load(path)
            except ValueError:
                found.add("refused")
                continue
            assert counted <= len(book) <= 4
            found.add(len(book))
            if length % 50 == 0 or len(book) == 4:
                book.append(Entry("more", 1.0, 1.0))
                assert Ledger.read(path).entries == book.entries
                path.with_name("cut.seen").unlink(missing_ok=True)
        assert found == {"refused", *range(counted, 5)}


def test_a_checkpoint_that_ends_at_any_byte_is_refused(tmp_path):
    kept = Checkpoints(tmp_path / "kept")
    kept.write({"run": "r", "done": 2, "ledger": 0, "heads": [], "w": torch.ones(2, 2)})
    raw = kept.path.read_bytes()
    for length in range(len(raw)):
        kept.path.write_bytes(raw[:length])
        with pytest.raises(ValueError, match=r"checkpoint\.safetensors"):
            kept.read()
    kept.path.write_bytes(raw)
    assert kept.read()["done"] == 2


def test_what_was_written_after_a_training_and_ends_at_any_byte_is_refused(tmp_path):
    book = Ledger(tmp_path / "ledger")
    kept = Checkpoints(tmp_path / "kept")
    kept.write({"run": "r", "done": 2, "ledger": 0, "heads": [], "w": torch.ones(1)})
    with book.noting(run="r"):
        book.append(Entry("calibration", 1.0, 1.0))
    after = PostTraining.of(book, kept, 2, seeded=False)
    assert (after.made, after.known, after.kept) == (1, 0, None)
    after.keep(1, (0.1 + 0.2, 1e-300))
    raw = kept.after.read_bytes()
    for length in range(len(raw) - 1):  # the last byte is a line end
        kept.after.write_bytes(raw[:length])
        with pytest.raises(ValueError, match=r"after\.json"):
            PostTraining.of(book, kept, 2, seeded=False)
    kept.after.write_bytes(raw)
    assert PostTraining.of(book, kept, 2, seeded=False).kept == (0.1 + 0.2, 1e-300)


@pytest.mark.parametrize("stride", [97, pytest.param(5, marks=pytest.mark.long)])
def test_a_models_folder_with_any_file_cut_at_any_byte_is_refused(tmp_path, stride):
    """With the long tests at every byte of the manifest, which holds all digests, and at every fifth of the others."""
    folder = DPMACClassifier(**FIT).fit(*rows()).save(tmp_path / "model")
    tried = 0
    for path in sorted(folder.iterdir()):
        raw = path.read_bytes()
        step = 1 if path.name == "dpmac.json" and stride < 10 else stride
        for length in range(len(raw) % step, len(raw), step):
            path.write_bytes(raw[:length])
            with pytest.raises((ValueError, FileNotFoundError), match=path.name):
                dpmac.load(folder)
            tried += 1
        path.write_bytes(raw)
    assert tried > 100
    dpmac.load(folder)
    shutil.rmtree(folder)
