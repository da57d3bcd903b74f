"""Folders of trainings that were interrupted, with something spoilt in them: ``dpmac resume`` and ``inspect``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import dpmac
from dpmac import Ledger
from fuzz.cases import Action, Case
from fuzz.mutations import as_json, spoilt_bytes, spoilt_tree
from fuzz.surfaces.commands import run_in
from fuzz.surfaces.starts import csv_bytes, interrupted

FILES = (
    "run/job.json",
    "run/job.json",
    "run/job.json",
    "people.csv",
    "some.ledger",
    "run/checkpoint/checkpoint.safetensors",
)


def prepare(case: Case) -> Action:
    """A copy of an interrupted run in which something is wrong, or not."""
    shutil.copytree(interrupted(), case.folder, dirs_exist_ok=True)
    (case.folder / "people.csv").write_bytes(csv_bytes())
    for _ in case.times(2) if case.random.random() < 0.9 else ():
        _spoil(case, case.folder / case.one_of(FILES))
    _put_in_place(case.folder)
    book = case.folder / "some.ledger"
    if _readable(book):
        case.ledgers.append(book)
    command = case.one_of(["resume", "resume", "inspect"])
    more = case.one_of([[], ["--quiet"], ["--json"], ["--again"], ["--same-rows"]]) if command == "resume" else []
    case.note(f"{command} {more}")

    def action() -> None:
        run_in(case, [command, "run", *more])
        if command == "resume":
            assert dpmac.load(case.folder / "run").privacy_.epsilon >= 0

    return action


def _spoil(case: Case, path: Path) -> None:
    if not path.is_file():
        return
    if path.name == "job.json" and case.random.random() < 0.8:
        try:
            tree, said = spoilt_tree(case.random, json.loads(path.read_bytes()))
        except (ValueError, RecursionError):
            return
        if isinstance(tree, dict) and isinstance(tree.get("epochs"), int | float):
            tree["epochs"] = min(tree["epochs"], 4)  # no long trainings
        path.write_bytes(as_json(tree))
    elif case.random.random() < 0.15:
        path.unlink()
        said = "gone"
    else:
        raw, said = spoilt_bytes(case.random, path.read_bytes())
        path.write_bytes(raw)
    case.note(f"{path.name}: {said}")


def _put_in_place(folder: Path) -> None:
    """The paths in a job are absolute: those of the start become those of the case."""
    path = folder / "run" / "job.json"
    if path.is_file():
        path.write_bytes(path.read_bytes().replace(str(interrupted()).encode(), str(folder).encode()))


def _readable(path: Path) -> Any:
    try:
        return len(Ledger.read(path)) >= 0
    except (ValueError, OSError):
        return False
