"""Every path of a training, tried before anything is spent: what cannot be written there, and what is in the way.

Nothing is concluded from names. The run folder is really made, as a training makes it and with the longest names that
are put beside and into it, and removed again; while it is there, the system itself says which other paths lie in it
(through links, relative paths, names that differ in case alone). So is a file beside the ledger.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from dpmac.checks import ArgumentError, check_utf8
from dpmac.cli.ending import Failed
from dpmac.cli.jobs import CHECKPOINT, JOB
from dpmac.extensions.ledger_places import check_name
from dpmac.files import created, part_of, whole_file, write_new

FREE_SPACE = 32 * 2**20  # bytes that must be free where a model or a ledger is to be written
TRIAL = b"." * 4096  # what is written to try a place
LONGEST = 1000  # characters of a name or a purpose: it is written with every release
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_places(
    folder: Path,
    ledger: Path | None,
    inputs: Mapping[str, Path | None] | None = None,
    scratch: Path | None = None,
    *,
    new_ledger: bool = False,
) -> None:
    """Raise unless a new run folder and the ledger can be written, and no path is in another's way.

    ``inputs`` are the files that are read, by the names of their options; "file" are the rows. Touches no rows and
    leaves nothing behind. A ledger that begins beside one of nearly the same name must be meant: ``new_ledger``.
    """
    given = {option: path for option, path in (inputs or {}).items() if path is not None}
    for option, path in {"--out": folder, "--ledger": ledger, "--scratch": scratch, **given}.items():
        if path is not None:
            check_text(option, str(path))
    _check_new(folder)
    _check_inputs(given, {"--out": folder, "--ledger": ledger, "--scratch": scratch})
    if scratch is not None:
        _check_scratch(scratch)
    with tried_folder(folder):
        for option, path in (("--ledger", ledger), ("--scratch", scratch)):
            if path is not None and _lies_in(path, folder):
                fix = f"it lies in the run folder {folder}, in which nothing else may be: give a path outside"
                raise ArgumentError(option, str(path), fix)
        if ledger is not None:
            check_apart(folder, ledger)
            check_ledger(ledger)
            if not new_ledger:
                check_name(ledger, "--ledger")


def check_estimate(file: Path, ledger: Path, out: Path | None) -> None:
    """Raise unless the ledger of an estimate and the schema that it makes can be written, over nothing that is needed.

    The template itself may be written over: filling it in is what the command is for.
    """
    for option, path in (("file", file), ("--ledger", ledger), ("--out", out)):
        if path is not None:
            check_text(option, str(path))
    _check_inputs({"file": file}, {"--ledger": ledger, "--out": out})
    if out is not None:
        check_apart(out, ledger)
        if os.path.isdir(out):
            raise ArgumentError("--out", str(out), "this is a folder: give a file")
        if not os.path.isdir(out.absolute().parent):
            raise ArgumentError("--out", str(out), "give a file in a folder that is there")
        check_file("--out", out)
    check_ledger(ledger)


def check_text(option: str, text: str, longest: int | None = None) -> None:
    """Raise unless a text can be written into any file and shown on any line."""
    check_utf8(option, text)
    if any(unicodedata.category(letter) == "Cc" for letter in text):
        raise ArgumentError(option, text, "there is a line break or a control character in it: leave it out")
    if longest is not None and len(text) > longest:
        raise ArgumentError(option, f"{text[:40]}...", f"give at most {longest} characters")


def check_ledger(ledger: Path) -> None:
    """Raise unless a ledger can be begun or continued at this path; one that is damaged is a ValueError."""
    from dpmac.privacy import Ledger

    check_text("--ledger", str(ledger))
    if os.path.isdir(ledger):
        raise ArgumentError("--ledger", str(ledger), "this is a folder: give a file")
    if os.path.exists(ledger.parent / "dpmac.json"):
        fix = "this is the record inside a finished run, which must stay as it is: copy it elsewhere, and give the copy"
        raise ArgumentError("--ledger", str(ledger), fix)
    if os.path.exists(ledger) and not os.path.isfile(ledger):
        raise ArgumentError("--ledger", str(ledger), "this is a device or a pipe: give a file")
    check_file("--ledger", ledger)
    if os.path.exists(ledger):
        with _told("--ledger", ledger), ledger.open("r+b"):  # may it be appended to?
            pass
        if os.path.getsize(ledger):  # an empty file holds no ledger yet
            Ledger.read(ledger)
    else:
        _try_ledger(ledger)


def check_file(option: str, path: Path) -> None:
    """Can something be made at ``path``, and is there space for it?"""
    above = _above(path)
    with _told(option, path):
        with tempfile.TemporaryFile(dir=above) as handle:
            handle.write(TRIAL)
        free = shutil.disk_usage(above).free
    if free < FREE_SPACE:
        raise Failed(
            f"{option} {path}: {free / 2**20:.0f} MB are free in {above}, {FREE_SPACE / 2**20:.0f} MB are needed"
        )


def check_again(folder: Path, ledger: Path, scratch: Path | None) -> None:
    """Raise unless a training can go on: its folder and ledger can be written to, and the model can be put there."""
    from dpmac.saving.writing import check_free

    check_free(folder)
    check_file("run", folder / JOB)
    if ledger.exists():
        check_ledger(ledger)
    if scratch is not None:
        _check_scratch(scratch)


@contextmanager
def tried_folder(folder: Path) -> Iterator[None]:
    """Inside, a new folder is there, made as a training makes it, with its longest names in it; then it is gone.

    It is this process' own from the first moment, or an error: what is removed is never another one's run.
    """
    from dpmac.saving.writing import new_folder
    from dpmac.training.checkpoint import NAME

    check_file("--out", folder)
    where = folder.absolute()
    made = _missing(where.parent)
    try:
        with _told("--out", folder), new_folder(where) as beside:
            write_new(beside / JOB, TRIAL)
        try:
            with _told("--out", folder):
                (where / CHECKPOINT).mkdir()
                with whole_file(where / CHECKPOINT / NAME, "wb") as handle:
                    handle.write(TRIAL)
            yield
        finally:  # it is ours: somebody else's would have been an error above
            shutil.rmtree(where, ignore_errors=True)
    finally:
        _remove_empty(made)


# --- pieces -----------------------------------------------------------------------------------------------------------


def _check_new(folder: Path) -> None:
    if os.path.lexists(folder):
        stopped = (folder / JOB).exists() and not (folder / "dpmac.json").exists()
        there = "it exists:"
        if stopped:
            there = f"an interrupted run is there: resume it with  dpmac resume {folder}, or"
        raise ArgumentError("--out", str(folder), f"{there} give a folder that is not there yet")
    if ".." in folder.parts and not os.path.isdir(folder.parent):
        raise ArgumentError("--out", str(folder), "with .. in it, the folders before must be there: write it without")


def _check_inputs(inputs: Mapping[str, Path], outputs: Mapping[str, Path | None]) -> None:
    """Nothing is written over what is read, nor into a folder of rows; and public rows are not the private ones."""
    rows = inputs.get("file")
    for option, path in outputs.items():
        if path is None:
            continue
        if rows is not None and os.path.isdir(rows) and _lies_in(path, rows):
            fix = f"it lies in {rows}, the folder of the rows, which must stay as it is: give a path outside"
            raise ArgumentError(option, str(path), fix)
        if option == "--ledger":
            written = _of_ledger(path)
        else:
            written = [path]
        for other, read in inputs.items():
            if any(_same(one, read) for one in written):
                fix = f"it would be written over {other} {read}: give another path"
                raise ArgumentError(option, str(path), fix)
    public = inputs.get("--public-test")
    if rows is not None and public is not None and _lies_in(public, rows):
        fix = "these are rows that are trained on, and so private: give others, which are public"
        raise ArgumentError("--public-test", str(public), fix)


def check_apart(out: Path, ledger: Path) -> None:
    """What is made must not take the place of the ledger, nor of the files beside it."""
    for taken in _of_ledger(ledger):
        if _same(out, taken) or os.path.realpath(out) == os.path.realpath(taken):
            raise ArgumentError("--out", str(out), f"{taken} is the ledger's: give another path")


def _of_ledger(ledger: Path) -> list[Path]:
    """The ledger, the file that guards against old copies, and the one that says who writes."""
    from dpmac.extensions.rollback_guard import guard_file_of
    from dpmac.extensions.writers import writer_file_of

    return [ledger, guard_file_of(ledger), writer_file_of(ledger)]


def _check_scratch(scratch: Path) -> None:
    if not os.path.isdir(scratch):
        raise ArgumentError("--scratch", str(scratch), "there is no such folder: make it first, or give none")
    with _told("--scratch", scratch), tempfile.TemporaryFile(dir=scratch) as handle:
        handle.write(TRIAL)


def _try_ledger(ledger: Path) -> None:
    """Make a file beside a new ledger's place, under the longest name that comes to lie there, and remove it."""
    from dpmac.extensions.rollback_guard import check_none, guard_file_of

    with _told("--ledger", ledger):
        check_none(ledger)
    made = _missing(ledger.absolute().parent)
    part = part_of(guard_file_of(ledger))
    try:
        with _told("--ledger", ledger):
            ledger.absolute().parent.mkdir(parents=True, exist_ok=True)
            with created(part) as handle:
                handle.write(TRIAL)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        _remove_empty(made)


def _lies_in(path: Path, folder: Path) -> bool:
    """Whether ``path``, which need not be there, is ``folder`` or lies in it."""
    ways = (path.absolute(), Path(os.path.realpath(path)))
    return any(_same(one, folder) for way in ways for one in (way, *way.parents))


def _same(one: Path, other: Path) -> bool:
    """Whether two paths are one file or folder, and it is there."""
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def _above(path: Path) -> Path:
    """The nearest thing above that is there."""
    return next(parent for parent in path.absolute().parents if os.path.exists(parent))


def _missing(folder: Path) -> list[Path]:
    """The folders down to this one that are not there yet, the innermost first."""
    return [one for one in (folder, *folder.parents) if not os.path.exists(one)]


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


@contextmanager
def _told(option: str, path: Path) -> Iterator[None]:
    """The error for a path that the system refuses: a full disk may have space later, all else is a bad path."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise Failed(f"{option} {path}: {error.strerror}") from None
        fix = f"nothing can be written in {_above(path)} ({error.strerror})"
        raise ArgumentError(option, str(path), fix) from None
