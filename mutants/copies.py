"""Copies of the repository: one that nobody edits while the mutants run, and one of links for each mutant."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mutants.mutant import ROOT, Mutant

_NOT_COPIED = {".git", ".venv", ".carry", "runs", "site", "build", "dist", "data"}  # at the root: large, or not ours
_CACHES = shutil.ignore_patterns(
    "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "*.egg-info"
)


@contextmanager
def snapshot() -> Iterator[Path]:
    """The repository as it is now, in a folder of its own; whoever edits the original disturbs nothing."""
    with TemporaryDirectory(prefix="mutants-") as where:
        whole = Path(where) / "whole"

        def left_out(folder: str, names: list[str]) -> set[str]:
            at_root = _NOT_COPIED if Path(folder) == ROOT else set()
            return _CACHES(folder, names) | (at_root & set(names))

        shutil.copytree(ROOT, whole, ignore=left_out)
        yield whole


@contextmanager
def mutated(whole: Path, mutant: Mutant) -> Iterator[Path]:
    """A copy of the snapshot, of hard links, but for the file that the mutant changes."""
    text = mutant.applied(whole)
    copy = whole.parent / mutant.name
    shutil.copytree(whole, copy, copy_function=os.link)
    try:
        file = mutant.path(copy)
        for stale in [file, *file.parent.glob(f"__pycache__/{file.stem}.*")]:
            stale.unlink()  # the link: what it leads to is the snapshot's
        file.write_text(text, encoding="utf-8")
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def all_tests(mutants: Iterable[Mutant]) -> list[str]:
    """Every test that some mutant asks, once: what must pass where there is no mutant."""
    return sorted({test for mutant in mutants for test in mutant.asked()})
