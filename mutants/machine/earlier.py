"""Mutants that were asked on an earlier commit, in code that is now as it was there.

Verdicts are kept beside the repository and not in it. Where they are lost, or were made elsewhere, the page of an
earlier commit still says that no mutant was left. That holds for a mutant here if the function it is in has not
changed since (of a statement outside functions, the statement). The tests may have changed: it is not a verdict, and
has a column of its own.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable
from functools import cache

from mutants.machine.mutation import Mutation, mutations
from mutants.machine.source import MODULE, Source
from mutants.mutant import PACKAGE, ROOT


def unchanged_since(commit: str) -> Callable[[Mutation], bool]:
    """Whether a mutant is one of the commit's as well, of the same code."""

    @cache
    def source(file: str) -> Source:
        command = ["git", "show", f"{commit}:{PACKAGE / file}"]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return Source(file, found.stdout)  # empty if there was no such file

    @cache
    def outside_functions(file: str) -> set[tuple[str, str]]:
        return {_statement(mutation) for mutation in mutations(source(file)) if mutation.home == MODULE}

    def unchanged(mutation: Mutation) -> bool:
        before = source(mutation.file)
        if mutation.home == MODULE:
            return _statement(mutation) in outside_functions(mutation.file)
        return mutation.home in before.functions and before.digest(mutation.home) == mutation.digest

    return unchanged


def _statement(mutation: Mutation) -> tuple[str, str]:
    return mutation.name, "" if mutation.statement is None else ast.unparse(mutation.statement)
