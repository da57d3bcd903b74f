"""A folder that is published says nothing of where files lie on the machine of whoever made it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from saved_models import PRIVATE, all_same, answers, rows

import dpmac
from dpmac import DPMACClassifier, Ledger, Machine
from dpmac.report.page import write_report
from dpmac.saving import export_torch
from dpmac.saving.manifest import NAME, sealed
from dpmac.training.checkpoint import Checkpoints

WAYS = {
    "paths": lambda home: {"ledger": home / "hospital.ledger", "machine": Machine(checkpoint=home / "kept")},
    "texts": lambda home: {"ledger": str(home / "hospital.ledger"), "machine": Machine(checkpoint=str(home / "kept"))},
    "objects": lambda home: {
        "ledger": Ledger(home / "hospital.ledger"),
        "machine": Machine(checkpoint=Checkpoints(home / "kept"), scratch=home),
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_no_file_of_a_folder_names_a_place(way, tmp_path):
    home, x = tmp_path / "holders-home", rows(9)
    home.mkdir()
    model = DPMACClassifier((3,), **WAYS[way](home), **PRIVATE).fit(x, x[:, 0] > 0)
    folder = model.save(home / "run")
    write_report(folder)
    export_torch(folder, folder / "model.pt2")
    here = str(Path(dpmac.__file__).parent)
    for path in folder.iterdir():
        raw = path.read_bytes()
        assert b"holders-home" not in raw, path.name
        assert here.encode() not in raw, path.name
    manifest = json.loads((folder / NAME).read_text())
    assert manifest["arguments"]["ledger"] == {"ledger": None, "name": "hospital.ledger"}
    again = dpmac.load(folder)
    assert (again.machine, again.ledger.path) == (Machine(), None)
    assert all_same(answers(again, x), answers(model, x))


@pytest.mark.parametrize(
    "given", ["/a/file", {"path": "/a/file"}, {"own": "file"}, {"ledger": None}], ids=["text", "path", "name", "none"]
)
def test_a_folder_cannot_name_a_file_of_the_machine_that_loads_it(given, tmp_path):
    """Version 0.2 wrote paths; whoever forges a folder may write any. A fit would go on with a ledger there."""
    x = rows(9)
    folder = DPMACClassifier((3,), **PRIVATE).fit(x, x[:, 0] > 0).save(tmp_path / "run")
    manifest = json.loads((folder / NAME).read_text())
    manifest["arguments"] |= {"ledger": given, "checkpoint": given}
    (folder / NAME).write_bytes(sealed(manifest))
    again = dpmac.load(folder)
    assert again.machine is None
    assert isinstance(again.ledger, Ledger)
    assert again.ledger.path is None
