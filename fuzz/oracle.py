"""What may become of a case: it succeeds, or it is refused in our own words and leaves nothing behind.

A refusal is ours if a ``raise`` statement of dpmac made it, of a kind that the documentation names, with a message; or
if scikit-learn's validation did, whose words every scikit-learn estimator uses. Anything else that comes out of a call
(an IndexError of NumPy, a KeyError of ours that nobody meant) is a bug.
"""

from __future__ import annotations

import ast
import hashlib
import os
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from sklearn.exceptions import NotFittedError

import dpmac
from dpmac import ArgumentError, Ledger
from dpmac.privacy.gaussian_release import BrokenPromiseError
from fuzz.cases import OWN, Action, Case, EndedError

PACKAGE = Path(dpmac.__file__).parent
KINDS = (ArgumentError, NotFittedError, ValueError, FileNotFoundError, RuntimeError)
PATIENCE = 120  # seconds after which a case hangs
_HALVES = (".part", ".new")  # what is being written


class HangsError(BaseException):
    """A case that does not come to an end."""


@dataclass(frozen=True)
class Outcome:
    """``kind`` is "done", "refused" or "bug"; ``said`` is one line, ``trace`` all there is to say of a bug."""

    kind: str
    said: str = ""
    trace: str = ""


def judged(case: Case, action: Action) -> Outcome:
    """Run ``action`` in the folder of its case, and judge what becomes of it."""
    before, paid = seen(case.folder), _paid(case)
    try:
        with _patience():
            action()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        trace = "".join(traceback.format_exception(error))
        wrong = None if isinstance(error, HangsError) else _not_ours(error)
        if isinstance(error, HangsError):
            wrong = f"no end after {PATIENCE} s"
        wrong = wrong or _left_behind(case, before, paid)
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return Outcome("bug", f"{wrong} ({said})", trace) if wrong else Outcome("refused", said)
    halves = [name for name in seen(case.folder) if name.endswith(_HALVES) and name not in before]
    if halves:
        return Outcome("bug", f"half-written: {halves}")
    return Outcome("done")


def seen(folder: Path) -> dict[str, Any]:
    """Every name under ``folder``, and a digest of each file."""
    found: dict[str, Any] = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place) / name
            plain = path.is_file() and not path.is_symlink()
            found[str(path.relative_to(folder))] = hashlib.sha1(path.read_bytes()).digest() if plain else None
    return found


def _paid(case: Case) -> dict[Path, int]:
    return {path: len(Ledger.read(path)) if path.is_file() and path.stat().st_size else 0 for path in case.ledgers}


def _left_behind(case: Case, before: dict[str, Any], paid: dict[Path, int]) -> str | None:
    """What a refusal has left on the disk. A ledger may have been begun, but it holds nothing new."""
    if _paid(case) != paid:
        return f"refused after something was paid for: {paid} became {_paid(case)}"
    own = {name for path in case.ledgers for name in (path.name, f"{path.name}.seen")}
    after = {name: digest for name, digest in seen(case.folder).items() if name not in own}
    was = {name: digest for name, digest in before.items() if name not in own}
    if after != was:
        return f"the refusal changed {sorted(n for n in {*after, *was} if after.get(n, 0) != was.get(n, 0))}"
    return None


def _not_ours(error: BaseException) -> str | None:
    """Why an error is not one of ours; None if it is."""
    if isinstance(error, EndedError):
        return None
    if not isinstance(error, KINDS) and not (isinstance(error, TypeError) and _of_sklearn(error)):
        return None if str(error) == OWN else "not one of our kinds of error"
    if isinstance(error, BrokenPromiseError):
        return "a promise was broken"
    if not str(error).strip():
        return "no message"
    frame, line = _innermost(error)
    if frame is None:
        return None
    if _of_sklearn(error):
        return None
    where = Path(frame.f_code.co_filename)
    if not where.is_relative_to(PACKAGE) or line not in _raising(where):
        return f"not raised by us, but in {where.name}, line {line}"
    return None


def _innermost(error: BaseException) -> tuple[FrameType | None, int]:
    found = error.__traceback__
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    return (None, 0) if found is None else (found.tb_frame, found.tb_lineno)


def _of_sklearn(error: BaseException) -> bool:
    """Raised in the midst of scikit-learn's checks of X and y, called by an estimator."""
    paths = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
    return any("/sklearn/utils/" in path or "/sklearn/base.py" in path for path in paths)


@cache
def _raising(path: Path) -> frozenset[int]:
    """The lines of a file's ``raise`` statements, all of each."""
    tree = ast.parse(path.read_text("utf-8"))
    spans = (range(n.lineno, (n.end_lineno or n.lineno) + 1) for n in ast.walk(tree) if isinstance(n, ast.Raise))
    return frozenset(line for span in spans for line in span)


@contextmanager
def _patience() -> Iterator[None]:
    def over(*_: Any) -> None:
        raise HangsError

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
