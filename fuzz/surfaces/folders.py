"""Folders of models: files spoilt, gone, linked or exchanged; and forged ones, whose manifest fits what was spoilt."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import dpmac
from dpmac.cli.inspect import _finished
from dpmac.report.page import write_report
from dpmac.saving import open_folder
from dpmac.saving.manifest import NAME, digest_of, sealed
from fuzz.cases import Action, Case
from fuzz.mutations import as_json, spoilt_bytes, spoilt_tree
from fuzz.surfaces.starts import FITTED, rows, saved, table

EVALUATION = {
    "rows": 24,
    "public": True,
    "file": "people.csv",
    "scores": {"accuracy": 0.8, "log_loss": 0.4, "auroc": 0.9, "calibration_error": 0.05},
    "positive": "1",
    "reliability": [{"low": 0.0, "high": 0.5, "rows": 12, "predicted": 0.2, "observed": 0.25}],
}


def prepare(case: Case) -> Action:
    """A copy of a model's folder with something wrong, opened as a user would."""
    name = case.one_of(FITTED)
    run = case.folder / "run"
    shutil.copytree(saved(name), run)
    if case.random.random() < 0.5:
        (run / "evaluation.json").write_bytes(as_json(EVALUATION))
    case.note(name)
    forged = case.random.random() < 0.6
    for _ in case.times():
        with suppress(ValueError, RecursionError):  # an earlier mutation left no JSON
            _forge(case, run) if forged else _spoil(case, run)
    rows_of = table() if name in ("classifier", "regressor") else rows()[0]
    report = case.random.random() < 0.3

    def action() -> None:
        model = dpmac.load(run)
        assert forged, "a spoilt folder was taken for whole"
        model.privacy_.statement().sentences()
        getattr(model, "predict" if hasattr(model, "predict") else "transform")(rows_of)
        found = open_folder(run)
        found.schema()
        _finished(found)
        if report:
            write_report(run)

    return action


def _spoil(case: Case, run: Path) -> None:
    """Without the manifest's knowledge: every one must be noticed."""
    path = case.one_of(sorted(path for path in run.iterdir() if path.name != "evaluation.json"))
    if path.is_symlink() or not path.is_file():
        return
    raw = path.read_bytes()
    match case.random.randrange(6):
        case 0:
            path.unlink()
            case.note(f"{path.name} gone")
        case 1:
            path.unlink()
            path.symlink_to(case.one_of(["/dev/null", "nowhere", "/etc/hostname", ".", path.name]))
            case.note(f"{path.name} a link")
        case 2:
            path.unlink()
            path.mkdir()
            case.note(f"{path.name} a folder")
        case 3:
            other = case.one_of(sorted(saved(case.one_of(FITTED)).iterdir()))
            while other.read_bytes() == raw:
                other = case.one_of(sorted(saved(case.one_of(FITTED)).iterdir()))
            shutil.copy(other, path)
            case.note(f"{path.name} is another's {other.name}")
        case _:
            new, said = raw, ""
            while new == raw:
                new, said = spoilt_bytes(case.random, raw)
            path.write_bytes(new)
            case.note(f"{path.name}: {said}")


def _forge(case: Case, run: Path) -> None:
    """With digests and seal made anew: nothing is executed and nothing breaks, whatever comes of it."""
    manifest: Any = json.loads((run / NAME).read_bytes())
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        return
    path = case.one_of([*sorted(run.iterdir()), *[run / NAME] * 3])
    if path.name == NAME:
        keep = {key: manifest.pop(key) for key in ("files", "format", "seal")}
        new, said = spoilt_tree(case.random, manifest)
        manifest = {**new, **keep} if isinstance(new, dict) else {**manifest, **keep}
    elif path.suffix == ".json" and case.random.random() < 0.8:
        new, said = spoilt_tree(case.random, json.loads(path.read_bytes()))
        path.write_bytes(as_json(new))
    else:
        raw, said = spoilt_bytes(case.random, path.read_bytes())
        path.write_bytes(raw)
    case.note(f"{path.name}: {said}, forged")
    for name in manifest["files"]:
        if (run / name).is_file():
            manifest["files"][name] = digest_of(run / name)
    try:
        (run / NAME).write_bytes(sealed(manifest))
    except (ValueError, UnicodeEncodeError):  # a lone surrogate, NaN: no manifest can be sealed over those
        (run / NAME).write_bytes(as_json(manifest))
