"""Folders that dpmac 0.2 wrote are read for ever, and answer as they did then."""

from __future__ import annotations

import json
from pathlib import Path

import make_written_by_0_2 as maker
import numpy as np
import pytest

import dpmac
from dpmac.saving import open_folder

FOLDER = Path(__file__).parent / "written_by_0_2"
ASKED = json.loads((FOLDER / "asked.json").read_text(encoding="utf-8"))


def rows_of(name):
    rows = ASKED[name]["rows"]
    return rows if isinstance(rows, dict) else np.array(rows, dtype=np.float32)


def test_all_folders_are_asked():
    assert (
        {path.name for path in FOLDER.iterdir() if path.is_dir()}
        == set(ASKED)
        == {"classifier", "regressor", "components"}
    )


@pytest.mark.parametrize("name", ASKED)
def test_it_answers_as_it_did(name):
    model = dpmac.load(FOLDER / name)
    found, wanted = maker.answers(model, rows_of(name)), ASKED[name]["answers"]
    assert found.keys() == wanted.keys()
    for method, value in wanted.items():
        if isinstance(value[0], str):
            assert found[method] == value
        else:  # another machine's library may round the last digit otherwise
            np.testing.assert_allclose(found[method], value, rtol=1e-12, atol=1e-13)
    assert model.privacy_.epsilon == pytest.approx(ASKED[name]["epsilon"], rel=1e-3)


@pytest.mark.parametrize("name", ASKED)
def test_its_pieces_are_read(name):
    folder = open_folder(FOLDER / name)
    assert folder.manifest["format"] == "dpmac-model-1"
    assert len(folder.ledger()) > 0
    assert folder.statement()["private"] is True
    assert (folder.plan() is None) == (name == "components")
    assert (folder.schema() == maker.SCHEMA) == (name == "regressor")
    assert {entry.purpose for entry in folder.ledger().entries} == ({"a fixture"} if name == "classifier" else {""})


def test_what_made_them_is_kept_and_works(tmp_path):
    """As long as the format is this one, the maker makes the same files."""
    maker.main(tmp_path)
    names = {path.relative_to(FOLDER) for path in FOLDER.rglob("*")}
    assert names == {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
