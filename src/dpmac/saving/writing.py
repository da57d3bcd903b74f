"""A folder that is there whole, or not at all: everything is written and synced beside its place, then moved there."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.files import part_of, sync, write_new
from dpmac.saving.manifest import FILES, NAME

TAKEN = "there is something in this folder already, and nothing is written over it: give a new one"


def check_free(folder: str | Path) -> None:
    """Raise unless a model may be saved to ``folder``: nothing is there, or nothing but a running train's own files.

    Those are ``job.json`` and ``checkpoint...``. Beside a job, files of a save that was interrupted (no manifest) may
    be written over too.
    """
    where = Path(folder)
    if not where.exists() and not where.is_symlink():
        return
    if not where.is_dir():
        raise ArgumentError("folder", str(where), "a file is there already: give a new folder")
    there = {path.name for path in where.iterdir()}
    own = {name for name in there if name == "job.json" or name.startswith("checkpoint")}
    if "job.json" in there and NAME not in there:  # of a run that was interrupted while its model was written
        own |= there & set(FILES)
    if there - own:
        raise ArgumentError("folder", str(where), TAKEN)


@contextmanager
def whole_folder(where: Path) -> Iterator[Path]:
    """A folder to write into, which becomes ``where`` at the end; after any error nothing has become of it.

    Into a folder that exists the files are moved one by one, the manifest last: without it, it is no model.
    """
    check_free(where)
    with _beside(where) as beside:
        yield beside
        _sync_all(beside)
        if where.exists() and any(where.iterdir()):
            for path in sorted(beside.iterdir(), key=lambda path: path.name == NAME):
                path.replace(where / path.name)
            beside.rmdir()
            sync(where)
        else:
            if where.exists():
                where.rmdir()  # an empty one; not every system renames over it
            beside.rename(where)
        sync(where.parent)


@contextmanager
def new_folder(where: Path) -> Iterator[Path]:
    """A folder to write into, which becomes ``where`` at the end; FileExistsError if anything is there by then.

    Of several processes that make the same folder exactly one succeeds, provided that each puts something into it:
    a folder is renamed over nothing, or over an empty one.
    """
    with _beside(where) as beside:
        yield beside
        _sync_all(beside)
        try:
            beside.rename(where)
        except OSError as error:
            if os.path.lexists(where):
                raise FileExistsError(errno.EEXIST, "it is there already", str(where)) from error
            raise
        sync(where.parent)


@contextmanager
def _beside(where: Path) -> Iterator[Path]:
    """A folder beside ``where``, under a name that nobody can guess; after any error it is gone."""
    where.parent.mkdir(parents=True, exist_ok=True)
    beside = part_of(where)
    beside.mkdir()
    try:
        yield beside
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _sync_all(folder: Path) -> None:
    for path in folder.iterdir():
        sync(path)
    sync(folder)


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=1, allow_nan=False))


def write_text(path: Path, text: str) -> None:
    """A new file: text with Unix line ends, whatever the system, so that a digest is of the same bytes everywhere."""
    write_new(path, f"{text}\n".encode())
