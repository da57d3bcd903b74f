"""Folders whose seal fits what somebody changed: refused by name, or loaded; and nothing is ever executed."""

from __future__ import annotations

import json
import shutil

import pytest
from saved_models import made

import dpmac
from dpmac.privacy import Ledger
from dpmac.report.page import write_report
from dpmac.saving import open_folder
from dpmac.saving.manifest import NAME, digest_of, sealed


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return made("strings")[0].save(tmp_path_factory.mktemp("forged") / "model")


def forged(original, tmp_path, name, change):
    """A copy whose file ``name`` was changed, and whose manifest knows it."""
    folder = shutil.copytree(original, tmp_path / "model")
    content = json.loads((folder / name).read_text())
    change(content)
    if name != NAME:
        (folder / name).write_text(json.dumps(content))
        content = json.loads((folder / NAME).read_text())
        content["files"][name] = digest_of(folder / name)
    (folder / NAME).write_bytes(sealed(content))
    return folder


@pytest.mark.parametrize(
    ("key", "value"),
    [("delta", {}), ("delta", True), ("epsilon", "2"), ("not_covered", 0.5), ("unit", None), ("seeded", 1)],
)
def test_a_statement_of_other_kinds_is_refused(original, tmp_path, key, value):
    folder = forged(original, tmp_path, "statement.json", lambda said: said.update({key: value}))
    with pytest.raises(ValueError, match=rf"statement\.json.*its {key} is"):
        open_folder(folder).statement()
    with pytest.raises(ValueError, match=r"statement\.json"):
        write_report(folder)


def test_a_statement_without_a_key_is_refused(original, tmp_path):
    folder = forged(original, tmp_path, "statement.json", lambda said: said.pop("unit"))
    with pytest.raises(ValueError, match=r"statement\.json"):
        open_folder(folder).statement()


def test_a_loss_that_nobody_knows_is_refused(original, tmp_path):
    folder = forged(original, tmp_path, NAME, lambda manifest: manifest["arguments"].update(loss="日本"))
    with pytest.raises(ValueError, match=r"dpmac\.json"):
        dpmac.load(folder)


@pytest.mark.parametrize("scores", [3, [1.0], "high", None])
def test_scores_that_are_none_are_refused(original, tmp_path, scores):
    folder = shutil.copytree(original, tmp_path / "model")
    (folder / "evaluation.json").write_text(json.dumps({"public": True, "scores": scores}))
    with pytest.raises(ValueError, match=r"evaluation\.json.*no names"):
        open_folder(folder).evaluation()
    (folder / "evaluation.json").write_text("{}")
    assert open_folder(folder).evaluation() == {}


@pytest.mark.parametrize("found", [{"tuple": []}, {"tuple": [1, 0]}, 3, None, {"tuple": ["a", 1]}])
def test_a_range_of_a_target_that_is_none_is_refused(tmp_path, found):
    saved = made("number")[0].save(tmp_path / "number")
    folder = forged(saved, tmp_path, NAME, lambda manifest: manifest["fitted"].update(target_range_=found))
    with pytest.raises(ValueError, match=r"dpmac\.json"):
        dpmac.load(folder)


def test_half_a_character_is_refused(original, tmp_path):
    folder = forged(original, tmp_path, NAME, lambda manifest: manifest.update(name="\ud800"))
    with pytest.raises(ValueError, match=r"dpmac\.json"):
        write_report(folder)


def test_a_report_on_a_model_whose_range_is_none(original, tmp_path):
    """Of a range of the user's own a folder has the name alone: then there are no rows to show effects on."""
    folder = forged(original, tmp_path, NAME, lambda manifest: manifest["arguments"].update(feature_range=[1, 2, 3]))
    dpmac.load(folder)
    assert write_report(folder).read_text().rstrip().endswith("</html>")


def test_a_header_of_a_ledger_that_counts_with_a_list_is_damaged(tmp_path):
    path = tmp_path / "ledger"
    Ledger().save(path)
    path.write_bytes(path.read_bytes().replace(b'"000000000000"', b"[0]"))
    with pytest.raises(ValueError, match="line 1: damaged"):
        Ledger.load(path)


def test_a_line_of_a_ledger_that_is_nested_without_end_is_damaged(tmp_path):
    path = tmp_path / "ledger"
    Ledger().save(path)
    path.write_bytes(path.read_bytes() + b"[" * 100_000 + b"\n")
    with pytest.raises(ValueError, match="line 2: damaged"):
        Ledger.load(path)
    path.write_bytes(path.read_bytes()[:-1])  # torn: its release never returned
    assert len(Ledger.load(path)) == 0
